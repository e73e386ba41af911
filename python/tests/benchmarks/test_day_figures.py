"""The arithmetic of the benchmark of a day: no Spark."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from laneshift_bench.day import (
    INCIDENTS,
    LIMIT_S,
    PARTITIONS,
    RATE,
    TAIL_S,
    TRIGGER_S,
    Day,
    Lived,
    groups_of,
    sides,
    thinned,
)

DAY = Day(1800.0)


def test_a_day_has_its_curve_and_its_burst() -> None:
    rates = np.array([rate for rate, _ in DAY.stages])
    assert sum(seconds for _, seconds in DAY.stages) == pytest.approx(1800)
    assert rates[:6].mean() < 0.35 * RATE < 1.5 * RATE < rates[66:78].mean()
    # Each step is ten minutes: 14:00 to 14:40 are four of them.
    assert rates[84:88].min() > 1.8 * max(rates[80:84].max(), rates[88:92].max())


def test_rows_are_due_when_the_stages_say() -> None:
    (first, seconds), (second, _), *_ = DAY.stages
    rows = np.array([0.0, first * seconds / 2, first * seconds + second])
    assert DAY.due_at(rows) == pytest.approx([0, seconds / 2, seconds + 1])
    total = sum(rate * length for rate, length in DAY.stages)
    beyond = np.array([total + DAY.stages[-1][0]])
    assert DAY.due_at(beyond) == pytest.approx([1801])


def test_latency_is_that_of_every_row() -> None:
    first, seconds = DAY.stages[0]
    rows = int(first * seconds)
    lived = Lived(batches=[(seconds, 1.0, rows), (seconds + 5, LIMIT_S + 1, 1)])
    latency = lived.latency_s(DAY)
    assert len(latency) == rows + 1
    assert latency[0] == pytest.approx(seconds + 1)
    assert latency[rows - 1] == pytest.approx(1, abs=2 / first)
    assert latency[rows] == pytest.approx(5 + LIMIT_S + 1, abs=2 / first)


def test_back_is_when_the_last_late_batch_began() -> None:
    begin, _ = DAY.window("burst")
    late, lived = TRIGGER_S + 1, Lived()
    lost, _ = DAY.window("lost executor")
    times = {begin - 5: late, begin + 5: late, begin + 11: late, begin + 20: 1.0, lost + 5: late}
    lived.batches = [(at, took, 1) for at, took in times.items()]
    assert lived.back_s(DAY, "burst") == pytest.approx(11)
    assert lived.back_s(DAY, "lost executor") == pytest.approx(5)
    assert Lived(batches=[(begin, 1.0, 1)]).back_s(DAY, "burst") == 0


def test_the_oracle_has_more_lanes_for_a_hot_key_and_a_burst() -> None:
    needed = DAY.needed()
    assert len(needed) == 1800 / TRIGGER_S and needed.min() >= PARTITIONS

    def batch(hour: float) -> int:
        return int(needed[int(DAY.at(hour) / TRIGGER_S)])

    assert batch(14.4) > batch(13.5) and batch(14.4) > batch(15.5)
    even = DAY.oracle(False).lanes()
    begin, end = DAY.window("hot key")
    during = slice(int(begin / TRIGGER_S) + 1, int(end / TRIGGER_S))
    assert (needed[during] >= even[during]).all() and (needed[during] > even[during]).any()
    assert (needed <= 16).all()


def test_peak_has_what_the_greatest_load_needs() -> None:
    by_name = {side.name: side for side, _ in sides(DAY, ["laneshift"])}
    assert list(by_name) == ["stock", "peak", "laneshift"]
    lanes = int(by_name["peak"].options["lanes"])
    assert lanes * PARTITIONS >= int(DAY.oracle(False).lanes().max())
    assert by_name["stock"].partitions == 16 and not by_name["stock"].options


def test_incidents_do_not_overlap() -> None:
    spans = sorted(INCIDENTS.values())
    assert all(a[1] < b[0] for a, b in pairwise(spans))


def test_only_changes_are_kept() -> None:
    assert thinned([(0, 2), (1, 2), (2, 3), (3, 2), (4, 2)]) == [(0, 2), (2, 3), (3, 2)]


def test_rows_without_an_answer_are_late() -> None:
    """A side that is behind when the day ends is not let off what it has not done."""
    lived = Lived(held=[(0, 16)], batches=[(5.0, 1.0, DAY.rows - 100)])
    found = lived.figures(DAY)
    assert found["unanswered"] == 100 and found["rows"] == DAY.rows
    latency = lived.latency_s(DAY, DAY.seconds + TAIL_S)
    assert len(latency) == DAY.rows
    assert latency[-100:].min() > TAIL_S > LIMIT_S
    # Rows behind the day do not count: nobody has waited for them to the end.
    lived.batches.append((DAY.seconds, 1.0, 5000))
    assert lived.figures(DAY)["unanswered"] == 0
    assert len(lived.latency_s(DAY, DAY.seconds + TAIL_S)) == DAY.rows


def test_sides_take_turns_in_groups() -> None:
    every = sides(DAY, ["elasticutor", "laneshift"])
    names = [[side.name for side, _ in group] for group in groups_of(every, 2)]
    assert names == [["stock", "peak"], ["elasticutor", "laneshift"]]
    assert len(groups_of(every, 1)) == 4 and groups_of(every, 4) == [every]
    assert [len(group) for group in groups_of(every, 3)] == [3, 1]
