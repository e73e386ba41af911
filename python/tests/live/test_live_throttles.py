"""Two stateful stages of one Real-time query: who feeds whom, queues, and a source held back."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pytest

import laneshift
from laneshift.report.recording import read_recording
from laneshift.scheduler.plan import Plan, Throttle
from laneshift.scheduler.policies.base import Policy
from laneshift.scheduler.snapshot import Snapshot
from laneshift.scheduler.trace import read_trace
from live.conftest import Counting, to_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.live

RATE = 1_000
ROWS = 25 * RATE
HELD = RATE // 10


@dataclass(frozen=True, kw_only=True)
class Brake(Policy[int]):
    """For three turns each head partition is to get a tenth of what comes."""

    name: ClassVar[str] = "brake"
    summary: ClassVar[str] = "for tests"
    source: ClassVar[str] = "ours"

    def start(self) -> int:
        return 0

    def decide(self, snapshot: Snapshot, state: int) -> tuple[Plan, int]:
        if not 3 <= state < 6:
            return Plan(), state + 1
        heads = snapshot.sources[0].feeds
        share = HELD / len(heads)
        return Plan(throttles=tuple(Throttle(head, share) for head in heads)), state + 1


def test_a_brake_on_the_first_stage_holds_the_source_and_no_row_is_lost(
    spark: SparkSession, live: laneshift.Laneshift, tmp_path: Path
) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    rows = (
        spark.readStream.format("laneshift-workload")
        .options(keys=200, rowBytes=0, rowsPerSecond=RATE, totalRows=ROWS, numPartitions=2)
        .load()
    )
    first = rows.dropDuplicates(["partition", "seq"])
    query, tail = to_files(first.groupBy("key").agg(F.count("*").alias("n")), tmp_path, "5 seconds")

    def until_rows(count: int) -> None:
        end = time.monotonic() + 120
        while tail.updates.rows < count:
            assert time.monotonic() < end, f"{tail.updates.rows} of {ROWS} rows"
            assert query.exception() is None, query.exception()
            tail.poll()
            time.sleep(0.1)

    try:
        until_rows(RATE)
        with live.start("craa", query=query, interval_s=0.5) as craa:
            while craa.turns < 6:
                time.sleep(0.1)
        assert [d.error for d in craa.decisions() if d.error] == []
        trace = tmp_path / "trace"
        with live.start(Brake(), query=query, trace=trace) as brake:
            until_rows(ROWS)
        assert tail.updates.rows == ROWS
        assert tail.updates.disorder == 0
    finally:
        query.stop()

    limits = [limit for d in brake.decisions() for limit in d.limits]
    assert len(limits) == 3 and all(d.applied for d in brake.decisions() if d.limits)
    assert not any("not slowed down" in note for d in brake.decisions() for note in d.notes)
    snapshots = list(read_trace(trace))
    whole = [s for s in snapshots if len(s.partitions) == 4]
    for snapshot in whole:
        (source,) = snapshot.sources
        up, down = source.feeds, tuple(p for p in snapshot.partitions if p.queue_capacity_rows)
        assert len(down) == 4, "the policies know what the queues hold"
        assert set(snapshot.heads) == set(up) and len(up) == 2
        assert {(e.upstream, e.downstream) for e in snapshot.edges} == {
            (u, p.partition) for u in up for p in snapshot.partitions if p.partition not in up
        }
        assert {e.ratio for e in snapshot.edges} == {0.5}
    times = [d.time_s for d in brake.decisions() if d.limits]
    came = {s.time_s: s.external_rate for s in whole}
    braked = [rate for at, rate in came.items() if times[0] + 1.5 < at < times[-1] + 1.2]
    assert braked and min(braked) < 2 * HELD, came
    assert np.median(list(came.values())) > 3 * HELD
    assert [d.limits for d in read_recording(trace).decisions] == [
        d.limits for d in brake.decisions()
    ]


def test_a_source_that_cannot_wait_says_so(live: laneshift.Laneshift, counting: Counting) -> None:
    counting.add(100)
    with pytest.raises(laneshift.SessionError, match="only Kafka, laneshift-workload") as caught:
        live.limit_source(counting.query, 10, 1)
    assert caught.value.condition == "LANESHIFT_SOURCE_NOT_LIMITED"
    counting.add(100)
    assert counting.streamed() == counting.stock()
