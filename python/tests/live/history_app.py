"""An application with an event log, run by test_live_history.py: one query ends, one does not."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from urllib.request import urlopen

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import laneshift
from laneshift_lab.workload import with_workload


def main(folder: Path) -> None:
    builder = (
        SparkSession.builder.master("local[6]")
        .appName("laneshift history")
        .config("spark.ui.port", "0")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.dir", (folder / "events").as_uri())
        .config("spark.sql.shuffle.partitions", "2")
    )
    builder = laneshift.configure(
        builder, lanes=2, max_lanes=3, shards_per_partition=16, motion="always"
    )
    spark = with_workload(builder).getOrCreate()
    app = laneshift.attach(spark)
    queries = []
    for name in ("ends", "goes on"):
        rows = (
            spark.readStream.format("laneshift-workload")
            .options(keys=100, zipf=0.9, rowBytes=0, rowsPerBatch=500, pacing="none")
            .load()
        )
        queries.append(
            rows.groupBy("key")
            .agg(F.count("*").alias("n"))
            .writeStream.format("noop")
            .queryName(name)
            .outputMode("update")
            .option("checkpointLocation", str(folder / name))
            .start()
        )
    with app.autoscale(policy="elasticutor", interval=0.5, release_after_s=0) as autoscaler:
        end = time.monotonic() + 180
        while True:
            moves = min(len(app.query(q).handoffs()) for q in queries)
            changes = sum(len(d.changes) for d in autoscaler.decisions())
            page = urlopen(f"{spark.sparkContext.uiWebUrl}/laneshift/").read()
            if moves >= 10 and changes and b"Over time" in page:
                break
            if time.monotonic() > end:
                sys.exit(f"{moves} moves, {changes} changes of lanes, page {page.decode()[-9000:]}")
            time.sleep(0.5)
    moved = len(app.query(queries[0]).handoffs())
    queries[0].stop()
    time.sleep(1.0)  # events are posted by another thread
    print(json.dumps({"id": spark.sparkContext.applicationId, "moved": moved}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
