"""One executor, and a hot partition that needs more, for test_live_demand.py; prints JSON.

The workers of the cluster have room for three, and the application gets all three at once, as a
standalone cluster gives them, and is to have one: two go from below a query in micro-batches. Then
the autoscaler asks for executors, lanes go there, load falls, and they go again.
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
from pyspark.sql.streaming import StreamingQuery

import laneshift
from laneshift_lab.workload import with_workload
from live.cluster_app import page

ROWS, RATE, COST_US, KEYS = 60_000, 700, 4_000, 300
REST_S = 8


def session() -> SparkSession:
    made = (
        SparkSession.builder.master("local-cluster[3,2,1024]")
        .config("spark.ui.port", "0")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.executor.memory", "1g")
        .config("spark.executor.instances", "1")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.laneshift.executors.max", "3")
        .config("spark.sql.laneshift.executors.restTime", f"{REST_S}s")
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


def two_partitions(spark: SparkSession, folder: Path) -> StreamingQuery:
    """A query in micro-batches, with little to do even on a slow machine."""
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    source = (
        spark.readStream.format("rate")
        .option("numPartitions", 1)
        .load()
        .selectExpr("value % 10 AS key", "value")
    )
    query = (
        answer(source).writeStream.format("noop").outputMode("update").queryName("calm")
        .option("checkpointLocation", str(folder / "calm"))
        .trigger(processingTime="10 seconds")
        .start()
    )  # fmt: skip
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    return query


def until(what: str, condition: Callable[[], Any], seconds: float = 300) -> Any:
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise SystemExit(f"{what}: it did not happen in time")
        time.sleep(0.2)
    print(f"{time.time():.0f} {what}: {found}", file=sys.stderr, flush=True)
    return found


def main(folder: Path) -> None:
    spark = session()
    app = laneshift.attach(spark)
    seen: dict[str, Any] = {}

    def executors() -> list[str]:
        return [e.executor for e in app.snapshot().executors]

    # A standalone cluster gives all that it has: without work two of them go after their rest.
    until("three executors", lambda: len(executors()) == 3)
    first = min(executors(), key=int)
    calm = two_partitions(spark, folder)

    def homes() -> set[str]:
        found = [q for q in app.snapshot().queries if q.id == str(calm.id) and q.operators]
        return {part.executor for q in found for part in q.operators[0].partitions}

    # Two tasks go to two executors, and to the same ones again: where their state is.
    until("two homes", lambda: len(homes()) == 2)
    autoscaler = app.autoscale(policy="laneshift", interval=0.5)
    until("one executor", lambda: executors() == [first])
    until("one home", lambda: homes() == {first})
    seen["calm"] = [str(calm.exception()), (calm.lastProgress or {}).get("batchId", 0)]
    seen["calm_page"] = page(spark)  # it has the last few notes only
    calm.stop()
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
        counted[now.executor] = now.rows_out
        return now

    def there() -> set[str]:
        now = part()
        return {r.executor for r in now.elsewhere if r.rows_sent > 50} if now else set()

    more = until("another executor", lambda: set(executors()) - {first})
    seen["asked"] = sorted(e.executor for e in app.snapshot().executors if e.asked)
    until("lanes on it", lambda: there() & (set(executors()) - {first}))
    seen["lanes_on"], seen["came"] = sorted(there()), sorted(more)
    seen["most"] = len(executors())
    until("all rows", lambda: part() and sum(counted.values()) >= ROWS)
    now = part()
    assert now is not None
    last = now.batch_id
    # Spark puts the tasks of each batch on any of them, those that are to go included.
    until("executors have gone", lambda: executors() == [first])
    # The batch's end is the commit of what it has counted.
    until("a batch more", lambda: (now := part()) is not None and now.batch_id > last)
    now = part()
    assert now is not None
    seen["home"] = now.executor
    query.stop()
    seen["first"], seen["left"] = first, [e.asked for e in app.snapshot().executors]
    seen["lost"] = sum(e.remote_lost_hosts for e in app.snapshot().executors)
    seen["page"] = page(spark)
    decisions = autoscaler.decisions(limit=10_000)
    seen["errors"] = [d.error for d in decisions if d.error]
    seen["said"] = [line for d in decisions for line in d.lines()]
    autoscaler.stop()
    spark.conf.set("spark.sql.laneshift.enabled", "false")
    stock = {row["key"]: tuple(row)[1:] for row in answer(rows(spark.read)).collect()}
    state = spark.read.format("statestore").load(str(folder / "checkpoint"))
    kept = {row["key"][0]: tuple(row["value"]) for row in state.collect()}
    seen["keys"], seen["identical"] = len(stock), kept == stock
    spark.stop()
    print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    main(Path(sys.argv[1]))
