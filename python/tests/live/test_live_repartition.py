"""The engine's own way to another parallelism: stop, repartition the checkpoint, start again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import laneshift
from laneshift_bench.repartition import RepartitionedQuery
from live.conftest import PARTITIONS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

pytestmark = [pytest.mark.live, pytest.mark.deep("pairs")]

ROWS = 30_000
OPTIONS: dict[str, Any] = {
    "keys": 300, "zipf": 0.5, "rowBytes": 0, "seed": 7,
    "pacing": "none", "rowsPerBatch": 600, "totalRows": ROWS,
}  # fmt: skip


def counted(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    return rows.groupBy("key").agg(F.count("*").alias("n"), F.sum("value").alias("total"))


class Answers:
    """Keeps every answer of every batch, and refuses a batch that says two things."""

    def __init__(self) -> None:
        self.batches: dict[int, list[tuple[Any, ...]]] = {}

    def __call__(self, rows: DataFrame, batch: int) -> None:
        self.batches[batch] = sorted(tuple(row) for row in rows.collect())

    def last(self) -> dict[Any, tuple[Any, ...]]:
        return {row[0]: row for _, rows in sorted(self.batches.items()) for row in rows}


@pytest.mark.parametrize("elastic", [True, False], ids=["under laneshift", "stock"])
def test_two_rescalings_give_the_answer_of_one_batch(
    spark: SparkSession, app: laneshift.Application, tmp_path: Path, elastic: bool
) -> None:
    session = spark.newSession()
    for key, value in spark.sparkContext.getConf().getAll():
        if key.startswith("spark.sql.") and session.conf.isModifiable(key):
            session.conf.set(key, value)
    session.conf.set("spark.sql.laneshift.enabled", str(elastic).lower())
    session.conf.set("spark.sql.laneshift.lanes", "3")
    answers = Answers()

    def write(on: SparkSession) -> DataStreamWriter:
        rows = on.readStream.format("laneshift-workload").options(**OPTIONS).load()
        return counted(rows).writeStream.foreachBatch(answers).outputMode("update")

    query = RepartitionedQuery(session, write, str(tmp_path / "checkpoint"))
    with pytest.raises(RuntimeError, match="has not been started"):
        query.rescale(4)
    query.start()
    took = []
    try:
        for partitions in (5, np.int64(3)):
            time.sleep(1.5)
            took.append(query.rescale(partitions))
            assert query.partitions == partitions
            for wrong in (partitions, 0, "4", 2.0, True, 2**31):
                with pytest.raises(laneshift.ArgumentError, match="partitions"):
                    query.rescale(wrong)  # type: ignore[arg-type]
            assert query.query.isActive
        mine = [q for q in app.snapshot().queries if q.id == str(query.query.id)]
        assert [len(o.partitions) for q in mine for o in q.operators] == [3] * elastic
        end = time.monotonic() + 120
        while sum(row[1] for row in answers.last().values()) < ROWS:
            assert time.monotonic() < end and query.query.exception() is None
            time.sleep(0.1)
    finally:
        query.stop()
    assert [(t.before, t.after) for t in took] == [(PARTITIONS, 5), (5, 3)]
    assert all(min(t.stop_s, t.repartition_s, t.start_s) > 0 for t in took)
    assert all(t.total_s < 60 for t in took)
    bounded = spark.read.format("laneshift-workload").options(**OPTIONS).load()
    stock = {row[0]: tuple(row) for row in counted(bounded).collect()}
    assert answers.last() == stock


def test_what_spark_refuses_is_told_and_the_query_can_go_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    def write(on: SparkSession) -> DataStreamWriter:
        rows = on.readStream.format("laneshift-workload").options(**OPTIONS).load()
        return rows.writeStream.format("noop")

    query = RepartitionedQuery(spark, write, str(tmp_path / "checkpoint"))
    query.start()
    try:
        with pytest.raises(RuntimeError, match="no stateful operator"):
            query.rescale(4)
        assert query.query.isActive
    finally:
        query.stop()
