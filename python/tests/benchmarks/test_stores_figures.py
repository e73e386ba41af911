"""What the benchmark ``stores`` reckons from rows in the sink."""

from __future__ import annotations

import pytest

from laneshift_bench.report import Report
from laneshift_bench.stores import EVERY_S, HEADER, Change, _add_rescales, _median_gap_s

MS = 1000.0 * EVERY_S


def test_normal_gap_is_between_batches_not_within_one() -> None:
    slots = [at for batch in range(6) for at in (batch * MS, batch * MS + 100)]
    assert _median_gap_s(slots, 0) == pytest.approx(EVERY_S - 0.1)
    assert _median_gap_s(slots, 100 * MS) == 0.0


def test_one_stall_is_no_normal_gap() -> None:
    slots = [0.0, MS, 2 * MS, 5 * MS, 6 * MS]
    assert _median_gap_s(slots, 0) == pytest.approx(EVERY_S)
    stalled = Change(gap_s=3 * EVERY_S, before_s=1.0, after_s=EVERY_S, took_s=1.0, rate=1.0)
    assert stalled.still_s == pytest.approx(2 * EVERY_S)


def test_the_longest_round_meets_the_goal_or_none_does() -> None:
    def change(gap_s: float) -> dict[str, float]:
        return {"gap_s": gap_s, "before_s": 2.0, "after_s": 1.0, "took_s": 5.0, "rate": 0.9}

    report = Report("stores", "", "", HEADER)
    ours = [[change(2.5), change(2.0)], [change(4.0), change(1.0)]]
    stocks = [[change(9.0), change(9.0)]] * 2
    found = {"state_rows": 7, "sides": {"laneshift": ours, "resource-centric": stocks}}
    _add_rescales(report, "5 keys", found)
    met = {goal.what: (goal.value, goal.met) for goal in report.goals}
    assert met["5 keys, 4 -> 16: stands still at most, s"] == (2.0, False)
    assert met["5 keys, 16 -> 4: stands still at most, s"] == (0.0, True)
