"""The field's table and goals, from runs that are made up: no system."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from laneshift.errors import InputError
from laneshift_bench import field
from laneshift_bench.field_report import HEADER, by_side, goals, row
from laneshift_field.cases import CASES
from laneshift_field.judge import Figures, Phase
from laneshift_field.systems import Run


def made(case: str, system: str, **figures: Any) -> dict[str, Any]:
    phase = {"rows": 9, "p50_ms": 1.0, "p99_ms": 4.0, "p999_ms": 5.0, "max_ms": 6.0}
    return {
        "case": case, "system": system, "ran": "a day", "gap_s": 1.0, "gaps_s": [1.0],
        "full_s": [2.0], "lost": 0, "too_many": 0, "again": 0, "every": phase, "before": phase,
        "after": phase, "rows_per_s": 100.0, "cpu_s": 3.0, "rss_mb": 4, "changes": [],
    } | figures  # fmt: skip


def found(*runs: dict[str, Any]) -> dict[str, Any]:
    return {goal.what: goal for goal in goals(by_side(runs))}


def test_a_line_has_all_rounds_and_says_what_never_came() -> None:
    runs = [
        made("burst", "storm", gap_s=1.0, full_s=[None]),
        made("burst", "storm", gap_s=3.0, full_s=[4.0]),
        made("burst", "storm", gap_s=2.0, full_s=[6.0]),
    ]
    line = dict(zip(HEADER, row("burst", "storm", runs), strict=True))
    assert line["runs"] == "3" and line["longest gap, s"] == "2.00 (1.00 to 3.00)"
    assert line["full rate after, s"] == "never in 1 of 3, 5.00 (4.00 to 6.00)"
    none = row("burst", "storm", [made("burst", "storm", full_s=[None])])
    assert none[HEADER.index("full rate after, s")] == "never"
    every = [made("skew", "flink-heap"), made("skew", "spark"), made("burst", "spark")]
    assert [*by_side(every)] == [("skew", "spark"), ("skew", "flink-heap"), ("burst", "spark")]


def test_gaps_are_held_against_flink_s_best_and_the_best_of_the_others() -> None:
    goal = found(
        made("kill", "laneshift-batch", gaps_s=[2.0]),
        made("kill", "spark-batch", gaps_s=[3.0]),
        made("kill", "hazelcast", gaps_s=[1.0]),
        made("kill", "flink-heap", gaps_s=[30.0]),
        made("kill", "flink-heap-zero", gaps_s=[24.0]),
    )
    flink = goal[
        "kill, laneshift-batch: shorter gaps from the changes on than the best of Flink "
        "(flink-heap-zero), times"
    ]
    assert (flink.value, flink.bound, flink.met) == (12.0, 10.0, True)
    others = goal[
        "kill, laneshift-batch: shorter gaps from the changes on than the best of the others "
        "(hazelcast), times"
    ]
    assert (others.value, others.bound, others.met) == (0.5, 1.0, False)


def test_more_rows_a_second_are_better_and_never_is_worse_than_any_time() -> None:
    goal = found(made("hot", "laneshift", rows_per_s=90.0), made("hot", "spark"))
    (rows,) = [g for what, g in goal.items() if "more rows/s" in what]
    assert rows.value == pytest.approx(0.9) and not rows.met
    ahead = found(made("burst", "laneshift"), made("burst", "storm", full_s=[None]))
    behind = found(made("burst", "laneshift", full_s=[None]), made("burst", "storm"))
    (won,) = [g for what, g in ahead.items() if "full rate" in what]
    (lost,) = [g for what, g in behind.items() if "full rate" in what]
    assert won.met and lost.value == 0 and not lost.met


def test_a_row_that_laneshift_loses_or_counts_twice_misses_a_goal() -> None:
    goal = found(made("kill", "laneshift-batch", too_many=1), made("kill", "storm", lost=9))
    assert not goal["kill, laneshift-batch: rows lost or counted twice"].met
    assert not any("storm: rows lost" in what for what in goal)


def test_runs_of_other_settings_are_not_put_together(tmp_path: Path) -> None:
    file = tmp_path / "field.json"
    cases = {case.name: asdict(case) for case in CASES}
    data = {"commit_s": 10.0, "cases": cases, "runs": [made("hot", "spark")], "failed": []}
    file.write_text(json.dumps({"data": data}))
    with pytest.raises(InputError, match="10, as in the earlier results"):
        field.run(False, systems=["spark"], commit=60.0, add=file)
    with pytest.raises(InputError, match="one of the two was quick"):
        field.run(True, systems=["spark"], cases=["hot"], add=file)
    with pytest.raises(InputError, match="results of an earlier run"):
        field.run(False, add=tmp_path / "none.json")


def test_what_runs_again_replaces_its_earlier_runs_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "field.json"
    cases = {case.name: asdict(case) for case in CASES}
    runs = [made(case, name) for case in ("hot", "skew") for name in ("spark", "laneshift")]
    failed = [{"case": "hot", "system": "spark", "ran": "a day", "why": "x"}]
    file.write_text(
        json.dumps({"data": {"commit_s": 10.0, "cases": cases, "runs": runs, "failed": failed}})
    )
    phase = Phase(9, 1.0, 2.0, 3.0, 4.0)
    figures = Figures(1.0, (), (), 0, 0, 0, phase, phase, phase, 100.0)
    monkeypatch.setattr(field, "_one", lambda *_: (figures, Run(tmp_path)))
    report = field.run(False, systems=["spark"], cases=["hot"], rounds=2, add=file)
    runs = report.data["runs"]
    there = Counter((run["case"], run["system"], run["ran"] != "a day") for run in runs)
    assert there == {
        ("hot", "spark", True): 2, ("hot", "laneshift", False): 1,
        ("skew", "spark", False): 1, ("skew", "laneshift", False): 1,
    }  # fmt: skip
    assert report.data["failed"] == []
    assert "Measured a day: skew (spark, laneshift), hot (laneshift)." in report.notes
