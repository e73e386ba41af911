"""Stages without state over lanes: one source partition, rows that cost something."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from laneshift_bench.costs import burn, turns_of, wait
from laneshift_bench.measure import Measurement
from laneshift_bench.pairs import Ratio, in_turn, spread
from laneshift_bench.progress import Progress
from laneshift_bench.query import ENDLESS, BenchmarkError, Build, batch_rate, running
from laneshift_bench.report import Goal, Report, kept, ran_now
from laneshift_bench.session import session
from laneshift_bench.sides import Side, alone, elastic, stock

COST_US = 1000
LANES = 8
SOURCE: Mapping[str, object] = {"keys": 1000, "zipf": 0, "rowBytes": 100, "numPartitions": 1}
METHOD = f"""\
Queries without state: a source of one partition, a function of each row, a sink. *Waits*:
{COST_US / 1000:g} ms a row to an absolute deadline, so that lanes need no cores; as an expression
(`laneshift_cost`), as a Python function that takes rows, and as one that takes pandas series of at
most 20 rows. *Burns*: {COST_US / 1000:g} ms a row of a Python loop, on two real cores. *Nothing*: a
Python function that returns its argument. Sides take turns in one JVM, each run a new query: stock,
so many lanes, and *jar alone*, which has laneshift on and nothing configured. Real-time Mode:
rows that the sink gets in 10 s of one batch from a source without pacing; ages at half of what
stock takes, from the time a row is due to its arrival in the sink. Micro-batch: rows of a batch
over its time, the median of a run's later ones. A round before those that count warms up."""
HEADER = ("case", "side", "rows/s", "x stock", "p50, ms", "p99, ms")


@dataclass(frozen=True)
class Case:
    """A function of rows, on so many cores.

    Attributes:
        lanes: of the side with lanes; 0: none.
        goals: the least of rows/s over stock's, by side.
        rate: rows/s at which ages are measured, 0: not.
        batch: rows of a micro-batch, 0: Real-time Mode.
    """

    name: str
    cores: int
    build: Build
    lanes: int
    goals: Mapping[str, float]
    rate: int = 0
    batch: int = 0

    @property
    def sides(self) -> list[Side]:
        """Stock first."""
        more = [elastic(self.lanes, 1)] if self.lanes else []
        return [stock(1), *more, alone(1)]


def waits(key: int) -> int:
    """One row."""
    wait(COST_US, 1)
    return key


def _function(of: Callable[[int], int], rows: DataFrame) -> DataFrame:
    return rows.select(sf.udf(of, "long")(sf.col("key")).alias("key"), "event_time")


def _burns(turns: int, key: int) -> int:
    burn(turns, 1)
    return key


def same(key: int) -> int:
    """Nothing."""
    return key


def _pandas(rows: DataFrame) -> DataFrame:
    def waiting(keys: pd.Series) -> pd.Series:
        wait(COST_US, len(keys))
        return keys

    function = sf.pandas_udf(waiting, "long")  # type: ignore[call-overload]
    return rows.select(function(sf.col("key")).alias("key"), "event_time")


def _expression(rows: DataFrame) -> DataFrame:
    cost = sf.expr(f"laneshift_cost(key, {COST_US}, 'wait')").alias("key")
    return rows.select(cost, "event_time")


def cases() -> list[Case]:
    """By cores of their session."""
    burning = partial(_burns, turns_of(COST_US))
    python = partial(_function, waits)
    eight = {f"{LANES} lanes": 7.0, "jar alone": 4.0}
    two = {"2 lanes": 1.6, "jar alone": 1.3}
    return [
        Case("expression waits, Real-time", LANES, _expression, LANES, eight, rate=500),
        Case("Python waits, Real-time", LANES, python, LANES, eight, rate=500),
        Case("pandas waits, Real-time", LANES, _pandas, LANES, eight, rate=500),
        Case("Python waits, micro-batch", LANES, python, LANES, eight, batch=8000),
        Case("Python burns, Real-time", 2, partial(_function, burning), 2, two),
        Case("Python burns, micro-batch", 2, partial(_function, burning), 2, two, batch=4000),
        Case("nothing, Real-time", 2, partial(_function, same), 0, {"jar alone": 0.97}, rate=2000),
        Case("nothing, micro-batch", 2, partial(_function, same), 0, {"jar alone": 0.97},
             batch=200_000),
    ]  # fmt: skip


def run(
    quick: bool, only: Sequence[str] = (), rounds: int | None = None, add: Path | None = None
) -> Report:
    """All cases, or those whose names begin with one of ``only``.

    Args:
        add: results of an earlier run, whose other cases are kept.
    """
    chosen = [c for c in cases() if not only or c.name.startswith(tuple(only))]
    turns = rounds or (1 if quick else 3)
    steps = sum((turns + 1) * len(c.sides) for c in chosen)
    progress = Progress("rowwise", steps)
    report = Report("rowwise", "Row-wise work over lanes", METHOD, HEADER, data=kept(add))
    settings = {"spark.sql.execution.arrow.maxRecordsPerBatch": "20"}
    for cores, group in groupby(chosen, lambda c: c.cores):
        with session(cores, settings) as (spark, work):
            for case in group:
                report.data[case.name] = _compare(spark, work, case, turns, quick, progress)
    for case in cases():
        if case.name in report.data:
            _add(report, case)
    return report


def _compare(
    spark: SparkSession, work: Path, case: Case, rounds: int, quick: bool, progress: Progress
) -> dict[str, Any]:
    rates: dict[str, list[float]] = {side.name: [] for side in case.sides}
    ages: dict[str, list[Measurement]] = {side.name: [] for side in case.sides}
    for number in range(rounds + 1):
        for side in in_turn(case.sides, number):
            progress.step(f"{case.name}, {side.name}, {f'round {number}' if number else 'warm-up'}")
            rate = _rate(spark, work, case, side, quick)
            age = _age(spark, work, case, side, quick) if case.rate and number else None
            progress.note(f"{rate:,.0f} rows/s" + (f", {age.line}" if age else ""))
            if number:
                rates[side.name].append(rate)
                ages[side.name] += [age] if age else []
    found: dict[str, Any] = {
        name: {"rows_per_s": each, "latency": [asdict(m) for m in ages[name]]}
        for name, each in rates.items()
    }
    return found | {"ran": ran_now()}


def _add(report: Report, case: Case) -> None:
    """The table's lines and the goals of one case."""
    found = report.data[case.name]
    for name in (side.name for side in case.sides):
        rates, late = found[name]["rows_per_s"], found[name]["latency"]
        ratio = Ratio.of(rates, found["stock"]["rows_per_s"])
        report.rows.append([
            case.name, name, spread(rates), "" if name == "stock" else str(ratio),
            *_ages(case, late),
        ])  # fmt: skip
        if (goal := case.goals.get(name)) is not None:
            report.goals.append(Goal(f"{case.name}: {name} x stock", ratio.median, ">=", goal))
        others = found["stock"]["latency"]
        if late and len(late) == len(others) and name != "stock":
            p99 = [[m["all"]["p99_ms"] for m in each] for each in (late, others)]
            more = Ratio.of(*p99)
            report.goals.append(Goal(f"{case.name}: {name}, p99 / stock", more.median, "<=", 1.05))


def _ages(case: Case, late: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    if not case.rate:
        return "", ""
    if not late:
        return "none came", "none came"
    p50, p99 = ([m["all"][figure] for m in late] for figure in ("p50_ms", "p99_ms"))
    return spread(p50), spread(p99)


def _rate(spark: SparkSession, work: Path, case: Case, side: Side, quick: bool) -> float:
    source = SOURCE | {"pacing": "none"}
    if case.batch:
        source |= {"rowsPerBatch": case.batch}
        with running(spark, work, side, source, case.build, trigger=None, mode="append") as run:
            rate = batch_rate(run, case.batch, *((1, 2) if quick else (2, 4)))
            run.require_rows(case.batch, f"{case.name}, {side.name}")
            return rate
    source |= {"totalRows": ENDLESS}
    with running(spark, work, side, source, case.build, trigger="30 seconds") as run:
        return run.measure(*((4, 8) if quick else (8, 10))).rows_per_s


def _age(
    spark: SparkSession, work: Path, case: Case, side: Side, quick: bool
) -> Measurement | None:
    """None if nothing came: stock's Python workers answer when a buffer of 64 KiB is full."""
    source = SOURCE | {"rowsPerSecond": case.rate}
    try:
        with running(spark, work, side, source, case.build, trigger="30 seconds") as run:
            return run.measure(*((4, 8) if quick else (8, 10)))
    except BenchmarkError:
        if side.options:
            raise
        return None
