"""My key is hotter than a core: most rows are of one customer, and each answer costs a call.

    python examples/hot_key.py
    python examples/hot_key.py --spread false

A Real-time query counts orders by customer and calls a function that takes 2 ms for each answer.
Six of ten orders are of one customer. Spark does all work of a key on one core, however many are
idle. With ``hotKeys.spread`` its state stays where it is, and the calls go to all lanes, in order.
``make jar`` first, with the Python of its ``.venv``.
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


def scored(orders: int) -> int:
    """Stands for a call that one waits for."""
    time.sleep(0.002)
    return orders % 100


def answers(spark: SparkSession) -> DataFrame:
    """The number of orders of each customer, and its score, with every order."""
    rows = spark.readStream.format("laneshift-workload")
    made_up = {"numPartitions": 1, "pacing": "none", "totalRows": 10**12, "keys": 1000}
    for key, value in made_up.items():
        rows = rows.option(key, value)
    customer = sf.when(sf.col("seq") % 10 < 6, -1).otherwise(sf.col("key")).alias("customer")
    counts = rows.load().select(customer).groupBy("customer").agg(sf.count("*").alias("n"))
    return counts.withColumn("score", sf.udf(scored, "long")("n"))


def main() -> None:
    """Run the query and say each second what it does."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--spread", default="true", choices=("auto", "true", "false"))
    parser.add_argument("--seconds", type=float, default=40.0, help="how long (default 40)")
    parser.add_argument("--cores", type=int, default=8, help="of this machine (default 8)")
    given = parser.parse_args()
    builder = SparkSession.builder.appName("hot key").master(f"local[{given.cores}]")
    builder = laneshift.configure(builder)  # <- laneshift
    builder = (
        builder.config("spark.sql.laneshift.hotKeys.spread", given.spread)
        .config("spark.sql.shuffle.partitions", "1")
        # Spark's list of operators for Real-time Mode has no functions in Python.
        .config("spark.sql.streaming.realTimeMode.allowlistCheck", "false")
    )
    spark = with_workload(builder).getOrCreate()  # Only for rows that are made up.
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        query = (
            answers(spark)
            .writeStream.format("laneshift-measure")  # Or Kafka, or any other sink.
            .option("name", "hot-key")
            .option("asyncProgressTrackingEnabled", "false")
            .option("checkpointLocation", str(Path(folder) / "checkpoint"))
            .outputMode("update")
            .trigger(realTime="10 seconds")  # type: ignore[call-overload]
            .start()
        )
        app = laneshift.attach(spark)
        end = time.monotonic() + given.seconds
        while time.monotonic() < end and query.isActive:
            time.sleep(1)
            for running in app.snapshot().queries:
                if running.operators:
                    last = running.operators[-1]
                    keys = running.operators[0].partitions[0].hot_keys
                    hottest = f"; the hottest key has {keys[0].share:.0%}" if keys else ""
                    answers_so_far = sum(p.rows_out for p in last.partitions)
                    print(
                        f"{last.name}: {last.lanes} lanes, {answers_so_far:,} answers{hottest}",
                        flush=True,
                    )
        if (error := query.exception()) is not None:
            raise error
        query.stop()
    spark.stop()


if __name__ == "__main__":
    main()
