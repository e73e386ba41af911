"""The benchmarks' salting rewrite: partial answers that add up to those of the plain query."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as sf

from laneshift_bench.hot import Hot
from laneshift_bench.query import counting
from laneshift_bench.salting import merged, salted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.live, pytest.mark.deep("pairs")]


def test_salted_counts_add_up_to_the_plain_ones(spark: SparkSession) -> None:
    # One key has nearly all rows, some are below zero.
    key = "CASE WHEN id % 10 < 8 THEN 7 ELSE id % 13 - 6 END"
    rows = spark.range(1000).select(
        sf.expr(key).alias("key"), sf.expr("id * 31").alias("value"),
        sf.timestamp_seconds("id").alias("event_time"),
    )  # fmt: skip
    parts = salted(8, counting, rows)
    plain = {row.key: row.n for row in counting(rows).collect()}
    assert {row.key: row.n for row in merged(parts).collect()} == plain
    hottest = [row.n for row in parts.collect() if row.key == 7]
    assert len(hottest) == 8
    assert max(hottest) < 0.2 * plain[7]


def test_a_thinned_stream_has_its_hot_partition(spark: SparkSession) -> None:
    hot = Hot(4, 9, 1)
    keys = hot.thin(spark.range(40_000).withColumnRenamed("id", "key"))
    found = keys.groupBy(sf.expr("pmod(hash(key), 4)").alias("p")).count().collect()
    counts = {row.p: row["count"] for row in found}
    total = sum(counts.values())
    assert total / 40_000 == pytest.approx(hot.kept, rel=0.05)
    assert [counts[p] / total for p in range(4)] == pytest.approx(hot.work.tolist(), rel=0.1)


def test_a_renamed_stream_has_it_too_and_all_of_its_rows(spark: SparkSession) -> None:
    hot, keys = Hot(4, 9, 1), 2000
    rows = hot.renamed(spark.range(3 * keys).selectExpr(f"id % {keys} AS key"), keys)
    counts = {row.p: row["count"] for row in
              rows.groupBy(sf.expr("pmod(hash(key), 4)").alias("p")).count().collect()}  # fmt: skip
    shares = [counts[p] / (3 * keys) for p in range(4)]
    assert shares == pytest.approx(hot.work.tolist(), rel=0.15)
    assert rows.select("key").distinct().count() == keys
