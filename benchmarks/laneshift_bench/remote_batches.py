"""Micro-batches of many keys with half of the lanes elsewhere: the cases of `remote` for them."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from laneshift_bench.query import BenchmarkError, Build
from laneshift_bench.remote_case import CORES, EXECUTORS, Bench, Case, side, source
from laneshift_bench.there import Spread, cluster, spread_query, until

KEYS_A_BATCH = 100_000
COST_US = 50
SPLITS: Mapping[str, tuple[int, tuple[int, ...]]] = {
    "4 at home": (4, ()),
    "2 at home, 2 elsewhere": (2, (2,)),
}
BATCH_PATIENCE_S = 300.0
METHOD = f"""\
*batches*: micro-batches back to back, each with every one of {KEYS_A_BATCH:,} keys once, of an
aggregation that keeps payloads of 100 bytes and of an inner join of two halves of the stream; an
answer waits {COST_US} microseconds. Rows over the whole time of a batch, the median of those that
began with all lanes of the split."""


def aggregation(rows: DataFrame) -> DataFrame:
    """Each key of a batch once."""
    keyed = rows.withColumn("k", sf.col("seq") % KEYS_A_BATCH)
    found = keyed.groupBy("k").agg(
        sf.count("*").alias("n"),
        sf.max("event_time").alias("event_time"),
        sf.max("payload").alias("payload"),
    )
    return found.select("k", _paid("n"), "event_time")


def join(rows: DataFrame) -> DataFrame:
    """Two rows a key, which meet in their batch."""
    pair = sf.floor(sf.col("seq") / 2)
    keyed = rows.select(
        (pair % KEYS_A_BATCH).alias("k"), sf.floor(pair / KEYS_A_BATCH).alias("batch"), "seq",
        "event_time",
    )  # fmt: skip
    left = keyed.where("seq % 2 = 0")
    right = keyed.where("seq % 2 = 1").toDF("other_k", "other_batch", "other", "at")
    both = left.join(right, sf.expr("k = other_k AND batch = other_batch"))
    return both.select("k", _paid("seq"), "event_time")


def _paid(column: str) -> Column:
    return sf.expr(f"laneshift_cost({column}, {COST_US}, 'wait')").alias("n")


BUILDS: Mapping[str, tuple[Build, int, str]] = {
    "aggregation": (aggregation, KEYS_A_BATCH, "update"),
    "join": (join, 2 * KEYS_A_BATCH, "append"),
}


def batches(bench: Bench) -> None:
    """Aggregation and join with half of the lanes on another executor."""
    for kind, (build, rows, mode) in BUILDS.items():
        found: dict[str, list[float]] = {name: [] for name in SPLITS}
        offered = source(rowBytes=100, pacing="none", rowsPerBatch=rows)
        with (
            cluster(EXECUTORS, CORES) as (spark, work),
            spread_query(spark, work, side(), offered, build, None, mode=mode) as query,
        ):
            for turn in range(bench.rounds):
                for name, (home, hosts) in SPLITS.items():
                    bench.progress.step(f"batches, {kind}, {name}, round {turn + 1}")
                    query.split(home, hosts)
                    taken = _next(query, 2 if bench.quick else 4)
                    found[name].append(rows * 1000 / taken)
                    bench.progress.note(f"{found[name][-1]:,.0f} rows/s")
        for name, rates in found.items():
            bench.add(f"batches, {kind}", name, "rows/s", rates)
        home_rates, split_rates = found.values()
        bench.ratio(
            f"{kind} of {KEYS_A_BATCH:,} keys a batch, half of the lanes elsewhere / all at home",
            split_rates, home_rates, ">=", 0.7,
        )  # fmt: skip


def _next(query: Spread, count: int) -> float:
    """Time (ms) of the median of so many batches that begin from now on."""
    begun = _newest(query.query)
    # The batch that runs may have begun before the split.
    wanted = range(begun + 2, begun + 2 + count)
    times = until("the next batches", lambda: _times(query.query, wanted), BATCH_PATIENCE_S)
    return sorted(times)[len(times) // 2]


def _newest(query: StreamingQuery) -> int:
    done = [p.batchId for p in query.recentProgress if p.numInputRows]
    return max(done, default=-1)


def _times(query: StreamingQuery, wanted: range) -> list[float] | None:
    if not query.isActive:
        raise BenchmarkError(f"The query has ended: {query.exception()}")
    took = {p.batchId: p.durationMs["triggerExecution"] for p in query.recentProgress}
    return [float(took[n]) for n in wanted] if all(n in took for n in wanted) else None


CASES = (
    Case(
        "batches", "micro-batches with half of the lanes elsewhere", batches,
        len(BUILDS) * len(SPLITS),
    ),
)  # fmt: skip
