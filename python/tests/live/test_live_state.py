"""Stateful Python functions: stock and elastic under motion give the same rows, counts, state."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

import laneshift
from live.test_live_restart import set_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

from pyspark import cloudpickle
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

pytestmark = [pytest.mark.live, pytest.mark.versions]

# Spark's Python workers cannot import the tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

STOCK = {"spark.sql.laneshift.enabled": "false"}
MOVING = {
    "spark.sql.laneshift.lanes": "3",
    "spark.sql.laneshift.motion": "always",
    "spark.sql.laneshift.motion.interval": "3ms",
}
OUTPUT = "key STRING, what STRING, n LONG, total LONG"
ROWS, BATCH = 6000, 1500

Case = Callable[["DataFrame"], "DataFrame"]


def rows_of(spark: SparkSession) -> DataFrame:
    """Skewed rows (key, number, value, time), ten seconds of event time a batch."""
    source = (
        spark.readStream.format("laneshift-workload")
        .options(pacing="none", keys=200, rowBytes=8, rowsPerBatch=BATCH, totalRows=ROWS)
        .load()
    )
    return source.selectExpr(
        "cast(key AS STRING) AS key",
        "cast(value % 7 AS INT) AS number",
        "value % 1000 AS value",
        f"timestamp_millis(1700000000000 + floor(value * 10000 / {BATCH})) AS time",
    )


def in_pandas_forgetful(rows: DataFrame) -> DataFrame:
    """applyInPandasWithState without time-outs: forgets a key at 40 rows."""

    def function(key: Any, parts: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        n, total = state.getOption or (0, 0)
        for part in parts:
            n, total = n + len(part), total + int(part["value"].sum())
        if n >= 40:
            state.remove()
        else:
            state.update((n, total))
        yield pd.DataFrame({"key": [key[0]], "what": ["now"], "n": [n], "total": [total]})

    return rows.groupBy("key").applyInPandasWithState(
        function, OUTPUT, "n LONG, total LONG", "update", "NoTimeout"
    )


def in_pandas_until_quiet(rows: DataFrame) -> DataFrame:
    """applyInPandasWithState with time-outs by event time, two keys."""

    def function(key: Any, parts: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        name = f"{key[0]}/{key[1]}"
        if state.hasTimedOut:
            n, total = state.get
            state.remove()
            yield pd.DataFrame({"key": [name], "what": ["quiet"], "n": [n], "total": [total]})
        else:
            n, total = state.getOption or (0, 0)
            newest = 0
            for part in parts:
                n, total = n + len(part), total + int(part["value"].sum())
                newest = max(newest, int(part["time"].max().value // 1_000_000))
            state.update((n, total))
            state.setTimeoutTimestamp(max(newest, state.getCurrentWatermarkMs()) + 2000)

    late = rows.withWatermark("time", "1 second")
    return late.groupBy("key", "number").applyInPandasWithState(
        function, OUTPUT, "n LONG, total LONG", "append", "EventTimeTimeout"
    )


class Keeping(StatefulProcessor):
    """A value, a list and a map; a timer of event time tells of a key that is quiet."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.total = handle.getValueState("total", "n LONG, total LONG")
        self.each = handle.getListState("each", "n LONG")
        self.by_number = handle.getMapState("byNumber", "number INT", "total LONG")

    def tell(self, key: str, what: str, n: int, total: int) -> Iterator[Any]:
        yield pd.DataFrame({"key": [key], "what": [what], "n": [n], "total": [total]})

    def table(self, rows: Iterator[Any]) -> pd.DataFrame:
        return pd.concat(list(rows))

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802
        part = self.table(rows)
        n, total = self.total.get() if self.total.exists() else (0, 0)
        n, total = n + len(part), total + int(part["value"].sum())
        self.total.update((n, total))
        self.each.appendValue((len(part),))
        for number, value in zip(part["number"], part["value"], strict=True):
            at = (int(number),)
            before = self.by_number.getValue(at)[0] if self.by_number.containsKey(at) else 0
            self.by_number.updateValue(at, (before + int(value),))
        if n % 5 == 0:
            self.by_number.removeKey((3,))
        for timer in list(self.handle.listTimers()):
            self.handle.deleteTimer(timer)
        newest = int(pd.to_datetime(part["time"]).max().value // 1_000_000)
        self.handle.registerTimer(max(newest, timerValues.getCurrentWatermarkInMs()) + 3000)
        listed = sum(entry[0] for entry in self.each.get())
        mapped = sum(value[0] for value in self.by_number.values())
        yield from self.tell(key[0], f"{listed} {mapped}", n, total)

    def handleExpiredTimer(  # noqa: N802
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Any]:
        n, total = self.total.get()
        self.total.clear()
        self.each.clear()
        yield from self.tell(key[0], "quiet", n, total)

    def close(self) -> None:
        pass


class KeepingRows(Keeping):
    """The same by Spark's rows."""

    def tell(self, key: str, what: str, n: int, total: int) -> Iterator[Any]:
        from pyspark.sql import Row

        yield Row(key=key, what=what, n=n, total=total)

    def table(self, rows: Iterator[Any]) -> pd.DataFrame:
        return pd.DataFrame([row.asDict() for row in rows])


def in_pandas_processor(rows: DataFrame) -> DataFrame:
    grouped = rows.withWatermark("time", "1 second").groupBy("key")
    return grouped.transformWithStateInPandas(Keeping(), OUTPUT, "update", "EventTime")


def row_processor(rows: DataFrame) -> DataFrame:
    grouped = rows.withWatermark("time", "1 second").groupBy("key")
    return grouped.transformWithState(KeepingRows(), OUTPUT, "append", "EventTime")


def counts(progress: Any) -> list[tuple[Any, ...]]:
    """Of each operator: its rows, and what it counts itself but for times."""
    found = []
    for operator in json.loads(progress.json)["stateOperators"]:
        names = (
            "operatorName",
            "numRowsTotal",
            "numRowsUpdated",
            "numRowsRemoved",
            "numRowsDroppedByWatermark",
            "numStateStoreInstances",
            "numShufflePartitions",
        )
        custom = sorted(
            (name, n) for name, n in operator["customMetrics"].items() if name.startswith("num")
        )
        found.append((*(operator[name] for name in names), custom))
    return found


def state_of(spark: SparkSession, checkpoint: Path, *, families: bool) -> list[tuple[Any, ...]]:
    """Every state row: as bytes with its column family, or decoded."""
    reader = spark.read.format("statestore")
    if families:
        table = reader.option("_readAllColumnFamilies", True).load(str(checkpoint))
        table = table.selectExpr("column_family_name", "hex(key_bytes)", "hex(value_bytes)")
    else:
        table = reader.load(str(checkpoint)).selectExpr(
            "partition_id", "to_json(struct(key, value))"
        )
    return sorted(tuple(row) for row in table.collect())


def run(spark: SparkSession, case: Case, mode: str, folder: Path, *, families: bool) -> Any:
    """Rows by batch, counts by batch, state, plan, and the query's id."""
    batches: list[list[tuple[Any, ...]]] = []

    def keep(batch: DataFrame, _: int) -> None:
        batches.append(sorted(tuple(row) for row in batch.collect()))

    query = (
        case(rows_of(spark))
        .writeStream.foreachBatch(keep)
        .outputMode(mode)
        .option("checkpointLocation", str(folder))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(300)
    plan = query._jsq.explainInternal(False)
    state = state_of(spark, folder, families=families)
    return batches, [counts(p) for p in query.recentProgress], state, plan, str(query.id)


@pytest.mark.parametrize(
    ("case", "mode", "families"),
    [
        pytest.param(in_pandas_forgetful, "update", False, marks=pytest.mark.deep("pairs")),
        pytest.param(in_pandas_until_quiet, "append", False, marks=pytest.mark.deep("pairs")),
        (in_pandas_processor, "update", True),
        pytest.param(row_processor, "append", True, marks=pytest.mark.deep("pairs")),
    ],
)
def test_a_stateful_python_function_equals_stock_under_motion(
    spark: SparkSession,
    app: laneshift.Application,
    tmp_path: Path,
    case: Case,
    mode: str,
    families: bool,
) -> None:
    with set_in(spark, STOCK):
        stock = run(spark, case, mode, tmp_path / "stock", families=families)
    with set_in(spark, MOVING):
        elastic = run(spark, case, mode, tmp_path / "elastic", families=families)
    assert "Elastic [" not in stock[3]
    assert "Elastic [" in elastic[3], elastic[3]
    assert app.query(elastic[4]).handoffs()
    assert stock[0] == elastic[0], "rows by batch"
    assert stock[1] == elastic[1], "counts by batch"
    assert stock[2] == elastic[2], "state"
    assert sum(len(batch) for batch in elastic[0]) > 200
    assert len(elastic[2]) > 50
