"""Executors as processes of this machine, and a partition whose lanes are on some of them."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from laneshift import attach
from laneshift.api.application import Application
from laneshift.plugin.partition import PartitionSnapshot
from laneshift_bench.query import BenchmarkError, Build, as_side, writer
from laneshift_bench.session import session
from laneshift_bench.sides import Side
from laneshift_bench.spool import SpoolMeter

PATIENCE_S = 120.0
LOOK_S = 0.05
T = TypeVar("T")


@contextmanager
def cluster(
    executors: int, cores: int, settings: Mapping[str, str] | None = None, memory_mb: int = 1400
) -> Iterator[tuple[SparkSession, Path]]:
    """As :func:`~laneshift_bench.session.session`, with ``executors`` processes of ``cores`` each.

    All of them have registered when the block begins.
    """
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    own = {
        "spark.master": f"local-cluster[{executors},{cores},{memory_mb + 136}]",
        "spark.executor.memory": f"{memory_mb}m",
        "spark.deploy.maxExecutorRetries": "-1",
        "spark.sql.streaming.realTimeMode.minBatchDuration": "5s",
    }
    with session(slots=1, settings=own | dict(settings or {})) as (spark, work):
        app = attach(spark)
        until("all executors", lambda: len(app.snapshot().executors) == executors or None)
        yield spark, work


def until(what: str, look: Callable[[], T | None], seconds: float = PATIENCE_S) -> T:
    """What ``look`` gives once that is not None. Errors: BenchmarkError if it takes too long."""
    deadline = time.monotonic() + seconds
    while (found := look()) is None:
        if time.monotonic() > deadline:
            raise BenchmarkError(f"{what}: not seen within {seconds:g} s.")
        time.sleep(LOOK_S)
    return found


@dataclass(frozen=True, slots=True)
class Spread:
    """A query with one elastic partition, on executors of their own.

    Attributes:
        live: the session object.
        query: it runs.
        meter: of its sink.
    """

    app: Application
    query: StreamingQuery
    meter: SpoolMeter

    def part(self) -> PartitionSnapshot:
        """Its partition. Errors: BenchmarkError if it is not there, or the query has ended."""
        return until("the partition", self._part)

    def _part(self) -> PartitionSnapshot | None:
        if not self.query.isActive:
            raise BenchmarkError(f"The query has ended: {self.query.exception()}")
        for query in self.app.snapshot().queries:
            if query.id == str(self.query.id) and query.operators:
                return query.operators[0].partitions[0]
        return None

    def others(self) -> list[str]:
        """Executors that are not its home."""
        home = self.part().executor
        return [e.executor for e in self.app.snapshot().executors if e.executor != home]

    def split(self, home: int, hosts: tuple[int, ...]) -> None:
        """Give it so many lanes at home and on each of some others, and wait until they are there.

        Between two batches of operators that hand off then, they are there in one that begins.
        """
        there = dict(zip(self.others(), hosts, strict=False))
        self.app.query(self.query).set_lanes(home, partition=0, on=there)
        until(f"{home} + {hosts} lanes", lambda: self._has(home, there))

    def _has(self, home: int, there: Mapping[str, int]) -> bool | None:
        part = self.part()
        is_open = {e: sum(r.executor == e and r.open for r in part.elsewhere) for e in there}
        return (part.home_lanes == home and is_open == dict(there)) or None

    def measure(self, warm_s: float, seconds: float) -> Found:
        """Let it settle, then measure."""
        time.sleep(warm_s)
        before, began = self.part(), time.monotonic()
        time.sleep(seconds)
        after, took = self.part(), time.monotonic() - began
        sent, reads = (
            sum(getattr(r, of) for r in after.elsewhere)
            - sum(getattr(r, of) for r in before.elsewhere)
            for of in ("rows_sent", "state_reads")
        )
        age = after.latency_ms
        return Found(
            (after.rows_out - before.rows_out) / took,
            sent / took,
            reads / took,
            age.p50 if age.count else math.nan,
            age.p99 if age.count else math.nan,
        )


@dataclass(frozen=True, slots=True)
class Found:
    """What a split did: rows a second in all and elsewhere, reads of state, ages (ms)."""

    rows_per_s: float
    elsewhere_per_s: float
    reads_per_s: float
    p50_ms: float
    p99_ms: float


@contextmanager
def spread_query(
    spark: SparkSession, work: Path, side: Side, source: Mapping[str, object], build: Build,
    trigger: str | None = "10 minutes", mode: str = "update",
) -> Iterator[Spread]:  # fmt: skip
    """A query of the workload source that has put out rows; it stops at the end of the block.

    ``trigger``: duration of a Real-time batch, or None for micro-batches back to back;
    ``mode``: the output mode.
    """
    name = f"there{time.monotonic_ns()}"
    folder = work / f"{name}-slots"
    with as_side(spark, side):
        written = writer(spark, name, source, build).outputMode(mode)
        written = written.option("checkpointLocation", str(work / name))
        written = written.option("folder", str(folder))
        if trigger is None:
            written = written.trigger(processingTime="0 seconds")
        else:
            written = written.trigger(realTime=trigger)  # type: ignore[call-overload]
        found = Spread(attach(spark), written.start(), SpoolMeter(spark, name, folder))
        try:
            until("rows", lambda: found.part().rows_out or None)
            yield found
        finally:
            found.query.stop()
            found.meter.drop()
