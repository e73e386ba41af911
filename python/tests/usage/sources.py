"""Files of every format, some in ways of their own, below functions, filters and aggregates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf

from usage.harness import Side, case, in_order

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NESTED = "id LONG, k LONG, t STRING, st STRUCT<a: LONG, b: ARRAY<LONG>>"
FLAT = "id LONG, k LONG, t STRING"


def written(side: Side, form: str) -> str:
    rows = side.spark.range(0, 1200, 1, 2).selectExpr(
        "id", "id % 7 AS k", "concat('t', id) AS t", "struct(id AS a, array(id) AS b) AS st"
    )
    into = str(side.folder / f"of-{form}")
    match form:
        case "csv":
            rows.select("id", "k", "t").write.csv(into)
        case "text":
            rows.select("t").write.text(into)
        case "parted":
            rows.select("id", "k", "t").write.partitionBy("k").parquet(into)
        case _:
            rows.write.format(form).save(into)
    return into


def through(side: Side, rows: DataFrame, column: str, kind: str) -> Any:
    """A function, a filter over one, an aggregate, and what is nested: any batch's rows at once,
    as files have no order in time."""
    change = sf.udf(lambda x: None if x is None else x * 3, kind)
    filtered = rows.where(change(column).isNotNull())
    key = (sf.hash(column) % 5).alias("g")
    found = [
        side.collect(rows.select(change(column)), "append"),
        side.collect(filtered.select(column, sf.length(sf.col(column).cast("string"))), "append"),
        side.collect(rows.groupBy(key).agg(sf.count("*").alias("n")), "complete")[-5:],
    ]
    if "st" in rows.columns:
        nested = rows.select(sf.explode("st.b").alias("e"), change("st.a"))
        found.append(side.collect(nested, "append"))
    return found


def of_files(side: Side, form: str, schema: str, column: str = "id", kind: str = "long") -> Any:
    path = written(side, form)
    side.spark.conf.set("spark.sql.laneshift.stateless", "true")
    stream = side.spark.readStream.schema(schema).format("parquet" if form == "parted" else form)
    return through(side, stream.load(path), column, kind)


@case(still=True)
def parquet(side: Side) -> Any:
    return of_files(side, "parquet", NESTED)


@case(still=True)
def parquet_row_by_row(side: Side) -> Any:
    side.spark.conf.set("spark.sql.parquet.enableVectorizedReader", "false")
    try:
        return of_files(side, "parquet", NESTED)
    finally:
        side.spark.conf.unset("spark.sql.parquet.enableVectorizedReader")


@case(still=True)
def orc(side: Side) -> Any:
    return of_files(side, "orc", NESTED)


@case(still=True)
def lines_of_json(side: Side) -> Any:
    return of_files(side, "json", NESTED)


@case(still=True)
def csv(side: Side) -> Any:
    return of_files(side, "csv", FLAT)


@case(still=True)
def text(side: Side) -> Any:
    return of_files(side, "text", "value STRING", "value", "string")


@case(still=True)
def files_in_folders_of_a_column(side: Side) -> Any:
    return of_files(side, "parted", FLAT)


@case()
def rates_of_batches(side: Side) -> Any:
    """The same rows in the same batches, until some have ended."""
    stream = side.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 300)
    rows = stream.option("numPartitions", 2).option("startTimestamp", 1000).load()
    got: list[Any] = []

    def keep(batch: DataFrame, number: int) -> None:
        rows = batch.collect()
        if number < 3:
            got.extend((number, *row) for row in rows)

    counted = rows.groupBy((sf.col("value") % 41).alias("k")).agg(sf.max("value").alias("m"))
    writer = counted.writeStream.outputMode("update").foreachBatch(keep)
    query = writer.option("checkpointLocation", str(side.fresh("checkpoint"))).start()
    side.until(query, lambda: (query.lastProgress or {"batchId": 0})["batchId"] >= 3)
    return in_order(got)
