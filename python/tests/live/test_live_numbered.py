"""What benchmarks take for granted of Spark: the keys of rows, and what a day's rows pay."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from laneshift_bench.day import Day
from laneshift_bench.endurance_life import numbered
from laneshift_bench.numbered import CYCLE, KEYS, answers
from laneshift_bench.query import as_side
from laneshift_bench.sides import Side

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.live, pytest.mark.deep("pairs")]


def test_numbered_rows_give_the_answers_that_the_arithmetic_says(spark: SparkSession) -> None:
    rows = 3 * CYCLE + 1001
    source = spark.read.format("laneshift-workload").options(
        keys=1, rowBytes=0, numPartitions=1, totalRows=rows
    )
    found = {row["key"]: tuple(row) for row in numbered(source.load()).collect()}
    assert len(found) == KEYS and found == answers(rows)


def test_a_days_rows_are_paid_for_between_the_one_shuffle_and_the_counts(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"keys": 50, "zipf": 0, "rowBytes": 0, "numPartitions": 2, "totalRows": 2000}
    stream = spark.readStream.format("laneshift-workload").options(rowsPerBatch=1000, pacing="none")
    with as_side(spark, Side("day", {"lanes": "2"}, 4)):
        written = Day(1800.0).build(stream.options(**options).load(), 0.0, 4).writeStream
        written = written.format("memory").queryName("a_day").outputMode("update")
        written = written.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = written.trigger(availableNow=True).start()
        assert query.awaitTermination(120)
    query.explain(True)
    plan = capsys.readouterr().out.split("== Physical Plan ==")[1]
    lines = [line for line in plan.splitlines() if line.strip()]

    def places(word: str) -> list[int]:
        return [at for at, line in enumerate(lines) if word in line]

    (shuffle,), (paid,) = places("Exchange"), places("laneshift_cost")
    (restore,) = places("StateStoreRestore")
    assert restore < paid < shuffle, "the plan is written from its top"
    assert places("Elastic")[0] < restore
    counts: Counter[int] = Counter()
    for row in spark.table("a_day").collect():
        counts[row["key"]] = max(counts[row["key"]], row["n"])
    batch = spark.read.format("laneshift-workload").options(**options).load()
    assert counts == {row["key"]: row["count"] for row in batch.groupBy("key").count().collect()}
