"""Idle tax of each stateful operator in micro-batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from laneshift_bench.progress import Progress
from laneshift_bench.query import Build, batch_rate, counting, running
from laneshift_bench.report import Report
from laneshift_bench.session import session
from laneshift_bench.sides import Side
from laneshift_bench.tax import SIDES, add_line, take_turns

METHOD = """\
Micro-batches, 2 source and 2 state partitions, keys nearly equally likely (Zipf 0.3), so that
there is nothing to balance. Sides run in turn in one JVM, after a warm-up of each; the stock
side is the same session with `spark.sql.laneshift.enabled=false`. Rows of a batch over its whole
time (planning, reading, state, commit), median over the batches of a run after the first ones; a
ratio compares a run with the stock run of the same round. Python functions do nothing with their
rows but count them, so that the rows' way is all that is measured; four lanes have eight Python
workers where stock has two."""


@dataclass(frozen=True, slots=True)
class Case:
    """A query, the rows of a batch and their keys."""

    name: str
    build: Build
    rows: int
    keys: int
    mode: str = "update"


def joined(rows: DataFrame) -> DataFrame:
    """Each row with those of its key in the other half of the stream, within a second."""
    left = (
        rows.where("value % 2 = 0")
        .select("key", "event_time")
        .withWatermark("event_time", "2 seconds")
    )
    right = (
        rows.where("value % 2 = 1")
        .select(sf.col("key").alias("other"), sf.col("event_time").alias("at"))
        .withWatermark("at", "2 seconds")
    )
    near = "key = other AND at BETWEEN event_time - INTERVAL 1 SECOND AND event_time"
    return left.join(right, sf.expr(near)).select("key", "event_time")


def python(cost: Callable[[int], None], rows: DataFrame) -> DataFrame:
    """A running count in Python whose rows cost something."""

    def function(key: tuple[Any, ...], parts: Iterator[Any], state: Any) -> Iterator[Any]:
        import pandas as pd

        n, last = state.getOption or (0, None)
        for part in parts:
            cost(len(part))
            n, last = n + len(part), part["event_time"].max().to_pydatetime()
        state.update((n, last))
        yield pd.DataFrame({"key": [key[0]], "n": [n], "event_time": [last]})

    schema = f"key {rows.schema['key'].dataType.simpleString()}, n LONG, event_time TIMESTAMP"
    return rows.groupBy("key").applyInPandasWithState(
        function, schema, "n LONG, event_time TIMESTAMP", "update", "NoTimeout"
    )


def nothing(_: int) -> None:
    """No work: what is left is the way of the rows."""


def deduplicated(rows: DataFrame) -> DataFrame:
    """The first row of each key and tenth of values."""
    return rows.withColumn("part", sf.col("value") % 10).dropDuplicates(["key", "part"])


def within_watermark(rows: DataFrame) -> DataFrame:
    """The first row of a key in a while."""
    return rows.withWatermark("event_time", "1 second").dropDuplicatesWithinWatermark(["key"])


def sessions(rows: DataFrame) -> DataFrame:
    """Sessions of a key, once they are over."""
    session_of_key = sf.session_window("event_time", "100 milliseconds")
    return (
        rows.withWatermark("event_time", "1 second")
        .groupBy(session_of_key, "key")
        .agg(sf.count("*").alias("n"), sf.max("event_time").alias("newest"))
        .select("key", "n", sf.col("newest").alias("event_time"))
    )


class Count(StatefulProcessor):
    """A running count in Python."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        self.n = handle.getValueState("n", "n LONG")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802
        """One answer for all rows of a key in a batch."""
        import pandas as pd

        n = self.n.get()[0] if self.n.exists() else 0
        newest = None
        for part in rows:
            n, newest = n + len(part), part["event_time"].max()
        self.n.update((n,))
        yield pd.DataFrame({"key": [key[0]], "n": [n], "event_time": [newest]})

    def close(self) -> None:
        """Nothing to close."""


def processor(rows: DataFrame) -> DataFrame:
    """transformWithState by pandas."""
    return rows.groupBy("key").transformWithStateInPandas(
        Count(), "key LONG, n LONG, event_time TIMESTAMP", "update", "None"
    )


CASES = (
    Case("aggregation", counting, 250_000, 100_000),
    Case("dropDuplicates", deduplicated, 250_000, 100_000),
    Case("dropDuplicatesWithinWatermark", within_watermark, 250_000, 100_000),
    Case("session windows", sessions, 100_000, 20_000, "append"),
    Case("inner join", joined, 30_000, 20_000),
    Case("applyInPandasWithState", partial(python, nothing), 50_000, 2_000),
    Case("transformWithStateInPandas", processor, 20_000, 500),
)


def run(quick: bool) -> Report:
    """The whole benchmark."""
    rounds = 1 if quick else 3
    progress = Progress("operators", len(CASES) * len(SIDES) * (rounds + 1))
    report = Report(
        "operators",
        "Idle tax of each operator",
        METHOD,
        ("rows/s", *(s.name for s in SIDES), "1 lane / stock", "4 / stock"),
    )
    with session(slots=8) as (spark, work):
        for case in CASES:
            found = take_turns(
                progress, case.name, rounds, partial(_rate, spark, work, case, quick)
            )
            add_line(report, case.name, found, throughput=True)
    return report


def _rate(spark: SparkSession, work: Path, case: Case, quick: bool, side: Side) -> float:
    """Rows a second of a median micro-batch."""
    rows = case.rows // (5 if quick else 1)
    first, batches = (1, 2) if quick else (2, 4)
    source: dict[str, object] = {"keys": case.keys, "zipf": 0.3, "rowBytes": 8}
    source |= {"pacing": "none", "rowsPerBatch": rows}
    with running(spark, work, side, source, case.build, None, mode=case.mode) as started:
        return batch_rate(started, rows, first, batches)
