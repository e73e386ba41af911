"""An ordinary Real-time application: clicks from a Kafka topic, counts per page to another.

With --each it keeps no state: an answer to each click.
"""

import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

parser = argparse.ArgumentParser()
parser.add_argument("brokers")
parser.add_argument("source", help="topic of clicks: pages as keys")
parser.add_argument("sink", help="topic of counts")
parser.add_argument("checkpoint")
parser.add_argument("--each", action="store_true")
args = parser.parse_args()

spark = SparkSession.builder.appName("clicks").getOrCreate()
clicks = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", args.brokers)
    .option("subscribe", args.source)
    .option("startingOffsets", "earliest")
    .load()
    .selectExpr("CAST(key AS STRING) AS page", "CAST(CAST(value AS STRING) AS LONG) AS spent")
)
counts = clicks.groupBy("page").agg(
    F.count("*").alias("clicks"), F.sum("spent").alias("spent"), F.max("spent").alias("most")
)
answers = clicks if args.each else counts
# What an application does with each answer takes its time.
proof = F.sha2(F.repeat("page", 20_000), 512).alias("proof")
answer = F.struct(*answers.columns, proof)
query = (
    answers.select(F.col("page").alias("key"), F.to_json(answer).alias("value"))
    .writeStream.queryName("clicks")
    .format("kafka")
    .option("kafka.bootstrap.servers", args.brokers)
    .option("topic", args.sink)
    .option("checkpointLocation", args.checkpoint)
    .outputMode("update")
    .trigger(realTime="5 seconds")  # type: ignore[call-overload]
    .start()
)
query.awaitTermination()
