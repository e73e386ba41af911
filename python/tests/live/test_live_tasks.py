"""State partitions in fewer Spark tasks than there are: the answers of stock Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from pyspark.sql import functions as sf

from live.conftest import to_lines, until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    import laneshift
    from live.conftest import Counting

pytestmark = pytest.mark.live
TASKS = "spark.sql.laneshift.tasks"
PARTITIONS = "spark.sql.shuffle.partitions"
ROWS = 6000


def test_tasks_go_down_and_up_and_the_answer_is_that_of_stock(
    app: laneshift.Application, counting: Counting
) -> None:
    def tasks() -> int:
        (found,) = [q for q in app.snapshot().queries if q.id == str(counting.query.id)]
        return found.operators[0].tasks

    counting.add(500)
    assert tasks() == 2
    wanted: tuple[tuple[int | str, int, int], ...] = ((1, 1, 1), ("stock", 3, 2), (1, 4, 1))
    for asked, lanes, seen in (*wanted, ("auto", 1, 2), (2, 1, 2)):
        assert app.query(counting.query).set_tasks(asked).applied == "next-batch"
        app.query(counting.query).set_lanes(lanes)
        counting.add(500)
        assert tasks() == seen
    assert counting.streamed() == counting.stock()


def test_what_cannot_be_is_refused_with_what_can(
    app: laneshift.Application, counting: Counting
) -> None:
    from laneshift import ArgumentError

    counting.add(100)
    with pytest.raises(ArgumentError, match=r"2 state partitions can be computed in 1 to 2 tasks"):
        app.query(counting.query).set_tasks(3)
    counting.add(100)
    assert counting.streamed() == counting.stock()


def _groups_with_state(rows: DataFrame) -> DataFrame:
    def latest(
        key: tuple[int], groups: Iterator[pd.DataFrame], state: Any
    ) -> Iterator[pd.DataFrame]:
        count = (state.get[0] if state.exists else 0) + sum(len(group) for group in groups)
        state.update((count,))
        yield pd.DataFrame({"k": [key[0]], "n": [count]})

    return rows.groupBy("k").applyInPandasWithState(
        latest, "k LONG, n LONG", "n LONG", "update", "NoTimeout"
    )


def _function_above(rows: DataFrame) -> DataFrame:
    twice = sf.udf(lambda n: 2 * n, "long")
    return rows.groupBy("k").agg(sf.count("*").alias("n")).withColumn("n", twice("n"))


@pytest.mark.parametrize("build", [_groups_with_state, _function_above])
def test_functions_in_python_have_a_task_for_each_partition_unless_a_number_is_asked_for(
    spark: SparkSession, tmp_path: Path, build: Callable[[DataFrame], DataFrame]
) -> None:
    source = tmp_path / "in"
    for first in (0, 700):
        rows = spark.range(first, first + 700, numPartitions=1).selectExpr("id * id % 41 AS k")
        rows.write.mode("append").parquet(str(source))
    stream = spark.readStream.schema("k LONG").option("maxFilesPerTrigger", 1)

    def run(options: dict[str, str]) -> tuple[list[list[tuple[Any, ...]]], list[int], str]:
        out: list[list[tuple[Any, ...]]] = []
        parts: list[int] = []

        def sink(batch: DataFrame, _: int) -> None:
            parts.append(batch.rdd.getNumPartitions())
            out.append(sorted(tuple(row) for row in batch.collect()))

        for key, value in options.items():
            spark.conf.set(key, value)
        try:
            query = (
                build(stream.parquet(str(source)))
                .writeStream.foreachBatch(sink)
                .outputMode("update")
                .option("checkpointLocation", str(tmp_path / options.get(TASKS, "stock")))
                .start()
            )
            query.processAllAvailable()
            plan = query._jsq.streamingQuery().lastExecution().executedPlan().toString()
            query.stop()
        finally:
            for key in options:
                spark.conf.unset(key)
            spark.conf.set(PARTITIONS, "2")
        return out, parts, plan

    stock, five, _ = run({"spark.sql.laneshift.enabled": "false", PARTITIONS: "5"})
    elastic, one, plan = run({TASKS: "1", PARTITIONS: "5"})
    assert set(five) == {5}
    assert set(one) == {1}
    assert ", tasks 1]" in plan, plan
    assert elastic == stock
    elastic, left_alone, plan = run({TASKS: "auto", PARTITIONS: "5"})
    assert set(left_alone) == {5}
    assert ", tasks stock: functions in Python have a process for each partition]" in plan, plan
    assert elastic == stock


@pytest.mark.deep("motion")
def test_a_real_time_query_with_more_state_partitions_than_slots_runs(
    spark: SparkSession, app: laneshift.Application, tmp_path: Path
) -> None:
    """Stock Spark refuses 12 tasks and the source's in 6 slots."""
    spark.conf.set(PARTITIONS, "12")
    spark.conf.set(TASKS, "auto")
    rows = (
        spark.readStream.format("laneshift-workload")
        .options(keys=200, rowBytes=0, rowsPerSecond=500, totalRows=ROWS, numPartitions=2)
        .load()
    )
    answers = rows.groupBy("key").agg(sf.count("*").alias("n"))
    query, tail = to_lines(answers, tmp_path, "5 seconds")
    try:

        def rows_out() -> int:
            tail.poll()
            assert query.exception() is None, query.exception()
            return tail.updates.rows

        until(lambda: rows_out() > 100)
        (found,) = [q for q in app.snapshot().queries if q.id == str(query.id)]
        operator = found.operators[0]
        assert operator.tasks == 4
        assert len(operator.partitions) == 12
        app.query(query).set_lanes(3, partition=3, operator=operator.operator_id)
        until(lambda: rows_out() == ROWS)
        assert tail.updates.disorder == 0
    finally:
        query.stop()
        spark.conf.unset(TASKS)
        spark.conf.set(PARTITIONS, "2")


@pytest.mark.deep("policies")
def test_a_policy_gives_a_real_time_query_the_tasks_that_it_needs(
    spark: SparkSession, app: laneshift.Application, tmp_path: Path
) -> None:
    """Four partitions with next to nothing to do: fewer tasks from a next batch on, every row once
    and in order. In the gate: autoscale/test_tapes.py, autoscale/test_tasks.py.
    """
    total = 30_000
    spark.conf.set(PARTITIONS, "4")
    rows = (
        spark.readStream.format("laneshift-workload")
        .options(keys=200, rowBytes=0, rowsPerSecond=500, totalRows=total, numPartitions=2)
        .load()
    )
    answers = rows.groupBy("key").agg(sf.count("*").alias("n"))
    query, tail = to_lines(answers, tmp_path, "5 seconds")
    try:

        def rows_out() -> int:
            tail.poll()
            assert query.exception() is None, query.exception()
            return tail.updates.rows

        def tasks() -> int:
            (found,) = [q for q in app.snapshot().queries if q.id == str(query.id)]
            return found.operators[0].tasks

        until(lambda: rows_out() > 100)
        assert tasks() == 4
        with app.autoscale(policy="laneshift", set_tasks=True, interval=0.2) as autoscaler:
            until(lambda: rows_out() and tasks() < 4)
            changes = [c for d in autoscaler.decisions() for c in d.tasks]
            assert changes and changes[0].before == 4 and changes[0].after < 4
            assert "of 4 tasks the busiest needs" in changes[0].reason
            assert not [d.error for d in autoscaler.decisions() if d.error]
            until(lambda: rows_out() == total)
        assert tail.updates.disorder == 0
    finally:
        query.stop()
        spark.conf.set(PARTITIONS, "2")
