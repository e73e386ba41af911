"""Two stateful stages of one Real-time query: who feeds whom, queues, and a source held back."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pytest

import laneshift
from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.plan import Plan, Throttle
from laneshift.contract.policy import Policy
from laneshift.contract.trace import read_trace
from laneshift.report.recording import read_recording
from live.conftest import Counting, to_lines, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.live

RATE = 1_000
HELD = RATE // 10
BEFORE, BRAKED, AFTER = 4, 8, 6  # turns
SPAN_S = 2.0


@dataclass(frozen=True, kw_only=True)
class Brake(Policy[int]):
    """For some turns all head partitions together are to get a tenth of what comes."""

    name: ClassVar[str] = "brake"
    summary: ClassVar[str] = "for tests"
    source: ClassVar[str] = "ours"
    turns: list[float] = field(default_factory=list)  # when it decided

    def start(self) -> int:
        return 0

    def decide(self, cluster: ClusterLoad, state: int) -> tuple[Plan, int]:
        self.turns.append(time.monotonic())
        if not BEFORE <= state < BEFORE + BRAKED:
            return Plan(), state + 1
        heads = cluster.sources[0].feeds
        share = HELD / len(heads)
        return Plan(throttles=tuple(Throttle(head, share) for head in heads)), state + 1


def rates(given: list[tuple[float, int]], begin: float, end: float) -> list[float]:
    """Rows per second of a source over all spans of a length between two times."""
    inside = [(at, rows) for at, rows in given if begin <= at <= end]
    return [
        (more - rows) / (later - at)
        for at, rows in inside
        for later, more in inside
        if SPAN_S <= later - at <= SPAN_S + 1
    ]


@pytest.mark.deep("policies")
def test_a_brake_on_the_first_stage_holds_the_source_and_no_row_is_lost(
    spark: SparkSession, app: laneshift.Application, tmp_path: Path
) -> None:
    """In the gate: autoscale/test_source_limits.py, SourceThrottleSuite."""
    from pyspark.sql import functions as F  # noqa: N812

    rows = (
        spark.readStream.format("laneshift-workload")
        .options(keys=200, rowBytes=0, rowsPerSecond=RATE, numPartitions=2)
        .load()
    )
    first = rows.dropDuplicates(["partition", "seq"])
    query, tail = to_lines(first.groupBy("key").agg(F.count("*").alias("n")), tmp_path, "5 seconds")
    given: list[tuple[float, int]] = []

    def reached(what: str, done: Callable[[], bool]) -> None:
        end = time.monotonic() + 120
        while not done():
            assert time.monotonic() < end, f"{what}: {tail.updates.rows} of {given[-1:]}"
            assert query.exception() is None, query.exception()
            (seen,) = (q.given for q in app.snapshot().queries if q.id == str(query.id))
            if seen:
                given.append((time.monotonic(), seen.rows))
            tail.poll()
            time.sleep(0.1)

    try:
        reached("rows come", lambda: tail.updates.rows >= RATE)
        with app.query(query).autoscale(policy="craa", interval=0.5) as craa:
            reached("craa", lambda: craa.turns >= 6)
        assert [d.error for d in craa.decisions() if d.error] == []
        trace = tmp_path / "trace"
        policy = Brake()
        with app.query(query).autoscale(policy=policy, trace=trace) as brake:
            reached("brake", lambda: len(policy.turns) > BEFORE + BRAKED + AFTER)
        assert app.query(query).limit_source(0, duration=600) == "now"
        time.sleep(1)
        reached("every row that was given is an answer", lambda: tail.updates.rows == given[-1][1])
        reached(
            "Spark has counted them",
            lambda: sum(p["numInputRows"] for p in query.recentProgress) == given[-1][1],
        )
        assert tail.updates.rows == given[-1][1]
        assert tail.updates.disorder == 0
    finally:
        query.stop()

    begin, end = policy.turns[BEFORE], policy.turns[BEFORE + BRAKED]
    braked = rates(given, begin + 1, end)
    assert len(braked) >= 20
    # Between batches nothing comes, so only the highest rates say what the limit lets through.
    assert 0.8 * HELD <= max(braked) <= 1.5 * HELD
    assert np.mean(rates(given, begin - 4, begin)) > 5 * HELD
    assert max(rates(given, end, end + 7)) > 5 * HELD
    limits = [limit for d in brake.decisions() for limit in d.limits]
    assert len(limits) == BRAKED and all(d.applied for d in brake.decisions() if d.limits)
    assert not any("slowed down" in note for d in brake.decisions() for note in d.notes)
    recorded = list(read_trace(trace))
    whole = [s for s in recorded if len(s.partitions) == 4]
    for cluster in whole:
        (source,) = cluster.sources
        up, down = source.feeds, tuple(p for p in cluster.partitions if p.queue_capacity_rows)
        assert len(down) == 4, "the policies know what the queues hold"
        assert set(cluster.heads) == set(up) and len(up) == 2
        fed = {p.partition: i for i, p in enumerate(cluster.partitions) if p.partition not in up}
        for i in fed.values():
            pairs = [(cluster.partitions[u].partition, b) for u, b in cluster.feeds.pairs(i)]
            assert sorted(pairs) == [(u, 0.5) for u in sorted(up)]
    assert [d.limits for d in read_recording(trace).decisions] == [
        d.limits for d in brake.decisions()
    ]


def test_a_source_that_cannot_wait_says_so(app: laneshift.Application, counting: Counting) -> None:
    counting.add(100)
    with pytest.raises(laneshift.SessionError, match="only Kafka, laneshift-workload") as caught:
        app.query(counting.query).limit_source(10, duration=1)
    assert caught.value.condition == "LANESHIFT_SOURCE_NOT_LIMITED"
    counting.add(150)
    assert counting.streamed() == counting.stock()

    def counted() -> laneshift.QuerySnapshot | None:
        (query,) = (q for q in app.snapshot().queries if q.id == counting.query.id)
        return query if query.given is not None and query.given.rows == 250 else None

    query = until(counted)  # Spark reports a batch a little after it has ended
    parts = query.operators[0].partitions
    assert {p.batch_id for p in parts} == {query.given.batch_id}
    assert query.operators[0].rows_in <= 250
