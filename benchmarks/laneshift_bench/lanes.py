"""More lanes for one partition: state-heavy aggregation, a join, stateful Python functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from laneshift_bench.pairs import Ratio, spread
from laneshift_bench.progress import Progress
from laneshift_bench.query import Build, batch_rate, counting_payloads, running
from laneshift_bench.report import Goal, Report
from laneshift_bench.session import session
from laneshift_bench.sides import Side, elastic, stock

LANES = (1, 2, 4)
SIDES: tuple[Side, ...] = (stock(1), *(elastic(n, 1) for n in LANES))
KEYS = 1_000_000
LOOPS = 300
WAIT_US = 200.0
METHOD = f"""\
Micro-batches, one state partition, so that stock Spark has one core for it: the same query on
stock Spark and with 1, 2 and 4 lanes. Rows of a batch over its whole time (planning, reading,
commit), median over the batches of a run after the first ones. A ratio compares a run with the
1-lane run of the same round.

*aggregation*: count and newest time of {KEYS:,} equally likely keys, payloads of 100 bytes kept: a
read and a write of state for nearly every row. *join*: an inner join in a time range of two
streams. *Python, CPU*: `applyInPandasWithState` with {LOOPS} turns of a Python loop for each row.
*Python, waiting*: the same with {WAIT_US:.0f} microseconds of waiting for each row instead, to an
absolute deadline: a cost that is emulated, and so does not need a core for each lane."""


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

    schema = "key LONG, n LONG, event_time TIMESTAMP"
    return rows.groupBy("key").applyInPandasWithState(
        function, schema, "n LONG, event_time TIMESTAMP", "update", "NoTimeout"
    )


def nothing(_: int) -> None:
    """No work: what is left is the way of the rows."""


def burn(rows: int) -> None:
    """Real work: it needs a core."""
    total = 0
    for _ in range(rows):
        for i in range(LOOPS):
            total += i


def wait(rows: int) -> None:
    """Emulated work: needs no core."""
    import time

    end = time.monotonic() + rows * WAIT_US / 1e6
    while (left := end - time.monotonic()) > 0:
        time.sleep(left)


def run(quick: bool) -> Report:
    """The whole benchmark."""
    rounds = 1 if quick else 2
    scale = 5 if quick else 1
    many: dict[str, object] = {"keys": KEYS, "zipf": 0, "rowBytes": 100}
    few: dict[str, object] = {"keys": 2000, "zipf": 0.3, "rowBytes": 8}
    cases: tuple[tuple[str, Build, dict[str, object], int], ...] = (
        ("aggregation", counting_payloads, many, 200_000),
        ("join", joined, few, 30_000),
        ("Python, CPU", partial(python, burn), few, 50_000),
        ("Python, waiting", partial(python, wait), few, 20_000),
    )
    progress = Progress("lanes", len(cases) * len(SIDES) * (rounds + 1))
    report = Report(
        "lanes",
        "More lanes for one partition",
        METHOD,
        ("rows/s", *(s.name for s in SIDES), "stock / 1 lane", "2 / 1", "4 / 1"),
    )
    with session(slots=8) as (spark, work):
        for name, build, source, rows in cases:
            found: list[list[float]] = [[] for _ in SIDES]
            for number in range(rounds + 1):
                what = "warm-up" if number == 0 else f"round {number}"
                for at, side in enumerate(SIDES):
                    progress.step(f"{name}, {side.name}, {what}")
                    value = _batches(spark, work, side, build, source, rows // scale, quick)
                    progress.note(f"{value:,.0f} rows/s")
                    if number:
                        found[at].append(value)
            ratios = [Ratio.of(found[i], found[1]) for i in (0, 2, 3)]
            report.rows.append([name, *map(spread, found), *map(str, ratios)])
            report.data[name] = {s.name: v for s, v in zip(SIDES, found, strict=True)}
            if name == "aggregation":
                report.goals.append(Goal("aggregation, 4 lanes / 1", ratios[2].median, ">=", 1.0))
    return report


def _batches(
    spark: SparkSession,
    work: Path,
    side: Side,
    build: Build,
    source: dict[str, object],
    rows: int,
    quick: bool,
) -> float:
    """Rows a second of a median micro-batch."""
    first, batches = (1, 2) if quick else (2, 5)
    options = source | {"pacing": "none", "rowsPerBatch": rows}
    with running(spark, work, side, options, build, trigger=None) as started:
        return batch_rate(started, rows, first, batches)
