"""Runs one streaming query from the workload source to the measuring sink."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from laneshift.api.application import Application, attach
from laneshift.plugin.snapshot import OperatorSnapshot
from laneshift_bench.measure import Measurement, Meter
from laneshift_bench.session import SEED
from laneshift_bench.sides import Side
from laneshift_bench.spool import SpoolMeter

START_TIMEOUT_S = 120.0
SEEN_TIMEOUT_S = 20.0
# Real-time Mode asks a source without pacing for its end.
ENDLESS = 10**12
_numbers = count()

Build = Callable[[DataFrame], DataFrame]
Source = Mapping[str, object] | Callable[[SparkSession], DataFrame]
"""Options of the workload source, or what opens another stream."""


class BenchmarkError(Exception):
    """A benchmark could not be run; the message says why."""


def counting(rows: DataFrame) -> DataFrame:
    """The plain query: counts per key, with the newest row's due time for the latency."""
    return rows.groupBy("key").agg(
        sf.count("*").alias("n"), sf.max("event_time").alias("event_time")
    )


def counting_payloads(rows: DataFrame) -> DataFrame:
    """The same with state that costs: each key keeps its greatest payload."""
    return rows.groupBy("key").agg(
        sf.count("*").alias("n"),
        sf.max("event_time").alias("event_time"),
        sf.max("payload").alias("payload"),
    )


@dataclass(frozen=True, slots=True)
class Running:
    """A query that has put out its first rows, and its meter."""

    query: StreamingQuery
    meter: Meter

    def check(self) -> None:
        """Errors: BenchmarkError if the query has failed or stopped."""
        if not self.query.isActive:
            raise BenchmarkError(f"The query has ended: {self.query.exception()}")

    def operators(self, app: Application) -> list[OperatorSnapshot]:
        """Those of laneshift that it has by now."""
        mine = [query for query in app.snapshot().queries if query.run_id == self.query.runId]
        return [operator for query in mine for operator in query.operators]

    def lanes(self, app: Application) -> int:
        """Lanes that its partitions have together."""
        return sum(operator.lanes for operator in self.operators(app))

    @property
    def batches(self) -> int:
        """Micro-batches with rows that have ended."""
        return sum(bool(progress.numInputRows) for progress in self.query.recentProgress)

    def require_elastic(self, app: Application) -> None:
        """Errors: BenchmarkError if none of its operators is laneshift's: what stays stock Spark
        is as fast."""
        deadline = time.monotonic() + SEEN_TIMEOUT_S
        while not self.operators(app):
            self.check()
            if time.monotonic() > deadline:
                raise BenchmarkError("The query stays stock Spark: EXPLAIN says why.")
            time.sleep(0.2)

    def require_rows(self, each: int, what: str) -> None:
        """What came of the batches so far, each with so many rows: those, and at most one more's.

        Errors: BenchmarkError.
        """
        done, came, later = self.batches, self.meter.read().rows, self.batches
        if not done * each <= came <= (later + 1) * each:
            raise BenchmarkError(
                f"{what}: {came:,} rows came of {done} to {later + 1} batches, each of which has "
                f"{each:,}."
            )

    def measure(self, warm_s: float, seconds: float) -> Measurement:
        """Let it warm up, then measure."""
        time.sleep(warm_s)
        self.meter.begin()
        time.sleep(seconds)
        found = self.meter.read()
        self.check()
        if found.rows == 0:
            raise BenchmarkError(f"No row came in {seconds:.0f} s.")
        return found


@contextmanager
def as_side(spark: SparkSession, side: Side) -> Iterator[None]:
    """Queries that start in the block, or start again, are of this side."""
    before = {key: spark.conf.get(key, None) for key in side.settings}
    for key, value in side.settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, was in before.items():
            if was is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, was)


def writer(spark: SparkSession, name: str, source: Source, build: Build) -> DataStreamWriter:
    """A query from that source to the measuring sink ``name``."""
    if callable(source):
        rows = source(spark)
    else:
        reader = spark.readStream.format("laneshift-workload").option("seed", SEED)
        for option, setting in source.items():
            reader = reader.option(option, str(setting))
        rows = reader.load()
    return measured(build(rows), name).option("timeColumn", "event_time")


def measured(rows: DataFrame, name: str) -> DataStreamWriter:
    """A query with these rows to the measuring sink ``name``."""
    written = rows.writeStream.format("laneshift-measure").option("name", name)
    # What Spark does for Real-time queries without state needs a sink of its own list.
    return written.option("asyncProgressTrackingEnabled", "false")


@contextmanager
def running(
    spark: SparkSession,
    work: Path,
    side: Side,
    source: Source,
    build: Build = counting,
    trigger: str | None = "5 seconds",
    checkpoint: Path | None = None,
    mode: str = "update",
    line: str | None = None,
    every: str = "0 seconds",
    folder: Path | None = None,
) -> Iterator[Running]:
    """Start a query with the side's settings; stop it at the end of the block.

    ``trigger`` is the batch duration of Real-time Mode, or None for a micro-batch ``every`` so
    often, by default without pause; ``checkpoint`` may be one that an earlier run has left;
    ``mode`` is the output mode; ``line`` names an output column that the sink is to keep;
    ``folder`` is where sink tasks of other processes write what they find.
    """
    name = f"bench{next(_numbers)}"
    with as_side(spark, side):
        written = writer(spark, name, source, build).outputMode(mode)
        written = written.option("checkpointLocation", str(checkpoint or work / name))
        if line is not None:
            written = written.option("lineColumn", line)
        if trigger is None:
            written = written.trigger(processingTime=every)
        else:
            written = written.trigger(realTime=trigger)  # type: ignore[call-overload]
        meter = Meter(spark, name)
        if folder is not None:
            written = written.option("folder", str(folder))
            meter = SpoolMeter(spark, name, folder)
        found = Running(written.start(), meter)
        try:
            await_rows(found)
            if side.options:
                found.require_elastic(attach(spark))
            yield found
        finally:
            found.query.stop()
            found.meter.drop()


def batch_rate(run: Running, rows: int, first: int, batches: int) -> float:
    """Rows a second of the median micro-batch of ``rows`` rows, the ``first`` ones left out."""
    return rows * 1000 / median(batch_ms(run, first, batches))


def batch_ms(run: Running, first: int, batches: int) -> list[float]:
    """Times (ms) of so many micro-batches after the ``first`` ones."""
    times: list[float] = []
    while len(times) < first + batches:
        run.check()
        run.query.awaitTermination(1)
        progress = run.query.recentProgress
        times = [p.durationMs["triggerExecution"] for p in progress if p.numInputRows]
    return times[first : first + batches]


def await_rows(run: Running) -> None:
    """Until the first row has come out. Errors: BenchmarkError if none does in time."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while run.meter.read().rows == 0:
        run.check()
        if time.monotonic() > deadline:
            raise BenchmarkError(f"The query gave no row within {START_TIMEOUT_S:.0f} s.")
        time.sleep(0.1)
