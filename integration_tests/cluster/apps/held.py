"""Counts clicks of a Kafka topic in micro-batches, and holds the source back for a while.

Writes as JSON what each batch has read and how long it took, which batch was the last one before
the limit and the last one under it, and the counts by page.
"""

import argparse
import json
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import laneshift

parser = argparse.ArgumentParser()
parser.add_argument("brokers")
parser.add_argument("topic")
parser.add_argument("own_limit", type=int, help="rows of a batch that is not held back")
parser.add_argument("rate", type=float, help="rows/s of those that are")
parser.add_argument("checkpoint")
parser.add_argument("report", type=Path)
args = parser.parse_args()

spark = SparkSession.builder.appName("held").getOrCreate()
app = laneshift.attach(spark)
query = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", args.brokers)
    .option("subscribe", args.topic)
    .option("startingOffsets", "earliest")
    .option("maxOffsetsPerTrigger", args.own_limit)
    .load()
    .groupBy(F.col("key").cast("string").alias("page"))
    .count()
    .writeStream.queryName("held")
    .format("memory")
    .outputMode("complete")
    .option("checkpointLocation", args.checkpoint)
    .trigger(processingTime="1 second")
    .start()
)


def newest() -> int:
    """The last batch that has ended."""
    progress = query.lastProgress
    return -1 if progress is None else int(progress["batchId"])


def until(batch: int) -> int:
    """Wait for the end of a batch; the newest one."""
    while newest() < batch:
        assert query.isActive, query.exception()
        time.sleep(0.05)
    return newest()


before = until(1)
app.query(query).limit_source(args.rate, duration=600)
under = until(before + 5)
app.query(query).limit_source(args.rate, duration=0)
query.processAllAvailable()
batches = {
    p["batchId"]: (p["numInputRows"], p["durationMs"]["triggerExecution"] / 1000)
    for p in query.recentProgress
    if p["numInputRows"]
}
counts = {row["page"]: row["count"] for row in spark.table("held").collect()}
query.stop()
seen = {"batches": batches, "before": before, "under": under, "counts": counts}
args.report.write_text(json.dumps(seen))
