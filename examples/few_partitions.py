"""My Kafka topic has few partitions: a costly Python function on more cores than the topic has.

    python examples/few_partitions.py
    python examples/few_partitions.py --kafka HOST:9092 --topic readings

A Real-time query reads two partitions and calls a function that takes 2 ms a row. Stock Spark runs
it on two cores, however many are idle. The only line for laneshift is ``configure``; the rest says
what it does. ``make jar`` first, with the Python of its ``.venv``. Without ``--kafka`` rows are
made up. A topic's values are taken as text; it needs Spark's Kafka connector, so before the command
``PYSPARK_SUBMIT_ARGS='--packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0 pyspark-shell'``.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import laneshift
from laneshift_lab.workload import with_workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def scored(text: str) -> int:
    """Stands for a call that one waits for."""
    time.sleep(0.002)
    return len(text)


def rows(spark: SparkSession, kafka: str | None, topic: str) -> DataFrame:
    """One column, ``value``, from two source partitions."""
    if kafka is None:
        reader = spark.readStream.format("laneshift-workload")
        made_up = {"numPartitions": 2, "pacing": "none", "totalRows": 10**12, "keys": 1000}
        for key, value in made_up.items():
            reader = reader.option(key, value)
        return reader.load().select(sf.col("key").cast("string").alias("value"))
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", kafka)
    return reader.option("subscribe", topic).load().select(sf.col("value").cast("string"))


def main() -> None:
    """Run the query and say each second what it does."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kafka", help="bootstrap servers (default: rows are made up)")
    parser.add_argument("--topic", default="readings", help="topic to read (default readings)")
    parser.add_argument("--seconds", type=float, default=40.0, help="how long (default 40)")
    parser.add_argument("--cores", type=int, default=8, help="of this machine (default 8)")
    given = parser.parse_args()
    builder = laneshift.configure(SparkSession.builder.appName("few partitions"))  # <- laneshift
    builder = builder.master(f"local[{given.cores}]").config(
        # Spark's list of operators for Real-time Mode has no functions in Python.
        "spark.sql.streaming.realTimeMode.allowlistCheck", "false"
    )  # fmt: skip
    spark = with_workload(builder).getOrCreate()  # The rows made up, and the sink.
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        query = (
            rows(spark, given.kafka, given.topic)
            .select(sf.udf(scored, "long")("value").alias("score"))
            .writeStream.format("laneshift-measure")  # Or Kafka, or any other sink.
            .option("name", "few-partitions")
            .option("asyncProgressTrackingEnabled", "false")
            .option("checkpointLocation", str(Path(folder) / "checkpoint"))
            .outputMode("update")
            .trigger(realTime="5 minutes")  # type: ignore[call-overload]
            .start()
        )
        app = laneshift.attach(spark)
        end = time.monotonic() + given.seconds
        while time.monotonic() < end and query.isActive:
            time.sleep(1)
            for running in app.snapshot().queries:
                for operator in running.operators:
                    rate = sum(p.rows_out_per_s for p in operator.partitions)
                    print(
                        f"{operator.name}: {len(operator.partitions)} partitions, "
                        f"{operator.lanes} lanes, {rate:,.0f} rows/s",
                        flush=True,
                    )
        if (error := query.exception()) is not None:
            raise error
        query.stop()
    spark.stop()


if __name__ == "__main__":
    main()
