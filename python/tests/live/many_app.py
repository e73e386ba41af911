"""200 partitions, each with a lane on the other executor, for test_live_places.py; prints JSON.

Micro-batches. Spark's connections are authenticated and encrypted, and so are the lanes'.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

import laneshift
from laneshift_lab.workload import with_workload
from live.cluster_app import answer, rows, started, until

PARTITIONS, BATCH, BATCHES = 200, 4_000, 5


def session() -> SparkSession:
    made = (
        SparkSession.builder.master("local-cluster[2,2,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.executor.memory", "1g")
        .config("spark.authenticate", "true")
        .config("spark.authenticate.secret", "nobody knows")
        .config("spark.network.crypto.enabled", "true")
        .config("spark.sql.shuffle.partitions", str(PARTITIONS))
    )
    elastic = laneshift.configure(made, lanes=1, max_lanes=2, shards_per_partition=4)
    return with_workload(elastic).getOrCreate()


def main(folder: Path) -> None:
    spark = session()
    app = laneshift.attach(spark)
    until(lambda: len(app.snapshot().executors) == 2)
    ids = [e.executor for e in app.snapshot().executors]
    total = BATCH * BATCHES
    stream = rows(spark.readStream.options(rowsPerBatch=BATCH, pacing="none"), total)
    query = started(stream, folder)

    def partitions() -> tuple[laneshift.PartitionSnapshot, ...]:
        if query.exception() is not None:
            raise SystemExit(str(query.exception()))
        found = [o for q in app.snapshot().queries for o in q.operators]
        return found[0].partitions if found else ()

    until(lambda: len(partitions()) == PARTITIONS)
    wanted, began = 0, time.monotonic()
    for part in partitions():
        (other,) = set(ids) - {part.executor}
        try:
            app.query(query).set_lanes(1, partition=part.partition, on={other: 1})
            wanted += 1
        except laneshift.LaneshiftError as error:
            # Spark may compute it on the other one meanwhile.
            if error.condition not in ("LANESHIFT_EXECUTOR_IS_HOME", "LANESHIFT_PARTITION_MOVED"):
                raise
    asked_s = time.monotonic() - began

    until(lambda: (p := query.lastProgress) and (p["batchId"] + 1) * BATCH >= total, seconds=240)
    query.processAllAvailable()
    executors = app.snapshot().executors
    seen = {
        "wanted": wanted,
        "asked_s": asked_s,
        "elsewhere": sum(p.rows_taken_elsewhere > 0 for p in partitions()),
        "rows": sum(e.remote_rows for e in executors),
        "lost": sum(e.remote_lost_hosts for e in executors),
        "kept": sum(e.remote_kept_bytes for e in executors),
        "batches_s": [
            round(p["durationMs"]["triggerExecution"] / 1e3, 1) for p in query.recentProgress
        ],
    }
    streamed: dict[str, tuple[int, ...]] = {}
    for row in spark.table("answers").collect():
        values = tuple(row)[1:]
        streamed[row["key"]] = max(streamed.get(row["key"], (0,)), values)
    query.stop()
    spark.conf.set("spark.sql.laneshift.enabled", "false")
    stock = {row["key"]: tuple(row)[1:] for row in answer(rows(spark.read, total)).collect()}
    seen["keys"], seen["identical"] = len(stock), streamed == stock
    spark.stop()
    print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    main(Path(sys.argv[1]))
