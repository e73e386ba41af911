"""A hot partition on executors of two cores, for test_live_places.py; prints what it saw as JSON.

A policy places lanes. One executor is taken away before, another one joins while the batch runs:
all of it is in one batch, as Spark may compute the partition on any executor in the next.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import laneshift
from laneshift_lab.workload import with_workload
from live.cluster_app import page, top

ROWS, RATE, COST_US, KEYS = 60_000, 700, 4_000, 300


def session() -> SparkSession:
    made = (
        SparkSession.builder.master("local-cluster[3,2,1024]")
        .config("spark.ui.port", "0")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.executor.memory", "1g")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.decommission.enabled", "true")
        .config("spark.sql.streaming.stateStore.checkpointFormatVersion", "2")
        .config("spark.sql.streaming.realTimeMode.allowlistCheck", "false")
        .config("spark.sql.streaming.realTimeMode.minBatchDuration", "1s")
    )
    made = laneshift.configure(made, lanes=1, max_lanes=8, shards_per_partition=64)
    return with_workload(made).getOrCreate()


def rows(reader: Any) -> DataFrame:
    found: DataFrame = (
        reader.format("laneshift-workload")
        .options(keys=KEYS, zipf=0.2, rowBytes=8, totalRows=ROWS, numPartitions=1)
        .load()
    )
    return found


def answer(source: DataFrame) -> DataFrame:
    return source.groupBy("key").agg(F.count("*").alias("n"), F.sum("value").alias("total"))


def until(what: str, condition: Callable[[], Any], seconds: float = 120) -> Any:
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise SystemExit(f"{what}: it did not happen in time")
        time.sleep(0.2)
    print(f"{what}: {found}", file=sys.stderr, flush=True)
    return found


def no_host(spark: SparkSession) -> Any:
    """Scala's None."""
    return spark._jvm.scala.Option.apply(None)


def main(folder: Path, policy: str) -> None:
    spark = session()
    app = laneshift.attach(spark)

    def executors() -> list[str]:
        return [e.executor for e in app.snapshot().executors]

    until("three executors", lambda: len(executors()) == 3)
    context = spark.sparkContext._jsc.sc()
    context.killExecutor(executors()[-1])
    until("two executors", lambda: len(executors()) == 2)
    stream = rows(spark.readStream.option("rowsPerSecond", RATE))
    costly = answer(stream).selectExpr("key", f"laneshift_cost(n, {COST_US}, 'wait') AS n", "total")
    query = (
        costly.writeStream.format("laneshift-measure")
        .option("name", str(folder))
        .outputMode("update")
        .queryName("hot")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(realTime="120 seconds")  # type: ignore[call-overload]
        .start()
    )

    counted: dict[str, int] = {}

    def part() -> laneshift.PartitionSnapshot | None:
        if query.exception() is not None:
            raise SystemExit(str(query.exception()))
        found = [q for q in app.snapshot().queries if q.id == str(query.id) and q.operators]
        if not found:
            return None
        now = found[0].operators[0].partitions[0]
        counted[now.executor] = now.rows_out  # it counts anew where Spark computes it next
        return now

    def there() -> set[str]:
        now = part()
        return {r.executor for r in now.elsewhere if r.rows_sent > 50} if now else set()

    def held(executor: str) -> bool:
        now = part()
        return now is not None and any(r.executor == executor for r in now.elsewhere)

    seen: dict[str, Any] = {}
    until("rows", lambda: (now := part()) is not None and now.rows_out > 100)
    autoscaler = app.autoscale(policy=policy, interval=0.5)
    began = time.monotonic()
    first = until("lanes on another executor", there)
    now = part()
    assert now is not None
    seen["home"] = now.executor
    seen["first"], seen["first_s"] = sorted(first), time.monotonic() - began
    known = set(executors())
    nowhere = spark._jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(
        spark._jvm.java.util.HashMap()
    )
    context.requestTotalExecutors(3, 0, nowhere)
    (joined,) = until("a third executor", lambda: set(executors()) - known)
    seen["joined"] = joined
    began = time.monotonic()
    until("lanes on the executor that joined", lambda: joined in there())
    seen["joined_s"] = time.monotonic() - began
    seen["page"], seen["top"] = page(spark), top(spark)
    why = spark._jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo("test", no_host(spark))
    context.schedulerBackend().decommissionExecutor(joined, why, True, False)
    began = time.monotonic()
    until("lanes left the executor that goes", lambda: not held(joined))
    seen["left_s"] = time.monotonic() - began
    until("all rows", lambda: part() and sum(counted.values()) >= ROWS, seconds=240)
    now = part()
    assert now is not None
    seen["rows_out"] = sum(counted.values())
    seen["host_lanes"] = sum(e.host_lanes for e in app.snapshot().executors)
    seen["lost"] = sum(e.remote_lost_hosts for e in app.snapshot().executors)
    seen["remote_rows"] = sum(e.remote_rows for e in app.snapshot().executors)
    last = now.batch_id
    # The batch's end is the commit of what it has counted.
    until("a batch more", lambda: (now := part()) is not None and now.batch_id > last, 300)
    until("lanes at home", lambda: (now := part()) is not None and not now.wanted_elsewhere)
    decisions = autoscaler.decisions(limit=10_000)
    autoscaler.stop()
    seen["errors"] = [d.error for d in decisions if d.error]
    seen["said"] = [line for d in decisions for line in d.lines()]
    query.stop()
    spark.conf.set("spark.sql.laneshift.enabled", "false")
    stock = {row["key"]: tuple(row)[1:] for row in answer(rows(spark.read)).collect()}
    state = spark.read.format("statestore").load(str(folder / "checkpoint"))
    kept = {row["key"][0]: tuple(row["value"]) for row in state.collect()}
    seen["keys"], seen["identical"] = len(stock), kept == stock
    spark.stop()
    print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    main(Path(sys.argv[1]), sys.argv[2])
