"""Lot sizing of cores: small cases by hand, and against trying every count."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from laneshift.models.holding import Load, Prices, choose, choose_all

PRICES = Prices(0.12, 0.3)


def load(
    rates: list[float],
    upper: list[float] | None = None,
    *,
    queue: float = 0.0,
    room: tuple[float, float] = (0.0, 0.0),
    full: float = 0.0,
    blur: float = 0.0,
    drain: float = 0.0,
) -> Load:
    """Rates in cores: one core serves one row per second, windows of one second."""
    both = np.array([rates, upper or rates])
    return Load(both, np.full(len(rates), blur), queue, 1.0, 1.0, room, full, drain)


def cores(case: Load, held: int, prices: Prices = PRICES, least: int = 1) -> int:
    return choose(case, held, least, 10**6, prices).cores


def test_constant_load_takes_what_it_needs_and_keeps_it() -> None:
    assert cores(load([9.2] * 4), 3) == 10
    assert cores(load([9.2] * 4), 10) == 10
    assert cores(load([9.2] * 4), 14) == 10  # 4 idle cores for 4 windows outweigh the change


def test_a_short_dip_is_held_through_and_a_long_one_is_not() -> None:
    # Held: 6 idle cores once, 6 / 4 a window. Left: (0.12 * 10 + 0.3 * 6) / 1 = 3 for one window.
    assert cores(load([4.0, 10.0, 10.0, 10.0]), 10) == 10
    # Left: 3 / 4 a window; held: 6.
    assert cores(load([4.0] * 4), 10) == 4


def test_a_bump_is_provided_for_at_once_if_that_saves_two_changes() -> None:
    # From 2 to 5, then 6: 2.1 now and 1 later, or 1.92 + 2 idle cores over three windows.
    assert cores(load([5.0, 6.0, 5.0, 5.0]), 2, Prices(0.2, 0.3)) == 6
    assert cores(load([5.0, 6.0, 5.0, 5.0]), 2, Prices(0.0, 0.01)) == 5


def test_a_buffer_lets_fewer_cores_do() -> None:
    assert cores(load([10.0, 12.0, 8.0, 10.0], room=(3.0, 0.0), full=4.0), 1) == 10
    assert cores(load([10.0, 12.0, 8.0, 10.0]), 1) > 10


def test_what_is_held_rides_out_a_burst_that_heals() -> None:
    burst = [13.0, 6.0, 10.0, 10.0]
    assert cores(load(burst, room=(2.0, 0.0), full=4.0), 10) == 10
    assert cores(load(burst, room=(2.0, 0.0), full=2.5), 10) > 10  # rows would be lost
    assert cores(load([13.0, 10.0, 10.0, 10.0], room=(2.0, 0.0), full=4.0), 10) > 10  # stays


def test_new_counts_have_a_margin_that_held_ones_do_not_need() -> None:
    case = load([10.0] * 4, [10.6, 11.2, 11.8, 11.9])
    assert cores(case, 10) == 10
    assert cores(case, 5) == 12


def test_what_is_not_known_to_half_a_core_is_not_rounded_up() -> None:
    assert cores(load([10.4] * 4, blur=0.4), 1) == 11
    assert cores(load([10.4] * 4, blur=0.6), 1) == 10


def test_a_backlog_is_drained_in_its_time() -> None:
    """3 cores for what comes and 60 rows / 5 windows for what waits, not 60 at once."""
    assert cores(load([3.0] * 4, queue=60.0), 3) == 63
    assert cores(load([3.0] * 4, queue=60.0, drain=5.0), 3) == 15
    assert cores(load([3.0] * 4, queue=60.0, drain=60.0), 3) == 4
    # one that has room is left alone, and a time below a window is a window
    assert cores(load([3.0] * 4, queue=60.0, room=(60.0, 0.0), full=99.0, drain=5.0), 3) == 3
    assert cores(load([3.0] * 4, queue=60.0, drain=0.5), 3) == 63


def test_the_most_there_is_if_nothing_fits() -> None:
    found = choose(load([50.0] * 3), 4, 1, 8, PRICES)
    assert found.cores == 8
    np.testing.assert_allclose(found.served, 50.0)  # beyond what can be planned: all that comes


@given(st.integers(0, 10**6))
@settings(max_examples=150, deadline=None)
def test_no_other_count_is_cheaper(seed: int) -> None:
    """Against all counts, by the definition."""
    rng = np.random.default_rng(seed)
    h = int(rng.integers(1, 6))
    rates = rng.uniform(0, 20, h).tolist()
    room = float(rng.choice([0.0, 3.0, 30.0]))
    queue, held = float(rng.uniform(0, room + 1)), int(rng.integers(1, 25))
    case = load(rates, queue=queue, room=(room, 0.0), full=room)

    def price(k: int) -> float:
        cost = 0.0 if k == held else 0.12 * max(k, held) + 0.3 * abs(k - held)
        level, best = queue, math.inf
        for t, rate in enumerate(rates):
            rows = level + rate
            level = max(0.0, rows - k)
            if level > room + 1e-6:
                break
            cost += max(0.0, k - rows)
            best = min(best, cost / (t + 1))
        return best

    least = max(1, math.ceil(min(rates)))
    chosen = cores(case, held, least=least)
    cheapest = min(price(k) for k in [held, *range(least, 120)])
    assert price(chosen) <= cheapest + 1e-6


@given(st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_many_at_once_are_each_as_if_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    h = int(rng.integers(1, 6))
    cases = [
        load(
            rng.uniform(0, 40, h).tolist(),
            queue=float(rng.choice([0.0, 5.0, 300.0])),
            room=[(math.inf, 0.0), (0.0, 0.5), (7.0, 0.0)][int(rng.integers(3))],
            full=float(rng.choice([10.0, math.inf])),
            blur=float(rng.choice([0.0, 0.7])),
            drain=float(rng.choice([0.0, 3.0])),
        )
        for _ in range(5)
    ]
    held, least, most = (rng.integers(1, n, 5).tolist() for n in (40, 5, 60))
    together = choose_all(cases, held, least, most, PRICES)
    for found, case, h0, l0, m0 in zip(together, cases, held, least, most, strict=True):
        alone = choose(case, h0, l0, m0, PRICES)
        assert found.cores == alone.cores
        assert np.array_equal(found.served, alone.served)


def test_none_at_all() -> None:
    assert choose_all([], [], [], [], PRICES) == []
