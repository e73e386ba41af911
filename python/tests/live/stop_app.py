"""A query whose Python function hangs on lanes of one kind and is stopped, for test_live_stops.py.

Prints JSON: how many workers hung, after how many seconds no task ran and no such worker lived.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import laneshift
from laneshift_lab.workload import with_workload
from live.cluster_app import rows, until

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

PARTITIONS, HANGS_S = 2, 600
WORKERS = {"stock": 2, "home": 6, "dealt": 4, "range": 4, "elsewhere": 4}
OPTIONS = {
    "stock": {"spark.sql.laneshift.enabled": "false"},
    "home": {"spark.sql.laneshift.lanes": "3"},
    "dealt": {"spark.sql.laneshift.lanes": "2", "spark.sql.laneshift.stateless": "true"},
    "range": {"spark.sql.laneshift.lanes": "2", "spark.sql.laneshift.tasks": "1"},
    "elsewhere": {"spark.sql.laneshift.lanes": "1"},
}


def session(kind: str) -> SparkSession:
    made = (
        SparkSession.builder.master("local-cluster[2,2,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.executor.memory", "1g")
        .config("spark.sql.shuffle.partitions", str(PARTITIONS))
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
    )
    made = laneshift.configure(made, max_lanes=4, shards_per_partition=16)
    for key, value in OPTIONS[kind].items():
        made = made.config(key, value)
    return with_workload(made).getOrCreate()


def hung(source: DataFrame, kind: str, hang: Path, folder: Path) -> DataFrame:
    """The rows through a function that hangs once ``hang`` is there, having told its process."""

    @F.udf("long")
    def function(x: int) -> int:
        if os.path.exists(hang):
            (folder / str(os.getpid())).touch()
            time.sleep(HANGS_S)
        return x

    if kind == "dealt":
        return source.select("key", function("seq"))
    return source.groupBy("key").agg(F.count("*").alias("n")).select("key", function("n"))


def lanes_elsewhere(app: laneshift.Application, query: StreamingQuery, ids: set[str]) -> None:
    """A lane of each partition on the other executor: Spark leaves a task with its store."""
    changes = []
    for part in app.query(query).snapshot().partitions:
        (other,) = ids - {part.executor}
        changes.append(app.query(query).set_lanes(1, partition=part.partition, on={other: 1}))
    assert len(changes) == PARTITIONS
    for change in changes:
        change.wait("2min")


def main(kind: str, folder: Path) -> None:
    spark = session(kind)
    app = laneshift.attach(spark)
    until(lambda: len(app.snapshot().executors) == 2)
    ids = {e.executor for e in app.snapshot().executors}
    hang, told = folder / "hang", folder / "told"
    told.mkdir()
    stream = rows(spark.readStream.options(rowsPerBatch=4_000, pacing="none"), 4_000_000)
    query = (
        hung(stream, kind, hang, told)
        .writeStream.format("noop")
        .outputMode("append" if kind == "dealt" else "update")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )
    until(lambda: (p := query.lastProgress) and p["batchId"] >= 1)
    if kind == "elsewhere":
        lanes_elsewhere(app, query, ids)
        after = query.lastProgress["batchId"] + 2
        until(lambda: query.lastProgress["batchId"] > after)
    hang.touch()
    until(lambda: len(list(told.iterdir())) >= WORKERS[kind])
    tracker = spark.sparkContext._jsc.sc().statusTracker()  # type: ignore[union-attr]

    def is_free() -> bool:
        tasks = sum(executor.numRunningTasks() for executor in tracker.getExecutorInfos())
        return tasks == 0 and not any(Path("/proc", w.name).exists() for w in told.iterdir())

    began = time.monotonic()
    query.stop()
    stopped = time.monotonic() - began
    until(is_free)
    free = time.monotonic() - began
    print(json.dumps({"workers": len(list(told.iterdir())), "stopped": stopped, "free": free}))
    spark.stop()


if __name__ == "__main__":
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    main(sys.argv[1], Path(sys.argv[2]))
