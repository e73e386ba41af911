"""What stands above a stateful operator and takes several of its partitions into one task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf

from usage.harness import Side, case, in_order

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame


def windows(rows: DataFrame) -> DataFrame:
    counted = rows.groupBy(sf.window("ts", "10 seconds"), "k").agg(sf.count("*").alias("n"))
    return counted.select(sf.window_time("window").alias("t"), "k", "n")


def as_text(rows: DataFrame) -> DataFrame:
    return rows.withColumn("t", sf.col("t").cast("string"))


def with_partitions(side: Side, answers: DataFrame, mode: str) -> Any:
    """The rows of each batch, and in how many partitions they came."""
    got: list[Any] = []
    partitions: list[int] = []

    def sink(batch: DataFrame, number: int) -> None:
        partitions.append(batch.rdd.getNumPartitions())
        got.extend((number, *row) for row in batch.collect())

    side.collect(answers, mode, sink)
    return partitions, in_order(got)


@case(gate=True)
def coalesce_to_one(side: Side) -> Any:
    counted = side.rows().groupBy("k").agg(sf.count("*").alias("n"), sf.max("id").alias("most"))
    return with_partitions(side, counted.coalesce(1), "update")


@case()
def coalesce_behind_a_function(side: Side) -> Any:
    half = sf.udf(lambda x: x // 2, "long")
    distinct = side.rows().dropDuplicates(["id"]).select("id", half("id").alias("half"))
    return with_partitions(side, distinct.coalesce(2), "append")


@case()
def map_over_a_coalesce(side: Side) -> Any:
    def next_ones(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            yield frame.assign(n=frame["n"] + 1)

    counted = side.rows().groupBy("k").agg(sf.count("*").alias("n")).coalesce(1)
    return with_partitions(side, counted.mapInPandas(next_ones, "k LONG, n LONG"), "update")


@case()
def coalesce_above_a_join(side: Side) -> Any:
    other = side.late().selectExpr("id AS other", "ts AS t")
    near = sf.expr("id = other AND t BETWEEN ts AND ts + INTERVAL 1 SECOND")
    joined = side.late().join(other, near, "leftOuter").select("id", "other")
    return with_partitions(side, joined.coalesce(1), "append")


@case()
def repartition(side: Side) -> Any:
    return with_partitions(side, as_text(windows(side.late())).repartition(4), "append")


@case()
def repartition_by_a_column(side: Side) -> Any:
    distinct = side.rows().dropDuplicates(["id"]).select("id", "k")
    return with_partitions(side, distinct.repartition(3, "k"), "append")


@case(gate=True)
def union_of_two_regions(side: Side) -> Any:
    first = as_text(windows(side.late())).select("k", "n", "t")
    distinct = side.late().dropDuplicatesWithinWatermark(["id"])
    return with_partitions(side, first.union(distinct.select("k", "id", sf.lit("d"))), "append")


@case()
def union_with_a_stateless_branch(side: Side) -> Any:
    triple = sf.udf(lambda x: 3 * x, "long")
    first = as_text(windows(side.late())).select("k", "n", "t")
    other = side.late().select("k", triple("id"), sf.lit("s"))
    return with_partitions(side, first.union(other).coalesce(2), "append")


@case()
def aggregation_above_a_union(side: Side) -> Any:
    both = windows(side.late()).union(windows(side.late()))
    wide = both.groupBy(sf.window("t", "20 seconds"), "k").agg(sf.sum("n").alias("n"))
    return with_partitions(side, wide.selectExpr("string(window.start) AS w", "k", "n"), "append")


@case()
def sorted_whole_answer(side: Side) -> Any:
    got: list[Any] = []

    def sink(batch: DataFrame, number: int) -> None:
        got.append([number, [list(row) for row in batch.collect()]])

    counted = side.rows().groupBy("k").count().orderBy(sf.desc("count"), "k").limit(11)
    side.collect(counted, "complete", sink)
    return got


@case()
def files_by_a_column(side: Side) -> Any:
    into = side.fresh("files")
    distinct = side.rows().dropDuplicates(["id"]).select("id", "kind").coalesce(1)
    writer = distinct.writeStream.format("parquet").partitionBy("kind").option("path", str(into))
    side.end(writer)
    names = sorted(p.name for p in into.iterdir() if p.is_dir())
    files = [len(list((into / name).glob("*.parquet"))) for name in names]
    return names, files, in_order(side.spark.read.parquet(str(into)).collect())
