"""Orders per customer and minute, while the number of state partitions changes again and again."""

import argparse
import itertools
import threading
import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

parser = argparse.ArgumentParser()
parser.add_argument("orders", help="folder of JSON files")
parser.add_argument("checkpoint", help="folder for the checkpoint")
parser.add_argument("results", help="folder for a folder of results for each batch")
parser.add_argument("--partitions", nargs="*", type=int, default=[], help="numbers, by turns")
args = parser.parse_args()


def write(rows: DataFrame, batch: int) -> None:
    """A batch that comes again takes the place of its first try."""
    rows.coalesce(1).write.mode("overwrite").parquet(f"{args.results}/{batch:04}")


def change(query: StreamingQuery) -> None:
    import laneshift

    app = laneshift.attach(spark)
    for partitions in itertools.cycle(args.partitions):
        try:
            app.query(query).rescale(partitions).wait("2min")
            print(f"rescaled to {partitions}", flush=True)
        # Executors die meanwhile, and the number may be the one that there is.
        except Exception as error:
            print(f"not rescaled to {partitions}: {error}", flush=True)
            time.sleep(0.2)


spark = SparkSession.builder.appName("changing").getOrCreate()
minutes = (
    spark.readStream.schema("at TIMESTAMP, customer LONG, amount LONG")
    .option("maxFilesPerTrigger", 1)
    .json(args.orders)
    .withWatermark("at", "1 minute")
    .groupBy(F.window("at", "1 minute"), "customer")
    .agg(F.count("*").alias("orders"), F.sum("amount").alias("total"))
)
query = (
    minutes.writeStream.queryName("minutes")
    .option("checkpointLocation", args.checkpoint)
    .outputMode("append")
    .trigger(processingTime="0 seconds")
    .foreachBatch(write)
    .start()
)
if args.partitions:
    threading.Thread(target=change, args=(query,), daemon=True).start()
query.processAllAvailable()
query.stop()
spark.stop()
