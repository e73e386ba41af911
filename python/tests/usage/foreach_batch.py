"""foreachBatch as people write it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf

from usage.harness import FORMAT, Side, case, in_order

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def counts(side: Side) -> DataFrame:
    return side.rows().groupBy("k").agg(sf.count("*").alias("n"), sf.sum("v").alias("x"))


def distinct(side: Side) -> DataFrame:
    return side.rows().dropDuplicates(["id"]).select("id", "k", "kind", "v")


@case()
def persist_count_and_two_writes(side: Side) -> Any:
    got: list[Any] = []
    out = side.fresh("out")

    def sink(batch: DataFrame, number: int) -> None:
        batch.persist()
        n = batch.count()
        for kind in "ab":
            chosen = batch.where(sf.col("kind") == kind)
            chosen.write.mode("overwrite").parquet(f"{out}/kind={kind}/batch={number}")
        got.append((number, n, batch.where("v > 500").count()))
        batch.unpersist()

    side.collect(distinct(side), "append", sink)
    return got, in_order(side.spark.read.parquet(str(out)).collect())


@case()
def two_actions_without_persist(side: Side) -> Any:
    got: list[Any] = []

    def sink(batch: DataFrame, number: int) -> None:
        got.append((number, batch.count()))
        got.extend((number, *row) for row in batch.collect())

    side.collect(counts(side), "update", sink)
    return in_order(got)


@case()
def local_iterator(side: Side) -> Any:
    got: list[Any] = []
    twice = sf.udf(lambda n: 2 * n, "long")

    def sink(batch: DataFrame, number: int) -> None:
        rows = batch.toLocalIterator(prefetchPartitions=number % 2 == 1)
        got.extend((number, *row) for row in rows)

    side.collect(counts(side).withColumn("y", twice("n")), "update", sink)
    return in_order(got)


@case()
def settings_of_the_batchs_session(side: Side) -> Any:
    got: list[Any] = []

    def sink(batch: DataFrame, number: int) -> None:
        conf = batch.sparkSession.conf
        conf.set("spark.sql.shuffle.partitions", str(3 + number))
        conf.set("spark.sql.adaptive.enabled", str(number % 2 == 0).lower())
        conf.set("spark.sql.codegen.wholeStage", str(number % 2 == 1).lower())
        checked = batch.localCheckpoint()
        whole = checked.toPandas()
        parts = checked.groupBy((sf.col("k") % 3).alias("m")).agg(sf.sum("n").alias("n"))
        got.append((number, len(whole), int(whole["n"].sum()), in_order(parts.collect())))

    side.collect(counts(side), "update", sink)
    return got


@case()
def upsert_by_sql(side: Side) -> Any:
    target = side.fresh("target")

    def sink(batch: DataFrame, number: int) -> None:
        spark = batch.sparkSession
        names = spark.sparkContext.broadcast({k: f"{number}:{k}" for k in range(50)})
        tag = sf.udf(lambda k: names.value[k], "string")
        batch.persist()
        tagged = batch.select("k", "n", tag("k").alias("tag"), sf.lit(number).alias("i"))
        tagged.createOrReplaceTempView("updates")
        before = f"UNION ALL SELECT k, n, tag, i FROM parquet.`{target}/{number - 1}`"
        spark.sql(f"""
            SELECT k, n, tag, i FROM (
              SELECT *, row_number() OVER (PARTITION BY k ORDER BY i DESC) AS r
              FROM (SELECT k, n, tag, i FROM updates {before if number else ""})
            ) WHERE r = 1
        """).write.mode("overwrite").parquet(f"{target}/{number}")
        batch.unpersist()
        names.destroy()

    side.collect(counts(side).select("k", "n"), "update", sink)
    return in_order(side.spark.read.parquet(f"{target}/2").collect())


@case()
def tables_that_are_appended_to(side: Side) -> Any:
    name = f"appended_{side.name}"

    def sink(batch: DataFrame, number: int) -> None:
        numbered = batch.withColumn("number", sf.lit(number))
        numbered.write.mode("append").format("parquet").saveAsTable(name)

    side.collect(distinct(side), "append", sink)
    rows = in_order(side.spark.table(name).collect())
    side.spark.sql(f"DROP TABLE {name}")
    return rows


@case()
def each_partition_in_python(side: Side) -> Any:
    """By the batch's RDD, and how many rows its functions saw."""
    seen = side.spark.sparkContext.accumulator(0)
    got: list[Any] = []

    def sink(batch: DataFrame, number: int) -> None:
        batch.foreachPartition(lambda rows: seen.add(sum(1 for _ in rows)))
        pairs = batch.rdd.map(lambda row: (row["k"] % 5, row["n"])).reduceByKey(int.__add__)
        got.extend((number, *pair) for pair in pairs.collect())

    side.collect(counts(side), "update", sink)
    return seen.value, in_order(got)


# ---- a batch of which only some is read


def looked_at(
    side: Side, answers: DataFrame, mode: str, look: Callable[[DataFrame], Any], version: int = 2
) -> Any:
    """Each batch is looked at, and then read."""
    got: list[Any] = []

    def sink(batch: DataFrame, number: int) -> None:
        got.append((number, look(batch)))
        got.extend((number, *row) for row in batch.collect())

    side.spark.conf.set(FORMAT, str(version))
    side.collect(answers, mode, sink)
    return in_order(got)


@case(gate=True)
def is_empty_and_then_all(side: Side) -> Any:
    return looked_at(side, distinct(side), "append", lambda b: b.isEmpty(), 1)


@case()
def is_empty_and_then_all_of_an_aggregate(side: Side) -> Any:
    return looked_at(side, counts(side), "update", lambda b: b.isEmpty())


@case()
def take_and_then_all(side: Side) -> Any:
    return looked_at(side, counts(side), "update", lambda b: len(b.take(3)), 1)


@case()
def take_and_then_all_of_what_is_distinct(side: Side) -> Any:
    return looked_at(side, distinct(side), "append", lambda b: len(b.take(3)))


@case()
def limit_and_then_the_whole_answer(side: Side) -> Any:
    return looked_at(side, counts(side), "complete", lambda b: b.limit(2).count(), 1)


@case()
def first_tail_and_show(side: Side) -> Any:
    def look(batch: DataFrame) -> Any:
        batch.show(2)
        return batch.first() is None, len(batch.tail(2))

    return looked_at(side, counts(side), "update", look)


@case()
def a_function_sees_each_row_as_often(side: Side) -> Any:
    """What `isEmpty` has asked for is not worked on as a whole."""
    calls = side.spark.sparkContext.accumulator(0)

    def counted(x: int) -> int:
        calls.add(1)
        return x + 1

    marked = distinct(side).withColumn("u", sf.udf(counted, "long")("id"))
    rows = looked_at(side, marked, "append", lambda b: b.isEmpty())
    # How far a worker has read ahead of what was taken is up to its buffers.
    return calls.value < 2 * len(rows), rows


@case(refused=True, still=True)  # it ends in its first batch
def take_alone(side: Side) -> Any:
    """Stock Spark says that not all stores have committed."""
    got: list[Any] = []
    side.spark.conf.set(FORMAT, "1")
    side.collect(counts(side), "update", lambda b, i: got.append((i, len(b.take(1)))))
    return got


@case()
def a_batch_that_fails_once(side: Side) -> Any:
    """Half written, then the query starts again: each batch once more, with the same rows."""
    got: list[Any] = []
    failed: list[str] = []
    checkpoint = side.fresh("checkpoint")

    def sink(batch: DataFrame, number: int) -> None:
        rows = [(number, *row) for row in batch.collect()]
        if number == 1 and not failed:
            failed.append("once")
            raise RuntimeError("the target is away")
        got.extend(rows)

    try:
        side.collect(counts(side), "update", sink, checkpoint)
    except Exception as error:
        failed.append(str("the target is away" in str(error)))
    side.collect(counts(side), "update", sink, checkpoint)
    return failed, in_order(got)


@case(refused=True)
def a_batch_that_nobody_reads(side: Side) -> Any:
    """Its stores have committed nothing, and stock Spark says so."""
    got: list[Any] = []
    side.spark.conf.set(FORMAT, "1")

    def sink(batch: DataFrame, number: int) -> None:
        if number != 1:
            got.extend((number, *row) for row in batch.collect())

    side.collect(distinct(side), "append", sink)
    return in_order(got)
