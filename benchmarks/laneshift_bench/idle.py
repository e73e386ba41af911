"""Idle tax: what laneshift costs a query that has nothing to balance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession

from laneshift_bench.measure import Measurement
from laneshift_bench.progress import Progress
from laneshift_bench.query import ENDLESS, batch_rate, counting, running
from laneshift_bench.report import Report
from laneshift_bench.session import session
from laneshift_bench.sides import Side
from laneshift_bench.tax import SIDES, add_line, take_turns

CACHED, KEYS = 1_000, 10_000
SOURCE = {"keys": KEYS, "zipf": 0.5, "rowBytes": 0}
METHOD = """\
Counts per key, 2 source and 2 state partitions, 10,000 keys unless said otherwise. All sides
run in one JVM, after a warm-up of each, as new queries in turn: stock, 1 lane, 4 lanes, stock,
... The stock side is the same session with `spark.sql.laneshift.enabled=false`. A ratio
compares a run with the stock run of the same round. Micro-batch: rows of a batch over its time,
median over the batches of a run after the first ones. Real-time Mode: rows that the sink gets
in a median 100 ms (so without the pauses between batches) from a source without pacing, and
latencies at a fixed rate, from the time a row is due to its arrival in the sink. *Steady*
latency leaves out the rows that were due in the first second of a batch or in the pause before
it."""


def run(quick: bool) -> Report:
    """The whole benchmark."""
    rounds = 1 if quick else 3
    steps = (rounds + 1) * len(SIDES) * 4
    progress = Progress("idle", steps)
    report = Report(
        "idle",
        "Idle tax",
        METHOD,
        ("figure", *(s.name for s in SIDES), "1 lane / stock", "4 / stock"),
    )
    with session(slots=8) as (spark, work):
        one = partial(micro_batch_rate, spark, work, quick=quick)
        batches = take_turns(progress, "micro-batch", rounds, one)
        add_line(report, "micro-batch throughput, rows/s", batches, throughput=True)
        for keys in (CACHED, KEYS):
            what = f"real-time, {keys:,} keys"
            one = partial(real_time_rate, spark, work, quick=quick, keys=keys)
            rates = take_turns(progress, what, rounds, one)
            add_line(report, f"{what}, rows/s", rates, throughput=True)
        # Far enough from the limit for latencies to tell of the way, not of queues.
        stock_rate = median(r[0] for r in rates)
        rate = int(stock_rate * 0.25 / 1000) * 1000 or 1000
        report.data["latency_rows_per_s"] = rate
        late = take_turns(
            progress,
            f"real-time at {rate:,} rows/s",
            rounds,
            lambda s: _latency(spark, work, s, rate, quick),
        )
    for figure, value in FIGURES.items():
        values = [[value(m) for m in each] for each in late]
        add_line(report, f"real-time latency, {figure}, ms", values, throughput=False)
    report.data["latency"] = [
        {s.name: asdict(m) for s, m in zip(SIDES, each, strict=True)} for each in late
    ]
    report.notes.append(
        "Spark's operator of Real-time Mode keeps 1,000 groups in memory, laneshift's as many as "
        "fit into 8 MiB a partition, which its task's memory account has. 1,000 keys fit either, "
        "so the cost of a row is least and the tax shows most; of 10,000 keys, 5,000 a partition, "
        "laneshift keeps all and stock a fifth, which alone makes it faster: that line is no idle "
        "tax."
    )
    report.notes.append(f"Latencies at {rate:,} rows/s, about a quarter of what stock can take.")
    return report


FIGURES: dict[str, Callable[[Measurement], float]] = {
    "p50, all": lambda m: m.all.p50_ms,
    "p50, steady": lambda m: m.steady.p50_ms,
    "p99, all": lambda m: m.all.p99_ms,
    "p99, steady": lambda m: m.steady.p99_ms,
}


def micro_batch_rate(spark: SparkSession, work: Path, side: Side, quick: bool) -> float:
    """Rows a second of a median micro-batch of the counts."""
    rows, first, batches = (200_000, 3, 6) if quick else (1_000_000, 4, 10)
    source = SOURCE | {"pacing": "none", "rowsPerBatch": rows}
    with running(spark, work, side, source, counting, trigger=None) as run:
        return batch_rate(run, rows, first, batches)


def real_time_rate(
    spark: SparkSession, work: Path, side: Side, quick: bool, keys: int = KEYS
) -> float:
    """Rows a second that the counts take in Real-time Mode, without the pauses between batches."""
    source = SOURCE | {"keys": keys, "pacing": "none", "totalRows": ENDLESS}
    with running(spark, work, side, source) as run:
        return run.measure(*((4, 10) if quick else (8, 20))).running_rows_per_s


def _latency(spark: SparkSession, work: Path, side: Side, rate: int, quick: bool) -> Measurement:
    with running(spark, work, side, SOURCE | {"rowsPerSecond": rate}) as run:
        return run.measure(*((4, 10) if quick else (8, 30)))
