"""How long a query waits for another number of state partitions, laneshift's way and Spark's.

    python benchmarks/rescale.py --keys 100000 --keys 1000000 -o benchmarks/results/rescale.json

One query counts keys of 100 bytes and goes on with 2,000 rows/s. It is rescaled 4 -> 16 -> 4 as it
runs, then by stop, repartition, start. The gap is the longest time from one batch's end to the next
around a rescale, beside that of batches before it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import laneshift
from laneshift.session.repartition import RepartitionedQuery

ROWS = 2000
CHECKPOINT_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"


def session(format: str) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.log.level", "ERROR").config("spark.sql.shuffle.partitions", "4")
    builder = builder.config(CHECKPOINT_FORMAT, format)
    return laneshift.configure(builder, lanes=1).getOrCreate()


class Ends:
    """When batches have ended, from the sink's own calls."""

    def __init__(self) -> None:
        self.at: list[float] = []

    def __call__(self, rows: Any, batch: int) -> None:
        rows.write.format("noop").mode("append").save()
        self.at.append(time.monotonic())

    def longest(self, since: float, until: float) -> float:
        """The longest gap between ends of which one is in the time asked for (s)."""
        pairs = [
            (a, b) for a, b in zip(self.at, self.at[1:], strict=False) if since <= b and a <= until
        ]
        return max((b - a for a, b in pairs), default=0.0)


def run(spark: Any, keys: int) -> dict[str, Any]:
    from pyspark.sql import functions as F  # noqa: N812

    ends = Ends()
    found: dict[str, Any] = {"keys": keys}
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "in"
        source.mkdir()

        def file(name: str, low: int, high: int) -> None:
            hidden = Path(folder) / f".{name}"
            spark.range(low, high, 1, 2).write.parquet(str(hidden))
            for part in hidden.glob("*.parquet"):
                part.rename(source / f"{name}-{part.name}")

        def made(on: Any) -> Any:
            rows = on.readStream.schema("id LONG").parquet(str(source))
            key = F.rpad(F.col("id").cast("string"), 100, "x").alias("key")
            counted = rows.select(key).groupBy("key").agg(F.count("*").alias("n"))
            return counted.writeStream.foreachBatch(ends).outputMode("update")

        file("all", 0, keys)
        query = RepartitionedQuery(spark, made, str(Path(folder) / "c"), {"processingTime": "0 s"})
        running = query.start()
        running.processAllAvailable()
        over = threading.Event()

        def feed() -> None:
            number = 0
            while not over.wait(0.1):
                file(f"more{number:06d}", number * ROWS % keys, number * ROWS % keys + ROWS)
                number += 1

        feeding = threading.Thread(target=feed)
        feeding.start()
        live = laneshift.attach(spark)
        try:
            time.sleep(6)
            now = time.monotonic()
            found["usual_gap_s"] = ends.longest(now - 4, now)
            for partitions in (16, 4):
                began = time.monotonic()
                done = live.rescale(query.query, partitions, timeout_s=600)
                took = time.monotonic() - began
                time.sleep(4)
                found[f"to_{partitions}"] = {
                    "took_s": took,
                    "pause_ms": done.pause_ms,
                    "longest_gap_s": ends.longest(began, began + took + 3),
                }
                now = time.monotonic()
                found[f"usual_gap_{partitions}_s"] = ends.longest(now - 2, now)
            began = time.monotonic()
            query._partitions = 4
            stopped = query.rescale(16)
            time.sleep(4)
            found["spark_to_16"] = {
                "total_s": stopped.total_s,
                "repartition_s": stopped.repartition_s,
                "longest_gap_s": ends.longest(began, began + stopped.total_s + 3),
            }
        finally:
            over.set()
            feeding.join()
            query.stop()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--keys", type=int, action="append", required=True)
    parser.add_argument("--format", default="2", choices=("1", "2"), help="of the checkpoint")
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = session(given.format)
    found = [run(spark, keys) for keys in given.keys]
    spark.stop()
    text = json.dumps({"checkpoint_format": given.format, "runs": found}, indent=2)
    print(text)
    if given.output:
        given.output.write_text(text + "\n")


if __name__ == "__main__":
    main()
