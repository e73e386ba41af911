"""One life of a streaming query that is going to be killed: run by test_driver_kill.py.

Starts or restarts the query from its checkpoint, under constant motion or on stock Spark, and says
on standard output when a batch has ended. With ``--finish`` it runs to the end of the input and
writes what the state holds and what the sink got; otherwise it goes on until somebody kills it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import laneshift
from laneshift_lab.workload import with_workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def session(elastic: bool, seed: int) -> SparkSession:
    builder = (
        SparkSession.builder.master("local[6]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
        .config("spark.sql.streaming.realTimeMode.allowlistCheck", "false")
        .config("spark.sql.streaming.realTimeMode.minBatchDuration", "1s")
        .config("spark.shuffle.streaming.networkBufferMaxWaitTimeMs", "1")
    )
    configured = laneshift.configure(
        builder,
        enabled=elastic,
        lanes=3,
        max_lanes=4,
        shards_per_partition=16,
        motion="always",
        motion_seed=seed,
        motion_interval="5ms",
    )
    spark = with_workload(configured).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def rows(spark: SparkSession, total: int, streaming: bool, real_time: bool) -> DataFrame:
    reader = spark.readStream if streaming else spark.read
    reader = (
        reader.format("laneshift-workload")
        .option("seed", 11)
        .option("keys", 2000)
        .option("zipf", 0.9)
        .option("rowBytes", 16)
        .option("totalRows", total)
        .option("rowsPerSecond", 20000)
    )
    if streaming and not real_time:
        reader = reader.option("rowsPerBatch", 10000)
    return reader.load()


def totals(source: DataFrame) -> DataFrame:
    return source.groupBy("key").agg(
        F.count("*").alias("n"), F.sum("value").alias("s"), F.max("seq").alias("last")
    )


def firsts(source: DataFrame) -> DataFrame:
    """Each pair of key and value once: what is kept does not depend on time."""
    return source.select("key", (F.col("value") % 50).alias("v")).dropDuplicates(["key", "v"])


def start(
    spark: SparkSession, folder: Path, total: int, real_time: bool, dedup: bool
) -> StreamingQuery:
    source = rows(spark, total, streaming=True, real_time=real_time)
    query = firsts(source) if dedup else totals(source)
    writer = query.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
    if real_time:
        sink = writer.outputMode("update").format("noop")
        return sink.trigger(realTime="1 second").start()  # type: ignore[call-overload,no-any-return]
    if dedup:
        # The file sink is exactly once: what it holds is what was put out.
        sink = writer.outputMode("append").format("parquet")
        return sink.option("path", str(folder / "out")).start()
    return writer.outputMode("update").format("noop").start()


def state(spark: SparkSession, folder: Path, real_time: bool) -> list[str]:
    if real_time:
        spark.conf.set("spark.sql.streaming.stateStore.checkpointFormatVersion", "2")
    loaded = spark.read.format("statestore").load(str(folder / "checkpoint"))
    return sorted(r[0] for r in loaded.select(F.to_json(F.struct("key", "value"))).collect())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--total", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--stock", action="store_true")
    parser.add_argument("--real-time", action="store_true")
    parser.add_argument("--dedup", action="store_true")
    parser.add_argument("--finish", type=Path, help="run to the end and write the results here")
    args = parser.parse_args()

    spark = session(not args.stock, args.seed)
    query = start(spark, args.folder, args.total, args.real_time, args.dedup)
    seen = -1
    while True:
        failure = query.exception()
        if failure is not None:
            sys.exit(f"the query failed: {failure}")
        progress = query.lastProgress
        if progress is not None and progress.batchId != seen:
            seen = progress.batchId
            print(f"batch {seen} rows {progress.numInputRows}", flush=True)
        if args.finish and seen >= 0 and progress is not None and reached(progress, args.total):
            break
        time.sleep(0.05)
    if not args.real_time:
        query.processAllAvailable()
    query.stop()
    out = []
    if args.dedup and not args.real_time:
        out = sorted(str(tuple(r)) for r in spark.read.parquet(str(args.folder / "out")).collect())
    found = {"state": state(spark, args.folder, args.real_time), "out": out}
    args.finish.write_text(json.dumps(found))
    spark.stop()


def reached(progress: object, total: int) -> bool:
    """True once the source has given its last row."""
    end: list[int] = json.loads(progress.sources[0].endOffset)["next"]  # type: ignore[attr-defined]
    return sum(end) >= total


if __name__ == "__main__":
    main()
