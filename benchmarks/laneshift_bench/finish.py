"""The end of a batch: its scan of the whole state and its commit, with more lanes."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from statistics import median

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from laneshift_bench.pairs import Ratio, spread
from laneshift_bench.progress import Progress
from laneshift_bench.query import batch_ms, running
from laneshift_bench.report import Report
from laneshift_bench.session import session
from laneshift_bench.sides import Side, elastic, stock

LANES = (1, 2, 4)
SIDES: tuple[Side, ...] = (stock(1), *(elastic(n, 1) for n in LANES))
KEYS, FILL_ROWS, ROWS = 1_000_000, 500_000, 1_000
METHOD = f"""\
Micro-batches of {ROWS:,} rows over about a million state rows in one state partition, so that a
batch is nearly all end: counts by key and day in update mode with a watermark, which looks through
the whole state for what has ended (nothing has), and the commit. The state is filled first, by
batches of {FILL_ROWS:,} rows of {KEYS:,} equally likely keys. Median time of a batch over the
batches of a run after the first ones; a ratio compares a run with the 1-lane run of its round."""

_numbers = count()


def daily(rows: DataFrame) -> DataFrame:
    """Counts that a watermark will end some day."""
    day = sf.window("event_time", "1 day")
    return (
        rows.withWatermark("event_time", "1 hour")
        .groupBy(day, "key")
        .agg(sf.count("*").alias("n"), sf.max("event_time").alias("event_time"))
    )


def run(quick: bool) -> Report:
    """The whole benchmark."""
    rounds, fill = (1, 1) if quick else (2, 6)
    progress = Progress("finish", len(SIDES) * rounds)
    report = Report(
        "finish",
        "The end of a batch",
        METHOD,
        ("figure", *(s.name for s in SIDES), "stock / 1 lane", "2 / 1", "4 / 1"),
    )
    found: list[list[float]] = [[] for _ in SIDES]
    with session(slots=4) as (spark, work):
        for number in range(rounds):
            for at, side in enumerate(SIDES):
                progress.step(f"{side.name}, round {number + 1}")
                value, state = _batch(spark, work, side, fill)
                progress.note(f"{value:,.0f} ms a batch, {state:,} state rows")
                found[at].append(value)
    ratios = [Ratio.of(found[i], found[1]) for i in (0, 2, 3)]
    report.rows.append(["batch, ms", *map(spread, found), *map(str, ratios)])
    report.data |= {"state_rows": state} | {s.name: v for s, v in zip(SIDES, found, strict=True)}
    report.notes.append(f"{state:,} state rows.")
    return report


def _batch(spark: SparkSession, work: Path, side: Side, fill: int) -> tuple[float, int]:
    """Median time of a batch (ms), and state rows."""
    source: dict[str, object] = {"keys": KEYS, "zipf": 0, "rowBytes": 0}
    checkpoint = work / f"finish{next(_numbers)}"
    large, small = source | {"rowsPerBatch": FILL_ROWS}, source | {"rowsPerBatch": ROWS}
    with running(spark, work, side, large, daily, None, checkpoint) as run:
        batch_ms(run, 0, fill)
    with running(spark, work, side, small, daily, None, checkpoint) as run:
        times = batch_ms(run, 3, 8)
        state = run.query.recentProgress[-1].stateOperators[0].numRowsTotal
    return median(times), state
