"""Counts per key on Spark: stock, or with laneshift. A process of its own, as the others are.

Followed: Real-time Mode (one slot for each task of all stages, RocksDB, checkpoint format 2) and
the state data source's offline repartition, of spark.apache.org/docs/latest/streaming; the wait of
the shuffle's network buffer is 1 ms on both sides.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.readwriter import DataStreamWriter

from laneshift import attach
from laneshift.session.repartition import RepartitionedQuery
from laneshift_bench.query import as_side, measured
from laneshift_bench.session import session
from laneshift_bench.sides import Side, stock

NAME = "field"
LEAD_US = 20_000
PARTITIONS = 2
DRAIN_S = 30.0


@dataclass(frozen=True)
class Order:
    """What a run is given, as JSON in its only argument.

    Attributes:
        side, mode: ``stock`` or ``laneshift``, ``real-time`` or ``micro-batch``.
        rows, answers, changed: files.
        start_us: when row 0 is due (us since 1970).
        stages: of the rates, as the replay source takes them.
        count: rows in all.
        seconds: until the last one is due.
        cost_us, cores, most, commit_ms, changes: as in ``Field.java``.
    """

    side: str
    mode: str
    rows: str
    answers: str
    changed: str
    start_us: int
    stages: str
    count: int
    seconds: float
    cost_us: int
    cores: int
    most: int
    commit_ms: int
    changes: list[tuple[float, int]]

    @property
    def end_s(self) -> float:
        """When the last row is due (s since 1970)."""
        return self.start_us / 1e6 + self.seconds

    @property
    def trigger(self) -> dict[str, Any]:
        """Of the query."""
        if self.mode == "real-time":
            return {"realTime": f"{self.commit_ms} milliseconds"}
        return {"processingTime": "0 seconds"}


def rows(spark: SparkSession, order: Order) -> DataFrame:
    """The recorded rows, as they become due."""
    start = datetime.fromtimestamp(order.start_us / 1e6, UTC)
    return (
        spark.readStream.format("laneshift-replay")
        .schema("key BIGINT, due_us BIGINT")
        .option("path", order.rows)
        .option("numPartitions", 1)
        .option("rate", "stage")
        .option("rateStages", order.stages)
        .option("startTime", start.isoformat(timespec="microseconds"))
        .load()
    )


def counted(order: Order, given: DataFrame) -> DataFrame:
    """Each key's count, and each row's cost on the core that counts it."""
    if order.mode == "real-time":
        cost = f"laneshift_cost(n, {order.cost_us}, 'pace') AS n"
        return given.groupBy("key").agg(sf.count("*").alias("n")).selectExpr("key", cost)
    # In a batch an aggregation answers once for all rows of a key, and would pay once.
    return given.groupBy("key").applyInPandasWithState(
        counter(order.cost_us), "key LONG, n LONG", "n LONG", "update", "NoTimeout"
    )


def counter(cost_us: int) -> Callable[..., Iterator[Any]]:
    """Counts, and waits for each row to an absolute deadline of its worker."""
    deadline = [0.0]

    def function(key: tuple[Any, ...], parts: Iterator[Any], state: Any) -> Iterator[Any]:
        import time

        import pandas as pd

        new = sum(len(part) for part in parts)
        n = (state.getOption or (0,))[0] + new
        deadline[0] = max(deadline[0], time.monotonic() - LEAD_US / 1e6) + new * cost_us / 1e6
        while (left := deadline[0] - time.monotonic()) > 0:
            time.sleep(left)
        state.update((n,))
        yield pd.DataFrame({"key": [key[0]], "n": [n]})

    return function


def written(order: Order, spark: SparkSession) -> DataStreamWriter:
    """The query, up to its trigger and checkpoint."""
    answers = counted(order, rows(spark, order))
    lines = answers.select(sf.concat_ws(" ", "key", "n").alias("line"))
    return measured(lines, NAME).option("lineColumn", "line").outputMode("update")


def side_of(order: Order) -> Side:
    """Stock has a partition for each core; laneshift two, whose lanes are the cores."""
    if order.side == "stock":
        return stock(order.cores)
    lanes = {"lanes": str(order.cores // PARTITIONS), "maxLanes": str(order.most // PARTITIONS)}
    return Side("laneshift", lanes, PARTITIONS)


def run(order: Order) -> None:
    """All of it; the answers' file is written at the end."""
    settings = {"spark.sql.streaming.numRecentProgressUpdates": "100"}
    with session(slots=order.most + 2, settings=settings) as (spark, work):
        query = RepartitionedQuery(
            spark, lambda of: written(order, of), str(work / "checkpoint"), order.trigger
        )
        with as_side(spark, side_of(order)):
            query.start()
            for at_s, cores in order.changes:
                time.sleep(max(0.0, order.start_us / 1e6 + at_s - time.time()))
                began = time.time()
                if order.side == "stock":
                    query.rescale(cores)
                else:
                    attach(spark).set_lanes(query.query, 0, -1, cores // PARTITIONS)
                with Path(order.changed).open("a") as file:
                    file.write(f"{cores} {round(1e6 * began)} {round(1e6 * time.time())}\n")
            _until_answered(spark, query, order)
            query.stop()


def _until_answered(spark: SparkSession, query: RepartitionedQuery, order: Order) -> None:
    """Until all rows have their answers or time is up; what came goes to the file."""
    registry: Any = spark._jvm.org.apache.spark.sql.laneshift.workload.MeasureRegistry  # type: ignore[union-attr]
    latest: dict[str, int] = {}
    with Path(order.answers).open("w") as file:
        while True:
            now = time.time()
            for line in str(registry.lines(NAME)).splitlines():
                micros, answer = line.split(",", 1)
                key, n = answer.split(" ")
                latest[key] = max(latest.get(key, 0), int(n))
                file.write(f"{answer} {micros}\n")
            if (failure := query.query.exception()) is not None:
                raise failure
            done = now > order.end_s and sum(latest.values()) >= order.count
            if done or now > order.end_s + DRAIN_S:
                return
            time.sleep(max(0.2, min(2.0, order.end_s - now)))


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    given["changes"] = [(at_s, cores) for at_s, cores in given["changes"]]
    run(Order(**given))
