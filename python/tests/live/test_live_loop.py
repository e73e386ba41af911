"""A policy drives a real query: lanes follow a burst and go again, and no answer is missed.

In the gate: autoscale/test_tapes.py, autoscale/test_presses.py.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import laneshift
from laneshift.report.recording import read_recording
from live.conftest import to_lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.live, pytest.mark.deep("policies")]

QUIET, BURST = 200, 3000
STAGES = f"{QUIET}:6s,{BURST}:8s,{QUIET}:1h"
ROWS = 6 * QUIET + 8 * BURST + 6 * QUIET


def test_lanes_follow_a_burst(
    spark: SparkSession, app: laneshift.Application, tmp_path: Path
) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    rows = (
        spark.readStream.format("laneshift-workload")
        .options(keys=500, rowBytes=0, zipf=0.2, rate="stage", rateStages=STAGES, totalRows=ROWS)
        .load()
    )
    # Each answer costs a millisecond of waiting: one lane takes 1,000 rows a second.
    answers = rows.groupBy("key").agg(F.count("*").alias("n"))
    slow = answers.withColumn("n", F.expr("laneshift_cost(n, 1000, 'wait')"))
    query, tail = to_lines(slow, tmp_path, "10 seconds")
    most, fewest_after = 0, 99
    trace = tmp_path / "trace"
    try:
        with app.query(query).autoscale(
            policy="elasticutor", trace=trace, release_after_s=0
        ) as autoscaler:
            end = time.monotonic() + 150
            while len(tail.updates.at_us) < ROWS:
                assert time.monotonic() < end, f"{len(tail.updates.at_us)} of {ROWS} rows"
                assert query.exception() is None, query.exception()
                tail.poll()
                for found in app.snapshot().queries:
                    if found.id == str(query.id) and found.operators:
                        lanes = found.operators[0].lanes
                        most = max(most, lanes)
                        fewest_after = lanes if lanes < most else min(fewest_after, lanes)
                time.sleep(0.2)
        assert not autoscaler.is_running
        decisions = autoscaler.decisions()
        assert tail.updates.rows == ROWS
        assert tail.updates.disorder == 0
        # Six cores, two of them with sources: four lanes at most, and the burst wants them.
        assert most == 4, (decisions, app.snapshot().executors)
        assert fewest_after < most, decisions
        assert all(d.error is None for d in decisions)
        assert any("rows/s come in" in c.reason for d in decisions for c in d.changes)
        recorded = read_recording(trace)
        assert recorded.decisions == decisions
        assert np.nanmax(recorded.lanes) >= 2 and np.nansum(recorded.offered, axis=1).max() > QUIET
        moved = app.query(query).handoffs(limit=100_000)
        assert 0 < sum(m.count for m in recorded.moves) <= len(moved)
        assert max(m.max_ms for m in recorded.moves) <= max(h.pause_us for h in moved) / 1000
    finally:
        query.stop()


def test_a_burst_does_not_wait_for_the_next_turn(
    spark: SparkSession, app: laneshift.Application, tmp_path: Path
) -> None:
    """Turns are a minute apart: what is decided before the second one is decided early."""
    from pyspark.sql import functions as F  # noqa: N812

    total = 12 * QUIET + 8 * BURST
    rows = (
        spark.readStream.format("laneshift-workload")
        .options(keys=500, rowBytes=0, zipf=0.2, rate="stage", totalRows=total)
        .option("rateStages", f"{QUIET}:12s,{BURST}:8s,{QUIET}:1h")
        .load()
    )
    answers = rows.groupBy("key").agg(F.count("*").alias("n"))
    slow = answers.withColumn("n", F.expr("laneshift_cost(n, 1000, 'wait')"))
    query, tail = to_lines(slow, tmp_path, "90 seconds")

    def runs() -> bool:
        mine = [q for q in app.snapshot().queries if q.id == str(query.id)]
        return bool(mine) and any(p.running for o in mine[0].operators for p in o.partitions)

    try:
        end = time.monotonic() + 150
        while not runs():
            assert time.monotonic() < end and query.exception() is None, query.exception()
            time.sleep(0.1)
        began, most = time.time(), 0
        with app.query(query).autoscale(policy="elasticutor", interval=60.0) as autoscaler:
            while len(tail.updates.at_us) < total:
                assert time.monotonic() < end, f"{len(tail.updates.at_us)} of {total} rows"
                assert query.exception() is None, query.exception()
                tail.poll()
                mine = [q for q in app.snapshot().queries if q.id == str(query.id)]
                most = max(most, 0, *(o.lanes for q in mine for o in q.operators))
                time.sleep(0.2)
        decisions = autoscaler.decisions()
        early = [d for d in decisions if d.time_s - began < 55]
        assert early and all(c.after > c.before for d in early for c in d.changes), decisions
        # All that are free: also if a press by chance, long before the burst, came to nothing.
        assert most == 4, decisions
        assert all(d.error is None for d in decisions)
        assert tail.updates.rows == total and tail.updates.disorder == 0
    finally:
        query.stop()
