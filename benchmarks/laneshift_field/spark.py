"""Counts per key on Spark: stock, or with laneshift. A process of its own, as the others are.

Followed: Real-time Mode (one slot for each task of all stages, RocksDB, checkpoint format 2) and
the state data source's offline repartition, of spark.apache.org/docs/latest/streaming; the wait of
the shuffle's network buffer is 1 ms on both sides.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.readwriter import DataStreamWriter

from laneshift import attach
from laneshift_bench.query import as_side, measured
from laneshift_bench.repartition import RepartitionedQuery
from laneshift_bench.session import session
from laneshift_bench.sides import Side, stock
from laneshift_field.cases import KILL

NAME = "field"
PARTITIONS = 2
WORKERS = 2
DRAIN_S = 30.0


@dataclass(frozen=True)
class Order:
    """What a run is given, as JSON in its only argument.

    Attributes:
        side, mode: ``stock`` or ``laneshift``, ``real-time`` or ``micro-batch``.
        rows, answers, changed, start: files; into the last goes when row 0 is due.
        lead_s: from the session's start until then.
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
    start: str
    lead_s: float
    stages: str
    count: int
    seconds: float
    cost_us: int
    cores: int
    most: int
    commit_ms: int
    changes: list[tuple[float, int]]

    @property
    def workers(self) -> bool:
        """Whether its executors are processes of their own: one is to be killed."""
        return any(cores == KILL for _, cores in self.changes)

    @property
    def trigger(self) -> dict[str, Any]:
        """Of the query."""
        if self.mode == "real-time":
            return {"realTime": f"{self.commit_ms} milliseconds"}
        return {"processingTime": "0 seconds"}


def rows(spark: SparkSession, order: Order, start_us: int) -> DataFrame:
    """The recorded rows, as they become due."""
    start = datetime.fromtimestamp(start_us / 1e6, UTC)
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
    # In a batch an aggregation answers once for all rows of a key, and would pay once: rows come to
    # its partitions one by one, and pay there.
    paid = f"laneshift_cost(1, {order.cost_us}, 'pace') AS one"
    each = given.repartition("key").selectExpr("key", paid)
    return each.groupBy("key").agg(sf.sum("one").alias("n"))


def side_of(order: Order) -> Side:
    """Stock has a partition for each core; laneshift two, whose lanes are the cores."""
    if order.side == "stock":
        return stock(order.cores)
    lanes = {"lanes": str(order.cores // PARTITIONS), "maxLanes": str(order.most // PARTITIONS)}
    return Side("laneshift", lanes, PARTITIONS)


class Sink:
    """Where answers come, and from where they go to the file.

    In one process it is the measuring sink. Executors of their own have none: then the driver takes
    each batch's answers, which makes them no earlier than they are.
    """

    def __init__(self, spark: SparkSession, order: Order) -> None:
        self._spark = spark
        self._order = order
        self.start_us = round(1e6 * (time.time() + order.lead_s))
        Path(order.start).write_text(f"{self.start_us}\n")
        self._registry: Any = spark._jvm.org.apache.spark.sql.laneshift.workload.MeasureRegistry  # type: ignore[union-attr]
        self._latest: dict[int, int] = {}
        self._lock = threading.Lock()
        self._file = Path(order.answers).open("w")  # noqa: SIM115

    def written(self, spark: SparkSession) -> DataStreamWriter:
        """The query, up to its trigger and checkpoint."""
        answers = counted(self._order, rows(spark, self._order, self.start_us))
        if self._order.workers:
            return answers.writeStream.foreachBatch(self._take).outputMode("update")
        lines = answers.select(sf.concat_ws(" ", "key", "n").alias("line"))
        return measured(lines, NAME).option("lineColumn", "line").outputMode("update")

    def answered(self) -> int:
        """Rows that have their answers; those that came are in the file."""
        if not self._order.workers:
            for line in str(self._registry.lines(NAME)).splitlines():
                micros, answer = line.split(",", 1)
                key, n = answer.split(" ")
                self._add(int(key), int(n), int(micros))
        self._file.flush()
        return sum(self._latest.values())

    def _take(self, batch: DataFrame, _: int) -> None:
        found = batch.collect()
        micros = round(1e6 * time.time())
        with self._lock:
            for key, n in found:
                self._add(key, n, micros)

    def _add(self, key: int, n: int, micros: int) -> None:
        self._latest[key] = max(self._latest.get(key, 0), n)
        self._file.write(f"{key} {n} {micros}\n")


def run(order: Order) -> None:
    """All of it; the answers' file is written at the end."""
    settings = {"spark.sql.streaming.numRecentProgressUpdates": "100"}
    if order.workers:
        os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
        os.environ.setdefault("SPARK_SCALA_VERSION", "2.13")
        settings["spark.master"] = f"local-cluster[{WORKERS},{order.most // WORKERS + 1},1024]"
    with session(slots=order.most + 2, settings=settings) as (spark, work):
        sink = Sink(spark, order)
        start_s = sink.start_us / 1e6
        end_s = start_s + order.seconds
        query = RepartitionedQuery(spark, sink.written, str(work / "checkpoint"), order.trigger)
        with as_side(spark, side_of(order)):
            query.start()
            for at_s, cores in order.changes:
                _wait(query, start_s + at_s)
                began = time.time()
                if cores == KILL:
                    _kill_worker()
                elif order.side == "stock":
                    query.rescale(cores)
                else:
                    attach(spark).query(query.query).set_lanes(cores // PARTITIONS)
                with Path(order.changed).open("a") as file:
                    file.write(f"{cores} {round(1e6 * began)} {round(1e6 * time.time())}\n")
            _wait(query, end_s)
            while sink.answered() < order.count and time.time() < end_s + DRAIN_S:
                _wait(query, time.time() + 0.2)
            query.stop()
            sink.answered()


def _wait(query: RepartitionedQuery, until_s: float) -> None:
    """Until then (s since 1970). Errors: the query's, if it fails."""
    while (left := until_s - time.time()) > 0:
        if (failure := query.query.exception()) is not None:
            raise failure
        time.sleep(min(left, 0.2))


def _kill_worker() -> None:
    """One of this run's executor processes."""
    mine = os.getsid(0)
    for folder in sorted(Path("/proc").glob("[0-9]*"), key=lambda each: -int(each.name)):
        try:
            executor = b"CoarseGrainedExecutorBackend" in (folder / "cmdline").read_bytes()
            if executor and os.getsid(int(folder.name)) == mine:
                os.kill(int(folder.name), signal.SIGKILL)
                return
        except OSError:
            continue
    raise RuntimeError("There is no executor to kill.")


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    given["changes"] = [(at_s, cores) for at_s, cores in given["changes"]]
    run(Order(**given))
