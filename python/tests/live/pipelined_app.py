"""Python functions whose input Spark sends on a thread of its own; prints what it found as JSON.

``spark.python.udf.pipelined.enabled`` is read when Spark starts: a process of its own.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import pandas as pd
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType, StringType

import laneshift
from laneshift_lab.workload import with_workload

ROWS = 12_000
STOCK = {"spark.sql.laneshift.enabled": "false"}
MOVING = {
    "spark.sql.laneshift.enabled": "true",
    "spark.sql.laneshift.lanes": "3",
    "spark.sql.laneshift.maxLanes": "4",
    "spark.sql.laneshift.motion": "always",
    "spark.sql.laneshift.motion.interval": "5ms",
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


def main(folder: Path) -> None:
    builder = SparkSession.builder.master("local[6]").config(
        map={
            "spark.ui.enabled": "false",
            "spark.log.level": "ERROR",
            "spark.sql.shuffle.partitions": "2",
            "spark.python.udf.pipelined.enabled": "true",
        }
    )
    spark = with_workload(laneshift.configure(builder)).getOrCreate()
    stock = micro_batches(spark, folder / "stock", STOCK)
    moving = micro_batches(spark, folder / "moving", MOVING)
    handoffs = len(laneshift.attach(spark).handoffs())
    seen = {
        "pipelined": spark.sparkContext.getConf().get("spark.python.udf.pipelined.enabled"),
        "rows": sum(stock.values()),
        "missing": sum((stock - moving).values()),
        "extra": sum((moving - stock).values()),
        "handoffs": handoffs,
    }
    spark.stop()
    print(json.dumps(seen))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
