"""An application with an elastic query and a control service; it ends when its input does."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

import laneshift


def main(token_file: str, *options: str) -> None:
    builder = SparkSession.builder.master("local[4]").config("spark.sql.shuffle.partitions", 2)
    builder = builder.config("spark.ui.enabled", "false").config("spark.log.level", "INFO")
    for option in options:
        key, _, value = option.partition("=")
        builder = builder.config(key, value)
    spark = laneshift.configure(
        builder,
        lanes=1,
        max_lanes=4,
        balance_enabled=False,
        control_port=0,
        control_token_file=token_file,
    ).getOrCreate()
    rows = spark.readStream.format("rate").option("rowsPerSecond", 2000).load()
    counts = rows.groupBy((rows.value % 50).alias("key")).count()
    counts.writeStream.outputMode("update").format("noop").queryName("orders").start()
    print("started", flush=True)
    sys.stdin.read()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
