"""Dynamic skew: hash partitioning against lanes, the same number of emulated cores for both."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from laneshift_bench.bound import (
    IntArray,
    elastic_bound,
    partitioned,
    random_shuffles,
    rates,
    zipf_shares,
)
from laneshift_bench.measure import Measurement
from laneshift_bench.pairs import Ratio, spread
from laneshift_bench.progress import Progress
from laneshift_bench.query import ENDLESS, counting, running
from laneshift_bench.report import Goal, Report
from laneshift_bench.session import SEED, in_flight, session
from laneshift_bench.sides import Side, elastic, stock

KEYS = 10_000
COST_US = 1000
OMEGA = 15  # shuffles a minute: one every 4 s
PARTITIONS = 2  # of laneshift
SOURCES = 2
SHUFFLES = 1000
# What may be on its way to the state tasks. Spark's own bounds hold many seconds of rows that cost
# 1 ms each, and lanes 1 MB: keys would be hot and cold again while their rows still wait.
FLIGHT = in_flight(buffer_kb=4, writer_kb=128, reader_kb=16)
LANE_QUEUE = "16k"
METHOD = f"""\
Real-time Mode, {KEYS:,} keys, counts per key and above them a projection that takes
{COST_US / 1000:.0f} ms a row (`laneshift_cost` in mode `pace`: exactly 1,000 rows/s a thread at
most, the row's own work included). C emulated cores on both sides: stock has C state partitions
of one core; laneshift has {PARTITIONS} state partitions with C lanes in all, balancing on, and
a partition's lanes serve that partition only. The key frequencies are shuffled every 4 s of
*event time*, that is of the schedule of `rowsPerSecond`: without pacing the source runs through
its schedule at the speed at which its rows are taken, so `rowsPerSecond` is set to what the
side is expected to take and periods take about 4 s on the clock as well. Rows on their way are
bounded for both sides (shuffle writers 128 KB, readers 16 KB, buffers of 4 KB; lanes 16 KB): by
default Spark's shuffle holds 32 MB a task, many seconds of such rows, in which keys become hot
and cold again, and latency is the length of its queues. Throughput from a source without
pacing, latency at a fixed rate of half of C. The bound is `min(C, 1/p_max)` rows a ms: a key
runs on one lane at a time. Sides take turns in one JVM, after a warm-up of each; throughput is
the rate over the whole time, latency from the time a row is due to its arrival in the sink."""


@dataclass(frozen=True, slots=True)
class Case:
    """One comparison: cores, skew, shards of a partition, goal for laneshift / stock."""

    cores: int
    zipf: float
    shards: int
    goal: float

    @property
    def name(self) -> str:
        return f"C={self.cores}, zipf {self.zipf}"

    @property
    def sides(self) -> tuple[Side, Side]:
        lanes = elastic(self.cores // PARTITIONS, PARTITIONS)
        lanes.options["shardsPerPartition"] = str(self.shards)
        lanes.options["queueBytes"] = LANE_QUEUE
        return stock(self.cores), Side("laneshift", lanes.options, PARTITIONS)


CASES = (Case(8, 1.0, 64, 1.3), Case(32, 0.8, 256, 1.6))


def costly(rows: DataFrame) -> DataFrame:
    """Counts, each output row paid for."""
    cost = sf.expr(f"laneshift_cost(n, {COST_US}, 'pace')").alias("n")
    return counting(rows).select("key", cost, "event_time")


def run(quick: bool) -> Report:
    """The whole benchmark."""
    rounds = 1 if quick else 3
    progress = Progress("skew", len(CASES) * 2 * (2 * rounds + 1))
    header = (
        "case",
        "figure",
        "stock",
        "laneshift",
        "laneshift / stock",
        "share of bound: stock",
        "laneshift",
    )
    report = Report("skew", "Dynamic skew", METHOD, header)
    # Slots for the larger side's state tasks and the source's; a side takes only those it needs.
    slots = max(case.cores for case in CASES) + SOURCES
    with session(slots, FLIGHT) as (spark, work):
        for case in CASES:
            _case(report, progress, spark, work, case, rounds, quick)
    return report


def _case(
    report: Report,
    progress: Progress,
    spark: SparkSession,
    work: Path,
    case: Case,
    rounds: int,
    quick: bool,
) -> None:
    shares = zipf_shares(KEYS, case.zipf)
    bound = elastic_bound(case.cores, shares) * 1e6 / COST_US
    by_hash, static = (_expected(spark, case, n) for n in (case.cores, PARTITIONS))
    expected = (by_hash, static)
    rates: list[list[float]] = [[], []]
    late: list[list[Measurement]] = [[], []]
    for number in range(rounds + 1):
        for at, side in enumerate(case.sides):
            what = "warm-up" if number == 0 else f"round {number}"
            progress.step(f"{case.name}, {side.name}, full speed, {what}")
            source = _source(case, expected[at]) | {"pacing": "none", "totalRows": ENDLESS}
            with running(spark, work, side, source, costly) as run:
                found = run.measure(*((8, 12) if quick or not number else (12, 40)))
            progress.note(
                f"{found.rows_per_s:,.0f} rows/s, {found.rows_per_s / bound:.1%} of the bound"
            )
            if number == 0:
                continue
            progress.step(f"{case.name}, {side.name}, latency, {what}")
            with running(spark, work, side, _source(case, case.cores * 500), costly) as run:
                calm = run.measure(*((8, 12) if quick else (12, 40)))
            progress.note(calm.line)
            rates[at].append(found.rows_per_s)
            late[at].append(calm)
    ratio = Ratio.of(rates[1], rates[0])
    share = [float(np.median(r)) / bound for r in rates]
    report.rows.append(
        [case.name, "rows/s", *map(spread, rates), str(ratio), *(f"{s:.1%}" for s in share)]
    )
    for figure, rows in (("p99, steady, ms", "steady"), ("p99, all, ms", "all")):
        each = [[float(getattr(m, rows).p99_ms) for m in side] for side in late]
        report.rows.append(
            [case.name, figure, *map(spread, each), str(Ratio.of(each[1], each[0])), "", ""]
        )
    report.goals += [
        Goal(f"{case.name}: laneshift / bound", share[1], ">=", 0.8),
        Goal(f"{case.name}: laneshift / stock", ratio.median, ">=", case.goal),
    ]
    perfect = case.cores * 1e6 / COST_US
    lanes = case.cores // PARTITIONS
    report.notes.append(
        f"{case.name}: {perfect:,.0f} rows/s in perfect balance; the bound is {bound:,.0f} "
        f"({bound / perfect:.0%}: the most frequent key has {shares[0]:.1%} of the rows). "
        f"Arithmetic of hash partitioning, mean over {SHUFFLES:,} shuffles: {case.cores} "
        f"partitions give {by_hash:,.0f} ({by_hash / perfect:.0%}); {PARTITIONS} partitions with "
        f"{lanes} lanes each, even inside, {static:,.0f} ({static / perfect:.0%})."
    )
    report.data[case.name] = {
        "bound_rows_per_s": bound,
        "perfect_rows_per_s": perfect,
        "arithmetic_stock_rows_per_s": by_hash,
        "arithmetic_laneshift_rows_per_s": static,
        "shards_per_partition": case.shards,
        "stock_rows_per_s": rates[0],
        "laneshift_rows_per_s": rates[1],
        "ratio": ratio.data(),
        "share_of_bound": share,
        "latency_rows_per_s": case.cores * 500,
        "latency": {s.name: [asdict(m) for m in late[i]] for i, s in enumerate(case.sides)},
    }


def _expected(spark: SparkSession, case: Case, partitions: int) -> float:
    """Rows/s by arithmetic, mean over random shuffles, if all cores are divided evenly."""
    shuffled = random_shuffles(zipf_shares(KEYS, case.zipf), SHUFFLES, SEED)
    work = partitioned(case.cores // partitions, partitions, shuffled, owners(spark, partitions))
    return float(rates(work).mean()) * 1e6 / COST_US


def _source(case: Case, rows_per_s: float) -> dict[str, object]:
    return {
        "keys": KEYS,
        "zipf": case.zipf,
        "omega": OMEGA,
        "rowBytes": 0,
        "numPartitions": SOURCES,
        "rowsPerSecond": round(rows_per_s),
    }


def owners(spark: SparkSession, partitions: int, keys: int = KEYS) -> IntArray:
    """The partition that Spark's shuffle gives each key to, int64 (keys,)."""
    hashes = spark.range(keys).select(sf.expr(f"pmod(hash(id), {partitions}) AS p")).collect()
    return np.array([row.p for row in hashes], dtype=np.int64)
