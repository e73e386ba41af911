"""Makes an archive of the classes that a small elastic query loads: ``python archive.py FILE``.

The JVMs of the live tests share it, instead of taking each class from a jar and checking it, which
was most of a small application's CPU time. A JVM that it does not fit (another Java, other jars)
goes without.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import laneshift
from live.conftest import CONF, SHORT_LIVED, until


def run_query(spark: SparkSession, folder: str) -> None:
    @F.pandas_udf("long")
    def same(values: pd.Series) -> pd.Series:
        return values

    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 50).load()
    query = (
        rows.groupBy((F.col("value") % 7).alias("key"))
        .count()
        .withColumn("count", same("count"))
        .writeStream.outputMode("update")
        .format("noop")
        .option("checkpointLocation", folder)
        .start()
    )
    until(lambda: query.exception() or ((p := query.lastProgress) and p["batchId"] >= 2))
    if error := query.exception():
        raise error
    query.stop()


def main(target: Path) -> None:
    target.unlink(missing_ok=True)
    os.environ["JAVA_TOOL_OPTIONS"] = SHORT_LIVED
    archives = f"-XX:ArchiveClassesAtExit={target}.tmp"
    builder = SparkSession.builder.master("local[2]").config(map=CONF)  # type: ignore[arg-type]
    builder = builder.config("spark.driver.defaultJavaOptions", archives)
    spark = laneshift.configure(builder, lanes=2).getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        run_query(spark, folder)
    # Its end makes the archive.
    java = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
    spark.stop()
    java.stdin.close()
    java.wait(timeout=120)
    Path(f"{target}.tmp").rename(target)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
