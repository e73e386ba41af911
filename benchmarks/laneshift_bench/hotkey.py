"""A key hotter than a core: row-wise work above its state over lanes, and what finding it costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from laneshift_bench.pairs import Ratio, in_turn, spread
from laneshift_bench.progress import Progress
from laneshift_bench.query import ENDLESS, Build, counting, running
from laneshift_bench.report import Goal, Report
from laneshift_bench.session import FLIGHT, session
from laneshift_bench.sides import Side, alone, elastic, stock

COST_US = 1000
LANES = 8
HOT = 6
METHOD = f"""\
Real-time Mode, one state partition: rows are counted by key, and each output of that waits
{COST_US / 1000:g} ms (`laneshift_cost`), so that lanes need no cores. *Uniform*: 1,000 keys alike.
*Hot*: {10 * HOT} % of the rows have one key. Sides take turns in one JVM, each run a new query with
batches of 5 s: stock; {LANES} lanes whose row-wise work stays with the state (`hotKeys.spread` is
`false`); {LANES} lanes with it apart (`true`); as decided by measurements (`auto`), with {LANES}
lanes and *jar alone*, which has nothing configured. Rows that the sink gets of a source without
pacing, after a warm-up of several batches; what may be on its way to the state task is bounded, on
all sides, so that batches end in time: what is decided takes effect with the next one. *Sketch*:
the same counts without any wait, on one lane, with and without the hottest keys being found
(`hotKeys.show` is `hashes` or `none`)."""
HEADER = ("case", "side", "rows/s", "of its uniform", "x stock")
TIMES = (
    ("uniform", f"{LANES} lanes, false", 6.0),
    ("hot", f"{LANES} lanes, auto", 5.0),
    ("uniform", "jar alone", 4.0),
    ("hot", "jar alone", 4.0),
)
"""Case, side, and the least of its rate over stock's."""
SOURCE = {"keys": 1000, "zipf": 0, "rowBytes": 100, "numPartitions": 1, "pacing": "none"}


def _waiting(rows: DataFrame) -> DataFrame:
    wait = sf.expr(f"laneshift_cost(n, {COST_US}, 'wait')").alias("n")
    return counting(rows).select("key", wait, "event_time")


def _hot(rows: DataFrame) -> DataFrame:
    key = sf.when(sf.col("seq") % 10 < HOT, sf.lit(-1)).otherwise(sf.col("key"))
    return _waiting(rows.withColumn("key", key))


def _with(side: Side, name: str, **options: str) -> Side:
    return replace(side, name=name, options=side.options | options)


def sides() -> list[Side]:
    """Stock first."""
    lanes = elastic(LANES, 1)
    spreads = {word: {"hotKeys.spread": word} for word in ("false", "true", "auto")}
    return [
        stock(1),
        *(_with(lanes, f"{LANES} lanes, {word}", **options) for word, options in spreads.items()),
        alone(1),
    ]


def run(quick: bool, only: Sequence[str] = (), rounds: int | None = None) -> Report:
    """All cases, or those in ``only``."""
    builds: dict[str, Build] = {"uniform": _waiting, "hot": _hot}
    cases = {name: build for name, build in builds.items() if not only or name in only}
    rounds = rounds or (1 if quick else 3)
    report = Report("hotkey", "A key hotter than a core", METHOD, HEADER)
    found: dict[tuple[str, str], list[float]] = {}
    progress = Progress("hotkey", rounds * len(cases) * len(sides()) + 6)
    with session(LANES + 2, FLIGHT) as (spark, work):
        for number in range(1, rounds + 1):
            for case, build in cases.items():
                for side in in_turn(sides(), number):
                    progress.step(f"{case}, {side.name}")
                    rate = _rate(spark, work, side, build, *((22, 6) if quick else (40, 15)))
                    progress.note(f"{rate:,.0f} rows/s")
                    found.setdefault((case, side.name), []).append(rate)
    if not only or "sketch" in only:
        # One task for rows, one for state.
        with session(2) as (spark, work):
            _sketch(spark, work, rounds, quick, progress, report)
    _compare(found, report)
    report.data["rows_per_s"] = {f"{case}, {name}": r for (case, name), r in found.items()}
    return report


def _compare(found: dict[tuple[str, str], list[float]], report: Report) -> None:
    for (case, name), rates in found.items():
        even = found.get(("uniform", name))
        of_uniform = str(Ratio.of(rates, even)) if even else ""
        of_stock = Ratio.of(rates, found[case, "stock"])
        report.rows.append([case, name, spread(rates), of_uniform, str(of_stock)])
    if not {case for case, _ in found} >= {"uniform", "hot"}:
        return
    kept = found["uniform", f"{LANES} lanes, false"]
    for case, name, least in TIMES:
        times = Ratio.of(found[case, name], found[case, "stock"]).median
        report.goals.append(Goal(f"{case}, {name}: x stock", times, ">=", least))
    for word in ("true", "auto"):
        name = f"{LANES} lanes, {word}"
        share = Ratio.of(found["hot", name], kept).median
        report.goals.append(Goal(f"hot, {name}: x uniform", share, ">=", 0.85))
    same = Ratio.of(found["uniform", f"{LANES} lanes, auto"], kept).median
    report.goals.append(Goal("uniform, auto: x kept with the state", same, ">=", 0.97))


def _rate(
    spark: SparkSession, work: Path, side: Side, build: Build, warm_s: float, seconds: float
) -> float:
    source = SOURCE | {"totalRows": ENDLESS}
    with running(spark, work, side, source, build, trigger="5 seconds") as run:
        return run.measure(warm_s, seconds).rows_per_s


def _sketch(
    spark: SparkSession, work: Path, rounds: int, quick: bool, progress: Progress, report: Report
) -> None:
    lane = elastic(1, 1)
    rates: dict[str, list[float]] = {"none": [], "hashes": []}
    for number in range((2 if quick else rounds) + 1):
        for shown, found in rates.items():
            progress.step(f"sketch, {shown}, {f'round {number}' if number else 'warm-up'}")
            side = _with(lane, f"show {shown}", **{"hotKeys.show": shown})
            rate = _rate(spark, work, side, counting, *((5, 10) if quick else (8, 20)))
            progress.note(f"{rate:,.0f} rows/s")
            if number:
                found.append(rate)
    for shown, found in rates.items():
        report.rows.append(["sketch", f"1 lane, {shown}", spread(found), "", ""])
    kept = Ratio.of(rates["hashes"], rates["none"])
    report.goals.append(Goal("sketch: rows/s x without", kept.median, ">=", 0.99))
    report.data["sketch"] = rates
