"""Batches with another number of state partitions: tables by hand, and what holds for all."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneshift.errors import InputError
from laneshift.models.stores import (
    COMMIT_BYTES_PER_S,
    GAIN,
    MOST_WAVES,
    BatchCost,
    Commits,
    Rebuild,
    payback_s,
    split_commits,
)

SECONDS = st.floats(0.0, 100.0)
COSTS = st.builds(
    BatchCost,
    partitions=st.integers(1, 400),
    slots=st.integers(1, 64),
    beside_s=st.floats(0.01, 10.0),
    work_s=SECONDS,
    spread_s=SECONDS,
    per_store_s=st.floats(0.0, 2.0),
    excess_s=st.floats(0.0, 5.0),
)


def cost(partitions: int, slots: int, **seconds: float) -> BatchCost:
    usual = {"beside_s": 0.5, "work_s": 0.0, "spread_s": 0.0, "per_store_s": 0.1}
    return BatchCost(partitions, slots, **(usual | seconds))


@pytest.mark.parametrize(
    ("partitions", "expected"),
    [(200, 0.5 + 100 * 0.11), (8, 0.5 + 4 * 0.225), (2, 0.5 + 0.6), (3, 0.5 + 2 * (0.1 + 1 / 3))],
)
def test_tasks_of_one_size_come_in_waves(partitions: int, expected: float) -> None:
    case = cost(200, 2, work_s=0.8, spread_s=0.2)
    if partitions == 200:
        case = cost(200, 2, work_s=1.5, spread_s=0.5)
    assert case.batch_s(partitions) == pytest.approx(expected)


def test_a_hot_key_stays_one() -> None:
    even, hot = cost(2, 16, work_s=16.0), cost(2, 16, work_s=16.0, excess_s=6.0)
    assert even.batch_s(16) == pytest.approx(0.5 + 1.1)
    assert hot.batch_s(16) == pytest.approx(0.5 + 1.1 + 6.0)


@pytest.mark.parametrize(
    ("case", "least", "most", "best"),
    [
        # 200 stores on two cores: as few as are near the shortest batch
        (cost(200, 2), 1, None, 4),
        (cost(200, 2, beside_s=2.0), 1, None, 8),
        (cost(200, 2), 8, None, 8),
        # two partitions with minutes of work and of commits on 16 cores
        (cost(2, 16, work_s=60.0), 1, None, 64),
        (cost(2, 16, spread_s=60.0, per_store_s=1.5), 1, None, 16),
        (cost(2, 16, work_s=60.0), 1, 12, 12),
        # one core: no number but the fewest is better
        (cost(16, 1, beside_s=0.0), 1, None, 1),
    ],
)
def test_the_best_number(case: BatchCost, least: int, most: int | None, best: int) -> None:
    assert case.best(least, most) == best


@given(COSTS, st.integers(1, 300), st.integers(1, 300))
def test_the_best_number_is_within_its_bounds_and_near_the_shortest(
    case: BatchCost, least: int, more: int
) -> None:
    most = least + more
    found = case.best(least, most)
    assert least <= found <= most
    top = min(most, max(MOST_WAVES * case.slots, case.partitions, least))
    shortest = min(case.batch_s(n) for n in range(least, top + 1))
    assert case.batch_s(found) <= 1.25 * shortest + 1e-9
    # Whoever has it does not want another one.
    assert case.batch_s(case.best(least, most)) * (1 - GAIN) < shortest + 1e-9


@given(COSTS)
def test_more_partitions_than_tasks_at_a_time_never_shorten_a_batch_of_stores_alone(
    case: BatchCost,
) -> None:
    if case.per_store_s > 0 and case.work_s + case.spread_s == 0:
        assert case.best() <= MOST_WAVES * case.slots


def test_what_a_rescale_costs_and_when_it_is_earned() -> None:
    case = cost(200, 2)
    rebuild = Rebuild(bytes_per_s=50e6, pause_s=0.8)
    assert rebuild.cost_s(case, 100e6, 8) == pytest.approx(0.8 + (2.0 + 8 * 0.1) / 2)
    assert payback_s(5.0, 10.0, 11.0) == pytest.approx(5.5)
    assert payback_s(5.0, 0.0, 11.0) == math.inf
    assert payback_s(5.0, -1.0, 11.0) == math.inf


def test_commits_are_split_by_what_is_written_until_two_numbers_say_more() -> None:
    written = COMMIT_BYTES_PER_S
    assert split_commits([Commits(10, 3.0, written)]) == pytest.approx((1.0, 0.2))
    assert split_commits([Commits(10, 0.5, written)]) == (0.5, 0.0)
    # 0.1 s for each store, and 0.25 s for each MB
    assert split_commits([Commits(200, 20.5, 2e6), Commits(8, 1.3, 2e6)]) == pytest.approx(
        (0.5, 0.1)
    )
    # The same where the batches are shorter and write less.
    assert split_commits([Commits(200, 20.5, 2e6), Commits(8, 1.05, 1e6)]) == pytest.approx(
        (0.25, 0.1)
    )


def test_numbers_that_do_not_tell_are_left_out() -> None:
    one = split_commits([Commits(12, 3.0, 1e6)])
    assert split_commits([Commits(10, 9.0, 1e6), Commits(12, 3.0, 1e6)]) == one
    assert split_commits([Commits(120, 9.0, 1e7), Commits(12, 3.0, 1e6)]) == one  # as much a store


@given(
    st.lists(
        st.builds(Commits, st.integers(1, 500), st.floats(0, 1e3), st.floats(0, 1e9)), min_size=1
    )
)
def test_a_split_is_of_what_was_measured(seen: list[Commits]) -> None:
    spread, per_store = split_commits(seen)
    assert spread >= 0 and per_store >= 0
    assert spread + seen[-1].partitions * per_store == pytest.approx(seen[-1].commit_s)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("partitions", {"partitions": 0}),
        ("partitions", {"partitions": -3}),
        ("slots", {"slots": 0}),
        ("work_s", {"work_s": -1.0}),
        ("per_store_s", {"per_store_s": math.nan}),
    ],
)
def test_wrong_costs_are_named(field: str, values: dict[str, float]) -> None:
    right = {"partitions": 1, "slots": 1, "beside_s": 0.0, "work_s": 0.0, "spread_s": 0.0}
    with pytest.raises(InputError, match=field):
        BatchCost(**({"per_store_s": 0.0} | right | values))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="seen"):
        split_commits([])
    with pytest.raises(InputError, match="bytes_per_s"):
        Rebuild(bytes_per_s=0.0)
