"""The facade on a Real-time query: lanes and shards change in the middle of a batch."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import laneshift
from live.conftest import to_lines, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.live, pytest.mark.versions, pytest.mark.deep("motion")]

ROWS = 20_000
NOT_NOW = {"LANESHIFT_NOT_MOVABLE", "LANESHIFT_PARTITION_MOVED"}


def test_lanes_and_shards_change_in_the_middle_of_a_batch(
    spark: SparkSession, app: laneshift.Application, tmp_path: Path
) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    rows = (
        spark.readStream.format("laneshift-workload")
        .option("keys", 200)
        .option("rowBytes", 0)
        .option("rowsPerSecond", 2000)
        .option("totalRows", ROWS)
        .option("numPartitions", 2)
        .load()
    )
    answers = rows.groupBy("key").agg(F.count("*").alias("n"))
    query, tail = to_lines(answers, tmp_path, "5 seconds")
    try:

        def operator() -> laneshift.OperatorSnapshot | None:
            mine = [q for q in app.snapshot().queries if q.id == str(query.id) and q.operators]
            ready = mine and len(mine[0].operators[0].partitions) == 2 and query.isActive
            return mine[0].operators[0] if ready else None

        def rows_out() -> int:
            tail.poll()
            if query.exception() is not None:
                raise AssertionError(query.exception())
            return tail.updates.rows

        until(lambda: rows_out() > 100)
        found = until(operator)
        # Spark's scheduler has no Real-time stage in its pool: its tasks are counted all the same.
        until(lambda: sum(e.active_tasks for e in app.snapshot().executors) >= 3)
        assert found.handoff == "mid-batch"

        def lanes_now() -> list[int]:
            rows_out()
            now = operator()
            return [p.lanes for p in now.partitions] if now is not None else []

        for lanes in (4, 2, 3):
            app.query(query).set_lanes(lanes, operator=found.operator_id)
            until(lambda n=lanes: lanes_now() == [n, n])  # type: ignore[misc]
        assert rows_out() < ROWS - 2_000, "no rows are left to move shards under"
        asked = 0
        while rows_out() < ROWS - 2_000:
            part = operator().partitions[asked % 2]  # type: ignore[union-attr]
            shard = asked % part.shards
            target = (int(part.lane_of_shard[shard]) + 1) % part.lanes
            try:
                app.query(query).move(
                    shard=shard,
                    to_lane=target,
                    partition=part.partition,
                    operator=found.operator_id,
                )
                asked += 1
            except laneshift.SessionError as problem:
                # A batch may be ending, or the shard on its way; nothing else may be in the way.
                if problem.condition not in NOT_NOW:
                    raise
            time.sleep(0.05)
        until(lambda: rows_out() == ROWS)
        moves = [h for h in app.query(query).handoffs(limit=100_000) if h.reason == "user"]
        # Of two wishes for a shard before the first is done, the second holds.
        assert len(moves) >= asked // 2
        assert any(h.pause_us > 0 for h in moves)
        assert tail.updates.disorder == 0
        assert len(tail.updates.at_us) == ROWS
    finally:
        query.stop()
