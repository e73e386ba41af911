"""Executors in processes of their own: the facade reaches them, and one may die."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from live.conftest import require_jar

pytestmark = pytest.mark.live


def test_two_executors_of_which_one_is_killed(tmp_path: Path) -> None:
    require_jar()
    app = Path(__file__).with_name("cluster_app.py")
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, str(app), str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    seen = json.loads(done.stdout.splitlines()[-1])
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
    assert seen["scheduler_again"], "the killed scheduler process was not started again"
    assert seen["errors"] == []
    for words in (
        "Query answers",
        "Operator 0, stateStoreSave , in micro-batches: 2 partitions of state",
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
