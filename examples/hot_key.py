"""My key is hotter than a core: most rows have one key, and each of its answers takes a while.

    python examples/hot_key.py

Orders are counted by customer in Real-time Mode, and each answer goes through a function that takes
1 ms; six of ten orders are one customer's. A key's state is on one core, and so was all that
follows from it: laneshift sees that the key holds up its partition and lets any lane do the work
above the state, in the same order. The only line for it is ``configure``; ``hot_keys_show`` lets
the program print which key it is.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import laneshift


def main() -> None:
    """Run the query and say each second what it does."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=40.0, help="how long (default 40)")
    parser.add_argument("--cores", type=int, default=10, help="of this machine (default 10)")
    given = parser.parse_args()
    builder = SparkSession.builder.appName("hot key").master(f"local[{given.cores}]")
    builder = laneshift.configure(builder, hot_keys_show="values")  # <- laneshift
    builder = builder.config("spark.sql.shuffle.partitions", "1")
    builder = builder.config("spark.sql.streaming.realTimeMode.allowlistCheck", "false")
    builder = builder.config(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    )
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    orders = spark.readStream.format("laneshift-workload")
    made_up = {"numPartitions": 1, "pacing": "none", "totalRows": 10**12, "keys": 1000}
    for key, value in made_up.items():
        orders = orders.option(key, value)
    customer = sf.when(sf.col("seq") % 10 < 6, "ACME").otherwise(sf.concat(sf.lit("c"), "key"))
    answers = (
        orders.load()
        .groupBy(customer.alias("customer"))
        .agg(sf.count("*").alias("n"))
        # Stands for a function of yours: it waits 1 ms for each row.
        .withColumn("n", sf.expr("laneshift_cost(n, 1000, 'wait')"))
    )
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        query = (
            answers.writeStream.format("laneshift-measure")  # Or Kafka, or any other sink.
            .option("name", "hot-key")
            .option("checkpointLocation", str(Path(folder) / "checkpoint"))
            .outputMode("update")
            # What is decided takes effect with the next batch.
            .trigger(realTime="5 seconds")  # type: ignore[call-overload]
            .start()
        )
        live = laneshift.attach(spark)
        end = time.monotonic() + given.seconds
        while time.monotonic() < end and query.isActive:
            time.sleep(1)
            for running in live.snapshot().queries:
                for operator in running.operators:
                    (part,) = operator.partitions
                    hot = "".join(
                        f", {k.value} has {k.share:.0%} of its rows" for k in part.hot_keys[:1]
                    )
                    print(
                        f"{operator.name}: {part.lanes} lanes, "
                        f"{part.rows_out_per_s:,.0f} rows/s{hot}",
                        flush=True,
                    )
        if (error := query.exception()) is not None:
            raise error
        query.stop()
    spark.stop()


if __name__ == "__main__":
    main()
