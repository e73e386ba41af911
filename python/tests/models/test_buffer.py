"""Buffer arithmetic of CRAA and OERA: values worked by hand and closed-form properties."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laneshift.errors import InputError
from laneshift.models.buffer import (
    feedback_choice,
    input_for_target,
    rate_change,
    raw_level,
    throttle_room,
    transfer,
    trend_verdict,
    unit_change,
    units_for_target,
    units_to_keep_up,
)
from laneshift.models.forecast import LastRate
from policies.known import KnownRates


@pytest.mark.parametrize(
    ("cr", "p", "i", "bo", "out"),
    [(1, 1000, 800, 2000, 1000), (1, 1000, 800, 500, 900), (0.5, 1000, 1200, 0, 500)],
)
def test_transfer_vectors(cr: float, p: float, i: float, bo: float, out: float) -> None:
    assert transfer(cr, p, i, bo, 5.0) == out


def test_o4_scale_out_vector() -> None:
    """CRAA 16: O4, PN=5, BO=400, I1=1400: RBO 1.2, CP 200, CPN +1, end occupancy 0.70."""
    raw = raw_level(400, 1400, 1000, 5)
    assert raw / 2000 == pytest.approx(1.2)
    change = rate_change(raw, 2000, 0.7, 5)
    assert change == pytest.approx(200) and unit_change(change, 200) == 1
    assert raw_level(400, 1400, 1200, 5) / 2000 == pytest.approx(0.7)


def test_o4_scale_in_vector() -> None:
    """CRAA 16: O4, PN=10, BO=0, I1=1100: CP -1180; floor -6, truncate -5, guard -900 and -4."""
    raw = raw_level(0, 1100, 2000, 5)
    assert raw / 2000 == pytest.approx(-2.25)
    change = rate_change(raw, 2000, 0.7, 5)
    assert change == pytest.approx(-1180)
    assert unit_change(change, 200, "floor") == -6 and unit_change(change, 200) == -5
    assert raw_level(0, 1100, 200 * 4, 5) / 2000 == pytest.approx(0.75)
    assert raw_level(0, 1100, 200 * 5, 5) / 2000 == pytest.approx(0.25)
    assert unit_change(max(change, 1100 - 2000), 200) == -4


def test_o1_example_of_the_rounding_correction() -> None:
    """CRAA 13.5: PN=12, I=5000, BO=0: CP -1007, floor -3 loses 2450 rows, truncate -2 none."""
    change = rate_change(raw_level(0, 5000, 6000, 5), 50, 0.7, 5)
    assert change == pytest.approx(-1007)
    assert unit_change(change, 500, "floor") == -3 and unit_change(change, 500) == -2
    assert raw_level(0, 5000, 4500, 5) - 50 == pytest.approx(2450)


def test_o5_example_of_the_settle_guard() -> None:
    """CRAA 13.6: step 1000 -> 6000 at O5: CP 4300, 53 units, then RBO 1.4 and 7 more."""
    change = rate_change(raw_level(0, 6000, 1000, 5), 5000, 0.7, 5)
    assert change == pytest.approx(4300) and 10 + unit_change(change, 100) == 53
    second = raw_level(3500, 6000, 5300, 5)
    assert second / 5000 == pytest.approx(1.4)
    assert 53 + unit_change(rate_change(second, 5000, 0.7, 5), 100) == 60


def test_feedback_vector() -> None:
    """CRAA 16: UI 870 rows/s; U: raw -500, d1 1700, d2 2200, d = P = 1000, UO 900."""
    assert input_for_target(850, 6900, 10000, 0.7, 5) == pytest.approx(870)
    assert raw_level(6900, 900, 850, 5) / 10000 == pytest.approx(0.715)
    raw = raw_level(0, 900, 1000, 5)
    assert raw == -500
    assert throttle_room(raw, 10000, 0.8, 900 - 1000, 1e9, 5) == pytest.approx(1700)
    assert throttle_room(raw, 10000, 1.5, 900 - 1000, 1e9, 5) == pytest.approx(2200)
    cut = throttle_room(raw, 10000, 0.8, 900 - 1000, 1000, 5)
    assert cut == 1000
    assert transfer(1, 1000, 900, 0, 5) - transfer(1, 1000 - cut, 900, 0, 5) == 900


@pytest.mark.parametrize(
    ("direction", "rate_after", "raw", "expected"),
    [
        (1, 110, 50, True),
        (1, 90, 50, False),
        (1, 90, 100, True),
        (1, 100, 50, True),
        (-1, 90, 0, True),
        (-1, 100, 0, True),
        (-1, 110, 0, False),
    ],
)
def test_verdict_table(direction: int, rate_after: float, raw: float, expected: bool) -> None:
    assert trend_verdict(direction, 100, rate_after, raw, 100) is expected


def test_verdict_tolerance_calls_small_trends_flat() -> None:
    assert trend_verdict(-1, 100, 101.9, 0, 100, 0.02)
    assert not trend_verdict(-1, 100, 102.1, 0, 100, 0.02)
    assert trend_verdict(1, 0.0, 0.0, 0, 100)


@pytest.mark.parametrize(
    ("need", "chosen"),
    [(100, "c"), (501, "ca"), (900, "cab"), (970, "cabd"), (971, ""), (0, "")],
)
def test_feedback_choice_vectors(need: float, chosen: str) -> None:
    offers = {ord("a"): 300.0, ord("b"): 120.0, ord("c"): 500.0, ord("d"): 50.0}
    assert feedback_choice(offers, need) == [ord(c) for c in chosen]


@pytest.mark.parametrize(
    ("rate", "level", "count"),
    [(1500, 500, 12), (1500, 5000, 17), (600, 2500, 5), (600, 0, 3), (100, 0, 1)],
)
def test_oera_vectors(rate: float, level: float, count: int) -> None:
    """OERA 13 with P_E=100, dt=10, Bs=5000, target 0.7."""
    assert units_for_target(rate, level, 5000, 0.7, 100, 10) == count


def test_oera_end_levels() -> None:
    assert raw_level(500, 1500, 1200, 10) / 5000 == pytest.approx(0.70)
    assert raw_level(5000, 1500, 1200, 10) / 5000 == pytest.approx(1.6)
    assert raw_level(5000, 1500, 1700, 10) / 5000 == pytest.approx(0.60)


@given(
    st.floats(0, 1e5), st.floats(0, 1e5), st.floats(1, 1e5), st.floats(0.1, 1), st.floats(1, 1e4)
)
@settings(max_examples=100, deadline=None)
def test_the_count_is_the_smallest_that_ends_at_the_target(
    rate: float, level: float, capacity: float, target: float, unit: float
) -> None:
    count = units_for_target(rate, level, capacity, target, unit, 5.0)
    slack = 1e-6 * max(1.0, rate, capacity, level, unit * count)
    assert raw_level(level, rate, unit * count, 5.0) <= capacity * target + slack * 5
    if count > 1:
        assert raw_level(level, rate, unit * (count - 1), 5.0) > capacity * target - slack * 5


def test_keeping_up() -> None:
    assert [units_to_keep_up(r, 100) for r in (0, 1, 100, 100.5, 600)] == [1, 1, 1, 2, 6]
    assert units_to_keep_up(0.3 * 3, 0.3) == 3


def test_known_rates_look_ahead_and_last_rate_does_not() -> None:
    known = KnownRates((1.0, 5.0, 9.0)).observe(1.0)
    assert [known.forecast(h) for h in (1, 2, 3)] == [5.0, 9.0, 9.0]
    assert LastRate().observe(4.0).forecast(7) == 4.0


def test_wrong_options_are_listed() -> None:
    with pytest.raises(InputError, match="floor, truncate"):
        unit_change(1.0, 1.0, "ceiling")
