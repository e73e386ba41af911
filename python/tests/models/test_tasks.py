"""Batches with another number of tasks: tables by hand, and what holds for all."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneshift.errors import InputError
from laneshift.models.tasks import (
    GAIN,
    ROOM,
    TASK_S,
    Taken,
    TaskCost,
    bounds,
    busiest,
    enough,
    numbers,
    span_s,
    spans,
    steps,
)

EACH = st.lists(st.floats(0.0, 10.0), min_size=1, max_size=80)


def cost(each: list[float], slots: int, tasks: int, took_s: float, **more: float) -> TaskCost:
    now = Taken(tasks, took_s, more.get("rows", 100.0), more.get("by_rows", 0.5))
    return TaskCost(tuple(each), slots, now)


def test_ranges_are_those_of_the_plugin() -> None:
    # The vectors of Flink's own classes, as in TaskRangesSuite.
    assert bounds(10, 3) == [0, 4, 7, 10]
    assert bounds(10, 4) == [0, 3, 5, 8, 10]


@given(EACH, st.integers(1, 80))
def test_every_partition_is_one_tasks_and_sizes_differ_by_one_at_most(
    each: list[float], tasks: int
) -> None:
    tasks = min(tasks, len(each))
    edges = bounds(len(each), tasks)
    sizes = [b - a for a, b in itertools.pairwise(edges)]
    assert sum(sizes) == len(each) and max(sizes) - min(sizes) <= 1
    assert sum(spans(each, tasks)) == pytest.approx(sum(each))


@given(EACH, st.integers(1, 80), st.integers(1, 16))
def test_tasks_take_as_long_as_the_longest_and_as_all_together(
    each: list[float], tasks: int, slots: int
) -> None:
    tasks = min(tasks, len(each))
    took = span_s(each, tasks, slots, 0.1)
    least = max(busiest(each, tasks) + 0.1, (sum(each) + 0.1 * tasks) / slots)
    assert least - 1e-9 <= took <= sum(each) + 0.1 * tasks + 1e-9
    assert took <= least + busiest(each, tasks) + 0.1 + 1e-9  # no slot is idle while a task waits


def test_few_numbers_are_tried() -> None:
    assert numbers(200, 2) == [2, 4, 8, 200]
    assert numbers(6, 2) == [2, 4, 6]
    assert numbers(4, 16) == [4]
    assert steps(64)[:8] == [1, 2, 3, 4, 6, 8, 12, 16] and steps(64)[-1] == 64
    assert steps(5) == [1, 2, 3, 4, 5]


def test_many_small_partitions_are_better_in_few_tasks() -> None:
    small = cost([0.001] * 400, slots=4, tasks=400, took_s=1.6)
    assert small.batch_s(4) == pytest.approx(1.6 - 99 * TASK_S, rel=0.01)
    assert small.best() == 4
    # of stores that take their time nobody gains anything
    large = cost([0.1] * 400, slots=4, tasks=400, took_s=11.5)
    assert large.best() == 400


def test_a_range_that_needs_more_than_its_core_is_taken_apart() -> None:
    hot = [1.0, 1.0, 1.0, 1.0] + [0.05] * 12
    assert cost(hot, slots=4, tasks=4, took_s=4.3).best() in (8, 16)
    # executors have come
    assert cost([1.0] * 16, slots=8, tasks=2, took_s=8.5).best() == 8
    assert cost([1.0] * 16, slots=2, tasks=2, took_s=8.5).best() == 2


def test_what_was_measured_counts_more_than_what_is_expected() -> None:
    now = Taken(400, 1.6, 100.0, 0.2)
    small = TaskCost((0.001,) * 400, 4, now, (Taken(4, 1.7, 100.0, 0.2), Taken(8, 0.9, 50.0, 1.0)))
    assert small.batch_s(4) == 1.7
    assert small.batch_s(8) == pytest.approx(1.8)
    assert small.best() == 16


def test_batches_of_far_more_rows_say_nothing() -> None:
    assert Taken(4, 8.0, 1000.0, 0.5).with_rows(240.0) is None
    assert Taken(4, 8.0, 1000.0, 0.5).with_rows(500.0) == pytest.approx(6.0)
    assert Taken(4, 8.0, 1000.0, 0.5).with_rows(10_000.0) == pytest.approx(44.0)
    assert Taken(4, 8.0, 0.0, 0.5).with_rows(10_000.0) == 8.0


@given(EACH, st.integers(1, 80), st.integers(1, 16), st.floats(0.01, 100.0))
def test_the_best_number_is_expected_to_be_better_or_is_the_one_that_there_is(
    each: list[float], tasks: int, slots: int, took_s: float
) -> None:
    case = cost(each, slots, min(tasks, len(each)), took_s)
    found = case.best()
    assert 1 <= found <= len(each)
    assert all(case.batch_s(n) >= 0.0 for n in numbers(len(each), slots))
    if found != case.now.tasks:
        assert case.batch_s(found) <= (1 - GAIN) * took_s + 1e-9
        assert found >= min(slots, len(each))  # no slot is left idle for good


@given(EACH, st.integers(1, 80), st.floats(0.1, 1.0))
def test_in_real_time_mode_no_task_is_busier_than_the_target_if_that_can_be(
    each: list[float], tasks: int, target: float
) -> None:
    tasks = min(tasks, len(each))
    found = enough(each, tasks, target)
    if found < len(each):
        assert busiest(each, found) <= target
    # Whoever has it does not want another one.
    assert enough(each, found, target) == found
    if found < tasks and found < len(each):
        assert busiest(each, found) <= (1 - ROOM) * target


def test_a_night_and_a_day() -> None:
    night, day = [0.03] * 64, [0.5] * 64
    assert enough(night, 64, 0.7) == 4
    assert enough(day, 4, 0.7) == 64
    assert enough([0.9] + [0.01] * 63, 64, 0.7) == 64  # no number is enough for that one
    assert enough([0.0] * 8, 8, 0.7) == 1


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("tasks", lambda: cost([1.0], 1, 1, 1.0).batch_s(2)),
        ("tasks", lambda: cost([1.0], 1, 1, 1.0).batch_s(0)),
        ("tasks", lambda: Taken(0, 1.0, 1.0, 0.0)),
        ("took_s", lambda: Taken(1, 0.0, 1.0, 0.0)),
        ("by_rows", lambda: Taken(1, 1.0, 1.0, 1.5)),
        ("rows", lambda: Taken(1, 1.0, math.nan, 0.5)),
        ("slots", lambda: numbers(3, 0)),
        ("target", lambda: enough([1.0], 1, 0.0)),
    ],
)
def test_wrong_values_are_named(field: str, wrong: Callable[[], object]) -> None:
    with pytest.raises(InputError, match=field):
        wrong()
