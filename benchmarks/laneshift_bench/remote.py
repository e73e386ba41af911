"""Lanes on other executors against as many lanes at home."""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from laneshift import attach
from laneshift.plugin.partition import PartitionSnapshot
from laneshift.session.live import Laneshift
from laneshift_bench.progress import Progress
from laneshift_bench.query import BenchmarkError, Build, counting, writer
from laneshift_bench.report import Goal, Report
from laneshift_bench.session import session
from laneshift_bench.sides import Side

EXECUTORS, CORES = 3, 8
LANES = 8
COST_US = 1000
KEYS, ROW_BYTES = 10_000, 200
OVERLOAD, HALF = 9_000, 4_000
WARM_S, SECONDS, AGE_S = 12.0, 20.0, 10.0
SPLITS: Mapping[str, tuple[int, tuple[int, ...]]] = {
    "8 at home": (8, ()),
    "1 at home, 4 + 3 elsewhere": (1, (4, 3)),
}
METHOD = f"""\
Real-time Mode, `local-cluster` with {EXECUTORS} executor processes of {CORES} cores each on this
machine, one state partition, counts per key of {KEYS:,} keys, rows of {ROW_BYTES} bytes, 256
shards. Each answer waits {COST_US / 1000:g} ms (`laneshift_cost`, mode `wait`, to an absolute
deadline, so that lanes need no cores). The same query goes from one split of its {LANES} lanes to
the other and back, by `set_lanes(..., on=...)`; each time {WARM_S:g} s to settle, then
{SECONDS:g} s that count. *Rows/s* at {OVERLOAD:,} rows/s offered, more than {LANES} lanes take;
ages of answers when they leave the operator (`latencyColumn`) at {HALF:,}, half of it. *Without
cost*: rows that cost nothing, offered without pacing, one lane at home and one elsewhere; both
processes share this machine's cores."""
HEADER = ("split", "rows/s", "p50, ms", "p99, ms", "rows/s elsewhere", "state reads/s")


@dataclass(frozen=True, slots=True)
class Found:
    """What one split did in one turn: rows a second in all and elsewhere, ages (ms)."""

    rows_per_s: float
    elsewhere_per_s: float
    reads_per_s: float
    p50_ms: float
    p99_ms: float


def costly(rows: DataFrame) -> DataFrame:
    """Counts per key, each answer with its cost."""
    cost = f"laneshift_cost(n, {COST_US}, 'wait')"
    return counting(rows).select("key", sf.expr(cost).alias("n"), "event_time")


def run(quick: bool) -> Report:
    """The whole benchmark."""
    rounds = 1 if quick else 3
    progress = Progress("remote", 2 * len(SPLITS) * rounds)
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    settings = {
        "spark.master": f"local-cluster[{EXECUTORS},{CORES},1536]",
        "spark.executor.memory": "1400m",
        "spark.sql.streaming.realTimeMode.minBatchDuration": "5s",
    }
    side = Side("remote", {"lanes": "1", "maxLanes": str(LANES), "shardsPerPartition": "256",
                           "latencyColumn": "event_time"}, 1)  # fmt: skip
    found: dict[tuple[str, str], list[Found]] = {}
    with session(slots=1, settings=settings) as (spark, work):
        live = attach(spark)
        for key, value in side.settings.items():
            spark.conf.set(key, value)
        for load, rate in (("full", OVERLOAD), ("half", HALF)):
            source = {"keys": KEYS, "zipf": 0, "rowBytes": ROW_BYTES, "rowsPerSecond": rate,
                      "numPartitions": 1}  # fmt: skip
            with _query(spark, work, load, source, costly) as query_id:
                for turn in range(rounds):
                    for name, (home, hosts) in SPLITS.items():
                        progress.step(f"{load}, {name}, round {turn + 1}")
                        _split(live, query_id, home, hosts)
                        one = _measure(live, query_id)
                        progress.note(str(one))
                        found.setdefault((load, name), []).append(one)
        source = {"keys": KEYS, "zipf": 0, "rowBytes": ROW_BYTES, "pacing": "none",
                  "totalRows": 10**12, "numPartitions": 2}  # fmt: skip
        with _query(spark, work, "free", source, counting) as query_id:
            _split(live, query_id, 1, (1,))
            found["free", "1 at home, 1 elsewhere"] = [
                _measure(live, query_id) for _ in range(rounds)
            ]
    return _report(found)


@contextmanager
def _query(
    spark: SparkSession, work: Path, name: str, source: Mapping[str, object], build: Build
) -> Iterator[str]:
    """A running query of the workload source: its id."""
    running = (
        writer(spark, name, source, build)
        .outputMode("update")
        .option("checkpointLocation", str(work / name))
        .trigger(realTime="10 minutes")  # type: ignore[call-overload]
        .start()
    )
    try:
        yield str(running.id)
    finally:
        running.stop()


def _partition(live: Laneshift, query_id: str) -> PartitionSnapshot | None:
    for query in live.snapshot().queries:
        if query.id == query_id and query.operators:
            return query.operators[0].partitions[0]
    return None


def _split(live: Laneshift, query_id: str, home: int, hosts: tuple[int, ...]) -> None:
    """Give the partition its lanes, and wait until they are there."""
    deadline = time.monotonic() + 120
    while (part := _partition(live, query_id)) is None or part.rows_out == 0:
        if time.monotonic() > deadline:
            raise BenchmarkError("The query gave no row within 120 s.")
        time.sleep(0.2)
    others = [e.executor for e in live.snapshot().executors if e.executor != part.executor]
    live.set_lanes(query_id, 0, 0, home, on=dict(zip(others, hosts, strict=False)))
    while (part := _partition(live, query_id)) is None or part.lanes != home + sum(hosts):
        if time.monotonic() > deadline:
            raise BenchmarkError(f"{home} + {hosts} lanes are not there: {part}")
        time.sleep(0.2)


def _measure(live: Laneshift, query_id: str) -> Found:
    time.sleep(WARM_S)
    before, began = _partition(live, query_id), time.monotonic()
    time.sleep(SECONDS)
    after, seconds = _partition(live, query_id), time.monotonic() - began
    if before is None or after is None:
        raise BenchmarkError("The query has ended.")
    sent = sum(r.rows_sent for r in after.elsewhere) - sum(r.rows_sent for r in before.elsewhere)
    reads = sum(r.state_reads for r in after.elsewhere) - sum(
        r.state_reads for r in before.elsewhere
    )
    return Found(
        (after.rows_out - before.rows_out) / seconds,
        sent / seconds,
        reads / seconds,
        after.latency.p50_ms if after.latency.count else math.nan,
        after.latency.p99_ms if after.latency.count else math.nan,
    )


def _report(found: Mapping[tuple[str, str], list[Found]]) -> Report:
    report = Report("remote", "Lanes on other executors", METHOD, HEADER)
    home, away = SPLITS
    for name in SPLITS:
        full, half = found["full", name], found["half", name]
        report.rows.append([
            name, _spread([f.rows_per_s for f in full]), _spread([f.p50_ms for f in half]),
            _spread([f.p99_ms for f in half]), _spread([f.elsewhere_per_s for f in full]),
            _spread([f.reads_per_s for f in full]),
        ])  # fmt: skip
    free = found["free", "1 at home, 1 elsewhere"]
    report.rows.append([
        "without cost, 1 + 1", _spread([f.rows_per_s for f in free]), "", "",
        _spread([f.elsewhere_per_s for f in free]), _spread([f.reads_per_s for f in free]),
    ])  # fmt: skip
    ratios = [
        a.rows_per_s / h.rows_per_s
        for h, a in zip(found["full", home], found["full", away], strict=True)
    ]

    def more(of: str) -> float:
        each = zip(found["half", home], found["half", away], strict=True)
        return statistics.median(getattr(a, of) - getattr(h, of) for h, a in each)

    report.goals = [
        Goal("throughput, 1 + 7 elsewhere / 8 at home", statistics.median(ratios), ">=", 0.85),
        Goal("p50 more at half load, ms", more("p50_ms"), "<=", 1.0),
        Goal("p99 more at half load, ms", more("p99_ms"), "<=", 5.0),
        Goal(
            "rows/s without cost through one lane elsewhere",
            statistics.median(f.elsewhere_per_s for f in free), ">=", 100_000,
        ),
    ]  # fmt: skip
    report.data = {
        f"{load}, {name}": [
            {"rows_per_s": f.rows_per_s, "elsewhere_per_s": f.elsewhere_per_s,
             "reads_per_s": f.reads_per_s, "p50_ms": f.p50_ms, "p99_ms": f.p99_ms}
            for f in each
        ]
        for (load, name), each in found.items()
    }  # fmt: skip
    report.notes = [f"Ratios of throughput by round: {', '.join(f'{r:.3f}' for r in ratios)}."]
    return report


def _spread(values: list[float]) -> str:
    middle = statistics.median(values)
    digits = 0 if middle >= 100 else 2
    return f"{middle:,.{digits}f} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"
