"""State partitions in fewer tasks than there are: what a batch costs, and how old answers get."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession

from laneshift_bench.measure import Measurement
from laneshift_bench.pairs import Ratio, in_turn, spread
from laneshift_bench.progress import Progress
from laneshift_bench.query import batch_ms, running
from laneshift_bench.report import Goal, Report
from laneshift_bench.session import session
from laneshift_bench.sides import Side, alone, stock

CORES = 2
SLOTS = 4
SOURCE: dict[str, object] = {"keys": 10_000, "zipf": 0, "rowBytes": 8, "numPartitions": 2}
RATE = 1000
METHOD = f"""\
Counts per key. *Micro-batches* on {CORES} cores, without pause: stock Spark gives each state
partition a task; the other sides compute the same partitions in so many tasks, with a lane each but
for *jar alone*, which has nothing configured. Time of a batch: the median of a run's later ones.
*Real-time Mode*, {RATE} rows/s from one source partition, {SLOTS} slots beside the source's:
{SLOTS} state partitions of stock Spark in as many tasks, and 64 in as many, which stock Spark
refuses to start there; ages from the time a row is due to its arrival in the sink. Sides take turns
in one JVM, each run a new query; a round before those that count warms up."""
HEADER = ("case", "side", "tasks", "batch, ms", "x stock", "p50, ms", "p99, ms")


def grouped(partitions: int, tasks: int | str) -> Side:
    """So many tasks for so many state partitions, one lane each."""
    options = {"tasks": str(tasks), "lanes": "1"}
    return Side(f"{partitions} partitions, {tasks} tasks", options, partitions)


BATCHES: tuple[tuple[str, int, int, tuple[Side, ...], float], ...] = (
    (
        "16 partitions",
        200_000,
        5,
        (stock(16), grouped(16, 2), grouped(16, "auto"), alone(16)),
        0.95,
    ),
    ("200 partitions", 24_000, 2, (stock(200), grouped(200, 2), alone(200)), 0.95),
)
REAL_TIME = (stock(SLOTS), grouped(64, SLOTS))


def run(quick: bool, only: Sequence[str] = (), rounds: int | None = None) -> Report:
    """All cases, or those whose names begin with one of ``only``."""
    turns = rounds or (1 if quick else 3)
    cases = [c for c in BATCHES if not only or c[0].startswith(tuple(only))]
    real = not only or "Real-time".startswith(tuple(only))
    sides = sum(len(c[3]) for c in cases) + (len(REAL_TIME) if real else 0)
    progress = Progress("tasks", sides * (turns + 1))
    report = Report("tasks", "State partitions in fewer tasks", METHOD, HEADER)
    if cases:
        with session(CORES) as (spark, work):
            for case in cases:
                _batches(spark, work, case, turns, quick, progress, report)
    if real:
        with session(SLOTS + 1) as (spark, work):
            _real_time(spark, work, turns, quick, progress, report)
    return report


def _batches(
    spark: SparkSession, work: Path, case: tuple[str, int, int, tuple[Side, ...], float],
    rounds: int, quick: bool, progress: Progress, report: Report,
) -> None:  # fmt: skip
    name, rows, batches, sides, goal = case
    took: dict[str, list[float]] = {side.name: [] for side in sides}
    source = SOURCE | {"pacing": "none", "rowsPerBatch": rows}
    for number in range(rounds + 1):
        for side in in_turn(sides, number):
            progress.step(f"{name}, {side.name}, {f'round {number}' if number else 'warm-up'}")
            with running(spark, work, side, source, trigger=None) as run:
                times = batch_ms(run, 2, 1 if quick else batches)
            found = median(times)
            progress.note(f"{found:,.0f} ms")
            if number:
                took[side.name].append(found)
    for side in sides:
        ratio = Ratio.of(took[side.name], took["stock"])
        report.rows.append([
            name, side.name,
            side.options.get("tasks", "auto" if side.options else str(side.partitions)),
            spread(took[side.name]), "" if side.name == "stock" else str(ratio), "", "",
        ])  # fmt: skip
        if side.name != "stock":
            report.goals.append(
                Goal(f"{name}: {side.name}, time / stock", ratio.median, "<=", goal)
            )
    report.data[name] = took


def _real_time(
    spark: SparkSession, work: Path, rounds: int, quick: bool, progress: Progress, report: Report
) -> None:
    ages: dict[str, list[Measurement]] = {side.name: [] for side in REAL_TIME}
    source = SOURCE | {"rowsPerSecond": RATE, "numPartitions": 1}
    for number in range(rounds + 1):
        for side in in_turn(REAL_TIME, number):
            progress.step(f"Real-time, {side.name}, {f'round {number}' if number else 'warm-up'}")
            with running(spark, work, side, source, trigger="40 seconds") as run:
                found = run.measure(*((5, 8) if quick else (10, 15)))
            progress.note(found.line)
            if number:
                ages[side.name].append(found)
    for side in REAL_TIME:
        all_of = [m.all for m in ages[side.name]]
        report.rows.append([
            "Real-time", side.name, str(SLOTS), "", "", spread([a.p50_ms for a in all_of]),
            spread([a.p99_ms for a in all_of]),
        ])  # fmt: skip
    few, many = ([m.all.p99_ms for m in ages[side.name]] for side in REAL_TIME)
    p99 = Ratio.of(many, few)
    report.goals.append(Goal("Real-time: 64 partitions, p99 / 4 of stock", p99.median, "<=", 1.15))
    report.data["Real-time"] = {name: [asdict(m) for m in found] for name, found in ages.items()}
