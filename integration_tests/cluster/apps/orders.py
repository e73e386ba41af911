"""An ordinary PySpark application: orders per customer and minute, and each customer's amounts."""

import argparse
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

parser = argparse.ArgumentParser()
parser.add_argument("orders", help="folder of JSON files")
parser.add_argument("checkpoints", help="folder for checkpoints")
parser.add_argument("results", help="folder for results")
parser.add_argument("--until", type=Path, help="go on until this file is there")
args = parser.parse_args()

spark = SparkSession.builder.appName("orders").getOrCreate()
orders = (
    spark.readStream.schema("at TIMESTAMP, customer LONG, amount LONG")
    .option("maxFilesPerTrigger", 1)
    .json(args.orders)
    .withWatermark("at", "1 minute")
)
minutes = orders.groupBy(F.window("at", "1 minute"), "customer").agg(
    F.count("*").alias("orders"), F.sum("amount").alias("total"), F.max("amount").alias("most")
)
amounts = orders.select("customer", "amount").dropDuplicates(["customer", "amount"])

queries = [
    answer.writeStream.queryName(name)
    .format("parquet")
    .option("checkpointLocation", f"{args.checkpoints}/{name}")
    .outputMode("append")
    .trigger(**({"processingTime": "3 seconds"} if args.until else {"availableNow": True}))
    .start(f"{args.results}/{name}")
    for name, answer in (("minutes", minutes), ("amounts", amounts))
]
while args.until and not args.until.exists():
    time.sleep(0.2)
for query in queries:
    if args.until:
        query.processAllAvailable()
        query.stop()
    query.awaitTermination()
spark.stop()
