"""Python functions whose input Spark sends on a thread of its own; prints what it found as JSON.

``spark.python.udf.pipelined.enabled`` is read when Spark starts: a process of its own.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType, StringType

import laneshift

ROWS = 12_000
REAL_TIME_ROWS = 4_000
STOCK = {"spark.sql.laneshift.enabled": "false"}
MOVING = {
    "spark.sql.laneshift.enabled": "true",
    "spark.sql.laneshift.lanes": "3",
    "spark.sql.laneshift.maxLanes": "4",
    "spark.sql.laneshift.motion": "always",
    "spark.sql.laneshift.motion.interval": "5ms",
}

# Spark sends a worker its rows in batches of so many.
ROW_BY_ROW = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.sql.execution.python.udf.maxRecordsPerBatch": "1",
}


@F.pandas_udf(LongType())  # type: ignore[call-overload, untyped-decorator]
def tripled(values: pd.Series) -> pd.Series:
    return values * 3


@F.udf(StringType())
def marked(value: int) -> str:
    return f"<{value}>"


def rows(spark: SparkSession, **options: object) -> DataFrame:
    source = spark.readStream.format("laneshift-workload").options(
        **{"keys": 300, "rowBytes": 8, "totalRows": ROWS, **options}
    )
    return source.load().select(F.col("key").cast("string"), "value")


def functions(frame: DataFrame) -> DataFrame:
    """Row-wise above a deduplication: shards move between two rows, by restarts of lanes."""
    kept = frame.dropDuplicates(["key", "value"])
    return kept.select("key", tripled("value").alias("three"), marked("value").alias("mark"))


def micro_batches(spark: SparkSession, folder: Path, conf: dict[str, str]) -> Counter[Row]:
    for key, value in conf.items():
        spark.conf.set(key, value)
    seen: Counter[Row] = Counter()

    def keep(batch: DataFrame, _: int) -> None:
        seen.update(batch.collect())

    query = (
        functions(rows(spark, pacing="none", rowsPerBatch=ROWS // 4))
        .writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(folder))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return seen


def real_time(spark: SparkSession, folder: Path, conf: dict[str, str]) -> int:
    """Rows that came out of a batch far from its end, once its source had given them all.

    Not through a Python sink: Spark hands it rows in blocks that wait to be full.
    """
    for key, value in {**conf, **ROW_BY_ROW}.items():
        spark.conf.set(key, value)
    answers = functions(rows(spark, rowsPerSecond=2000, totalRows=REAL_TIME_ROWS))
    query = (
        answers.select(F.concat_ws(",", "key", "three", "mark").alias("line"))
        .writeStream.format("laneshift-measure")
        .option("name", "pipelined")
        .option("lineColumn", "line")
        .outputMode("update")
        .option("checkpointLocation", str(folder))
        .trigger(realTime="10 minutes")  # type: ignore[call-overload]
        .start()
    )
    jvm: Any = spark._jvm
    registry = jvm.org.apache.spark.sql.laneshift.workload.MeasureRegistry
    came = 0
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and came < REAL_TIME_ROWS and query.exception() is None:
        time.sleep(0.2)
        came += len(registry.lines("pipelined").splitlines())
    failure = query.exception()
    query.stop()
    if failure is not None:
        raise failure
    return came


def main(folder: Path) -> None:
    builder = SparkSession.builder.master("local[6]").config(
        map={
            "spark.ui.enabled": "false",
            "spark.log.level": "ERROR",
            "spark.sql.shuffle.partitions": "2",
            "spark.python.udf.pipelined.enabled": "true",
            "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
        }
    )
    spark = laneshift.configure(builder).getOrCreate()
    stock = micro_batches(spark, folder / "stock", STOCK)
    moving = micro_batches(spark, folder / "moving", MOVING)
    handoffs = len(laneshift.attach(spark).handoffs())
    seen = {
        "pipelined": spark.sparkContext.getConf().get("spark.python.udf.pipelined.enabled"),
        "given": REAL_TIME_ROWS,
        "rows": sum(stock.values()),
        "missing": sum((stock - moving).values()),
        "extra": sum((moving - stock).values()),
        "handoffs": handoffs,
        "real_time_rows": real_time(
            spark, folder / "real-time", {**MOVING, "spark.sql.laneshift.motion": "never"}
        ),
    }
    spark.stop()
    print(json.dumps(seen))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
