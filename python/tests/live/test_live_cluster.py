"""Executors in processes of their own: the facade reaches them, and one may die."""

from __future__ import annotations

from pathlib import Path

import pytest

from live.conftest import run_app

pytestmark = [pytest.mark.live, pytest.mark.deep("remote")]


def test_two_executors_of_which_one_is_killed(tmp_path: Path) -> None:
    seen = run_app(Path(__file__).with_name("cluster_app.py"), tmp_path, limit_s=400)
    assert seen["identical"], seen
    assert seen["keys"] == 300
    assert len(seen["executors"]) >= 2, seen
    assert seen["cores"] == [3]
    assert seen["before"] == ["0", "1"]
    assert len(seen["after"]) == 2, seen
    assert seen["after"] != seen["before"], "the dead executor is off the list, a new one is on it"
    assert seen["applied"] == "next-batch"
    # Those of the executor that was killed are gone with it.
    assert seen["handoffs"] > 5
    assert seen["turns"] > 5
    assert seen["autoscaler_again"], "the killed autoscaler process was not started again"
    assert seen["errors"] == []
    for words in (
        "Query answers",
        "Operator 0, stateStoreSave , in micro-batches: 2 partitions on ",
        " on executor ",
        "shards move between two batches",
        "lane 0",
        "rows/s in",
        "Moves of shards",
    ):
        assert words in seen["page"], (words, seen["page"][:6000])
    for words in (
        "answers, micro-batch: operator 0 stateStoreSave, shards move between-batches",
        "6 cores on 2 executors",
        "Decisions, newest first",
    ):
        assert words in seen["top"], seen["top"]
