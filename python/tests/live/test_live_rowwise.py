"""Stages without state on lanes, with functions in Python: stock Spark's rows in its order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as sf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    import laneshift

pytestmark = pytest.mark.live
PREFIX = "spark.sql.laneshift."
MOVING = {"lanes": "3", "maxLanes": "4", "motion": "always", "motion.interval": "5ms"}
STOCK = {"enabled": "false"}


def slowly(key: int) -> int | None:
    """Lanes overtake each other; null for some."""
    if key % 97 == 0:
        time.sleep(0.005)
    return None if key % 7 == 0 else key * 3


def _pickled(rows: DataFrame) -> DataFrame:
    return rows.withColumn("f", sf.udf(slowly, "long")("k"))


def _pandas(rows: DataFrame) -> DataFrame:
    def function(keys: pd.Series) -> pd.Series:
        return keys.map(slowly)

    return rows.withColumn("f", sf.pandas_udf(function, "long")("k"))  # type: ignore[call-overload]


def _numbered(rows: DataFrame) -> DataFrame:
    def function(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
        count = 0
        for keys in batches:
            yield pd.Series(range(count, count + len(keys)))
            count += len(keys)

    function.__annotations__ = {"batches": Iterator[pd.Series], "return": Iterator[pd.Series]}
    return rows.withColumn("f", sf.pandas_udf(function, "long")("k"))  # type: ignore[call-overload]


def _arrow(rows: DataFrame) -> DataFrame:
    return rows.withColumn("f", sf.udf(slowly, "long", useArrow=True)("k"))


def _between(rows: DataFrame) -> DataFrame:
    """Functions below and above operators that give no row, or many."""
    once = _pickled(rows.where("k % 5 != 3")).where("f is not null")
    many = once.select("k", "f", sf.explode(sf.expr("sequence(1, k % 4 + 1)")).alias("n"))
    return _pickled(many.where("n != 2").drop("f"))


@contextmanager
def _options(spark: SparkSession, options: dict[str, str]) -> Iterator[None]:
    before = {key: spark.conf.get(PREFIX + key) for key in options}
    for key, value in options.items():
        spark.conf.set(PREFIX + key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(PREFIX + key, value)


def _rows(
    spark: SparkSession,
    source: Path,
    at: Path,
    build: Callable[[DataFrame], DataFrame],
    mode: str = "append",
) -> tuple[list[tuple[Any, ...]], str]:
    """What each batch gives, in order, and the last one's plan."""
    out: list[tuple[Any, ...]] = []

    def sink(batch: DataFrame, _: int) -> None:
        out.extend(tuple(row) for row in batch.collect())

    stream = spark.readStream.schema("k LONG, v STRING").option("maxFilesPerTrigger", 1)
    query = (
        build(stream.parquet(str(source)))
        .writeStream.foreachBatch(sink)
        .outputMode(mode)
        .option("checkpointLocation", str(at))
        .start()
    )
    try:
        query.processAllAvailable()
        execution: Any = query._jsq.streamingQuery().lastExecution()
        return out, execution.executedPlan().toString()
    finally:
        query.stop()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(3):
        keys = list(range(number * 2000, number * 2000 + 1500))
        table = pa.table({"k": keys, "v": ["x" * (k % 50) for k in keys]})
        pq.write_table(table, folder / f"{number}.parquet")
    return folder


@pytest.mark.versions
@pytest.mark.parametrize("build", [_pickled, _pandas, _arrow, _between])
def test_functions_in_python_give_stocks_rows_in_its_order(
    spark: SparkSession, source: Path, tmp_path: Path, build: Callable[[DataFrame], DataFrame]
) -> None:
    with _options(spark, STOCK):
        stock, plan = _rows(spark, source, tmp_path / "stock", build)
    assert "Elastic [" not in plan
    with _options(spark, MOVING):
        lanes, plan = _rows(spark, source, tmp_path / "lanes", build)
    assert "Elastic [row-wise" in plan, plan
    assert len(stock) > 1000
    assert lanes == stock


def test_an_iterators_function_keeps_what_it_has_from_row_to_row(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    with _options(spark, STOCK):
        stock, _ = _rows(spark, source, tmp_path / "stock", _numbered)
    with _options(spark, MOVING):
        lanes, plan = _rows(spark, source, tmp_path / "lanes", _numbered)
    assert "Elastic [" not in plan, plan
    assert lanes == stock
    assert len(lanes) > 1000


@pytest.mark.versions
@pytest.mark.parametrize("function", [_pickled, _arrow])
def test_above_a_state_functions_in_python_go_to_any_lane(
    spark: SparkSession,
    source: Path,
    tmp_path: Path,
    function: Callable[[DataFrame], DataFrame],
) -> None:
    def build(rows: DataFrame) -> DataFrame:
        hot = sf.when(sf.col("k") % 10 < 6, -7).otherwise(sf.col("k") % 40)
        return function(rows.groupBy(hot.alias("k")).agg(sf.count("*").alias("n")))

    with _options(spark, STOCK):
        stock, plan = _rows(spark, source, tmp_path / "stock", build, "update")
    assert "Elastic [" not in plan
    with _options(spark, MOVING | {"hotKeys.spread": "true"}):
        lanes, plan = _rows(spark, source, tmp_path / "lanes", build, "update")
    # Nothing that is in a region with the state reads ahead.
    assert plan.index("Elastic [row-wise") < plan.index("Elastic [shards"), plan
    assert plan.index("EvalPython") < plan.index("Elastic [shards"), plan
    assert len(stock) > 40
    assert sorted(lanes, key=str) == sorted(stock, key=str)


def test_a_function_that_fails_fails_the_query_with_its_error(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    def fails(key: int) -> int:
        if key == 777:
            raise ValueError("row 777 fails")
        return key

    with _options(spark, MOVING), pytest.raises(StreamingQueryException, match="row 777 fails"):
        _rows(
            spark, source, tmp_path / "fails",
            lambda rows: rows.withColumn("f", sf.udf(fails, "long")("k")),
        )  # fmt: skip


def _above_a_state(rows: DataFrame, function: Callable[[int], int]) -> DataFrame:
    once = rows.dropDuplicates(["k"])
    return once.select(sf.udf(function, "long")("k").alias("k"))


def _without_state(rows: DataFrame, function: Callable[[int], int]) -> DataFrame:
    return rows.select(sf.udf(function, "long")("k").alias("k"))


@pytest.mark.parametrize("build", [_above_a_state, _without_state])
def test_a_function_that_does_not_return_ends_with_its_query(
    spark: SparkSession,
    source: Path,
    tmp_path: Path,
    build: Callable[[DataFrame, Callable[[int], int]], DataFrame],
) -> None:
    # Python workers import this module, and do not find that one.
    from live.conftest import until

    hanging, let = tmp_path / "hanging", tmp_path / "let"

    def hangs(key: int) -> int:
        if key % 2000 == 1400 and not let.exists():
            hanging.touch()
            threading.Event().wait()
        return key

    tracker = spark.sparkContext._jsc.sc().statusTracker()  # type: ignore[union-attr]

    def running() -> int:
        return sum(executor.numRunningTasks() for executor in tracker.getExecutorInfos())

    with _options(spark, MOVING):
        stream = spark.readStream.schema("k LONG, v STRING").option("maxFilesPerTrigger", 1)
        query = (
            build(stream.parquet(str(source)), hangs)
            .writeStream.format("noop")
            .option("checkpointLocation", str(tmp_path / "lanes"))
            .start()
        )
        until(hanging.exists)
        query.stop()
        # Spark ends the worker, as it ends that of a task of its own.
        until(lambda: running() == 0)
        let.touch()
        lanes, plan = _rows(spark, source, tmp_path / "lanes", lambda r: build(r, hangs))
    assert "Elastic [" in plan, plan
    assert sorted(lanes) == [(number * 2000 + k,) for number in range(3) for k in range(1500)]


@contextmanager
def _measured(
    spark: SparkSession, at: Path, rows: dict[str, object], function: Callable[[int], int | None]
) -> Iterator[tuple[StreamingQuery, Callable[[], list[str]]]]:
    """A Real-time query of one source partition through a function, and the lines that it gave."""
    stream = spark.readStream.format("laneshift-workload")
    for key, value in ({"seed": 3, "numPartitions": 1, "keys": 9} | rows).items():
        stream = stream.option(key, str(value))
    line = sf.concat_ws(",", sf.lit("0"), sf.udf(function, "long")("seq").alias("f"), "seq")
    query = (
        stream.load()
        .select(line.alias("line"))
        .writeStream.format("laneshift-measure")
        .option("name", str(at))
        .option("lineColumn", "line")
        .option("checkpointLocation", str(at / "checkpoint"))
        .option("asyncProgressTrackingEnabled", "false")
        .outputMode("update")
        .trigger(realTime="1 minute")  # type: ignore[call-overload]
        .start()
    )
    jvm: Any = spark._jvm
    sink = jvm.org.apache.spark.sql.laneshift.workload.MeasureRegistry
    found: list[str] = []

    def lines() -> list[str]:
        assert query.isActive, query.exception()
        found.extend(sink.lines(str(at)).splitlines())
        return found

    try:
        yield query, lines
    finally:
        query.stop()
        sink.drop(str(at))


@pytest.mark.deep("motion")
def test_in_real_time_mode_a_function_that_is_behind_gets_idle_cores(
    spark: SparkSession, app: laneshift.Application, tmp_path: Path
) -> None:
    def waits(key: int) -> int:
        time.sleep(0.002)
        return key

    endless = {"pacing": "none", "totalRows": 10**12}
    with _options(spark, {"lanes": "auto"}), _measured(spark, tmp_path, endless, waits) as (
        query, lines,
    ):  # fmt: skip
        most = 1
        deadline = time.monotonic() + 50  # The batch ends later.
        while most < 2 and time.monotonic() < deadline:
            lines()
            mine = [q for q in app.snapshot().queries if q.id == str(query.id)]
            most = max((o.lanes for q in mine for o in q.operators), default=1)
            time.sleep(0.1)
        assert most > 1
        found = list(lines())
    assert [int(text.rsplit(",", 1)[1]) for text in found] == list(range(len(found)))


@pytest.mark.deep("motion")
@pytest.mark.parametrize("lanes", ["1", "3"])
def test_in_real_time_mode_answers_come_while_no_more_rows_do(
    spark: SparkSession, tmp_path: Path, lanes: str
) -> None:
    rows = 400
    paced = {"rowsPerSecond": 200, "totalRows": rows}
    with (
        _options(spark, {"lanes": lanes, "maxLanes": "4"}),
        _measured(spark, tmp_path, paced, slowly) as (_, lines),
    ):
        deadline = time.monotonic() + 50  # The batch ends later.
        while len(found := lines()) < rows and time.monotonic() < deadline:
            time.sleep(0.1)
    assert [int(text.rsplit(",", 1)[1]) for text in found] == list(range(rows))
