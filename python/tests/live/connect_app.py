"""Two clients of a Spark Connect server, each with a query, and what they may do with both."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import laneshift


def counted(spark: SparkSession) -> DataFrame:
    rows = spark.readStream.format("rate").option("rowsPerSecond", 2000).load()
    return rows.groupBy((F.col("value") % 50).alias("key")).count()


def summed(key: tuple[int], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    before = state.get[0] if state.exists else 0
    after = before + sum(len(frame) for frame in frames)
    state.update((after,))
    yield pd.DataFrame({"key": [key[0]], "n": [after]})


def by_function(spark: SparkSession) -> DataFrame:
    rows = spark.readStream.format("rate").option("rowsPerSecond", 500).load()
    return (
        rows.withColumn("key", F.col("value") % 20)
        .groupBy("key")
        .applyInPandasWithState(summed, "key LONG, n LONG", "n LONG", "update", "NoTimeout")
    )


def until(condition: Callable[[], Any], what: str) -> Any:
    """Wait for something; who has started this process ends it if that does not come."""
    print(f"waits for {what}", flush=True)
    while not (found := condition()):
        time.sleep(0.2)
    return found


def refused(call: Callable[[], Any]) -> str:
    try:
        call()
    except laneshift.LaneshiftError as problem:
        return problem.condition
    return "done"


def shows(app: laneshift.Application, names: set[str]) -> bool:
    return {q.name for q in app.snapshot().queries if q.operators} == names


def works_on(app: laneshift.Application, name: str, lanes: int) -> bool:
    parts = [p for q in app.snapshot().queries if q.name == name
             for o in q.operators for p in o.partitions]  # fmt: skip
    return all(p.lanes == lanes and (p.lane_rows > 0).sum() >= 2 for p in parts)


def partitions(app: laneshift.Application) -> list[Any]:
    return [p for q in app.snapshot().queries for o in q.operators for p in o.partitions]


def main(url: str, tenants: str) -> None:
    builders = [SparkSession.builder.remote(url) for _ in range(2)]
    sessions = [laneshift.configure(b, shards_per_partition=48).create() for b in builders]
    queries = [
        plan(spark)
        .writeStream.format("noop")
        .outputMode("update")
        .queryName(name)
        .trigger(processingTime="500 milliseconds")
        .start()
        for spark, plan, name in zip(sessions, (counted, by_function), ("one", "two"), strict=True)
    ]
    apps = [laneshift.attach(spark) for spark in sessions]
    out: dict[str, Any] = {"errors": []}
    names = {"own": [{"one"}, {"two"}], "all": [{"one", "two"}] * 2}[tenants]
    for app, wanted in zip(apps, names, strict=True):
        until(partial(shows, app, wanted), f"queries {wanted}")
    for app, query in zip(apps, queries, strict=True):
        app.query(query).set_lanes(3)
        until(partial(works_on, app, str(query.name), 3), f"lanes of {query.name}")
    out["moved"] = [
        len(app.query(query).handoffs()) for app, query in zip(apps, queries, strict=True)
    ]
    out["others"] = [
        refused(lambda: apps[0].query("two").set_lanes(1, partition=0)),
        refused(lambda: apps[1].query(str(queries[0].id)).limit_source(1, duration=1)),
        refused(lambda: apps[0].autoscale(policy="static").stop()),
    ]
    with (
        apps[0]
        .query("one")
        .autoscale(policy="elasticutor", interval=0.2, dry_run=True) as autoscaler
    ):
        until(lambda: autoscaler.turns > 3, "turns")
    told = "SELECT token FROM laneshift_control()"
    tokens = [spark.sql(told).collect()[0][0] for spark in sessions]
    out["tokens"] = tokens
    out["shards"] = [len(p.lane_of_shard) for app in apps for p in partitions(app)]
    out["lanes"] = [p.lanes for app in apps for p in partitions(app)]
    for query in queries:
        out["errors"].append(str(query.exception()))
        query.stop()
    for spark in sessions:
        spark.stop()
    print(json.dumps(out))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except BaseException:
        traceback.print_exc()
        os._exit(1)  # queries that still run would keep the process
