"""An executor that got all its worker's cores without asking, for test_live_places.py."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

import laneshift
from laneshift_lab.workload import with_workload
from live.cluster_app import until

CORES = 3


def main(folder: Path) -> None:
    builder = (
        SparkSession.builder.master(f"local-cluster[1,{CORES},1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.executor.memory", "1g")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.streaming.stateStore.checkpointFormatVersion", "2")
        .config("spark.sql.streaming.realTimeMode.allowlistCheck", "false")
    )
    spark = with_workload(laneshift.configure(builder, max_lanes=4)).getOrCreate()
    app = laneshift.attach(spark)
    query = (
        spark.readStream.format("laneshift-workload")
        .options(keys=300, zipf=0.2, rowBytes=8, numPartitions=1, rowsPerSecond=700)
        .load()
        .groupBy("key")
        .count()
        .selectExpr("key", "laneshift_cost(count, 4000, 'wait') AS n")
        .writeStream.format("laneshift-measure")
        .option("name", str(folder))
        .outputMode("update")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(realTime="60 seconds")  # type: ignore[call-overload]
        .start()
    )

    def room() -> int:
        """Cores that the partition's lanes have or could have; 0 until both tasks run."""
        if query.exception() is not None:
            raise SystemExit(str(query.exception()))
        now = app.snapshot()
        lanes = [p.lanes for q in now.queries for o in q.operators for p in o.partitions]
        # It is not there before Spark's listeners have heard of it.
        busy = [e for e in now.executors if e.active_tasks == 2]
        return max(lanes, default=0) + busy[0].idle_cores if busy else 0

    # One core reads the source, one is the partition's own. Whether a lane takes the third depends
    # on what else this machine does.
    seen = {
        "room": until(lambda: room() == 2 and 2),
        "cores": [e.cores for e in app.snapshot().executors],
    }
    query.stop()
    spark.stop()
    print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    main(Path(sys.argv[1]))
