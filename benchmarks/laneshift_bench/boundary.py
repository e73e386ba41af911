"""How long rows stand still between two batches of Real-time Mode."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession

from laneshift_bench.pairs import Ratio, in_turn, spread
from laneshift_bench.progress import Progress
from laneshift_bench.query import running
from laneshift_bench.report import Goal, Report
from laneshift_bench.session import session
from laneshift_bench.sides import Side, alone, stock

GOAL_MS = 100
LAP_S = 6.0
SIDES = (stock(), alone())
SOURCE = {"keys": 1000, "zipf": 0, "rowBytes": 8, "rowsPerSecond": 2000, "numPartitions": 1}
METHOD = f"""\
Counts of 1,000 keys in Real-time Mode, a batch every 5 s, 2,000 rows/s, one source and two state
partitions, checkpoint on a local disk. Of each {LAP_S:g} s, so of one or two boundaries, the
longest time from when a row was due to its arrival in the sink: that of the first row that nobody
read while a batch ended. Sides take turns in one JVM, each run a new query after a warm-up of each.
*Files by processes*: Hadoop without its native library, as PySpark has it from a package, which
starts `chmod` and `readlink` for each file of a checkpoint on a local disk. *Files*: without these,
as with the library or on the file systems of clusters."""
FILES = {"files": False, "files by processes": True}


def run(quick: bool) -> Report:
    """The whole benchmark."""
    rounds, laps = (1, 2) if quick else (3, 10)
    progress = Progress("boundary", len(FILES) * len(SIDES) * (rounds + 1))
    header = ("checkpoint", "side", "median, ms", "longest, ms", "x stock")
    report = Report("boundary", "Between two batches of Real-time Mode", METHOD, header)
    for name, forks in FILES.items():
        with session(slots=8, forks=forks) as (spark, work):
            found: list[list[list[float]]] = [[] for _ in SIDES]
            for number in range(rounds + 1):
                for side, waits in in_turn(list(zip(SIDES, found, strict=True)), number):
                    what = f"round {number}" if number else "warm-up"
                    progress.step(f"{name}, {side.name}, {what}")
                    each = _longest(spark, work, side, laps if number else 1)
                    progress.note(f"{median(each):,.0f} ms")
                    if number:
                        waits.append(each)
        usual = [[median(one) for one in waits] for waits in found]
        ratio = Ratio.of(usual[1], usual[0])
        longest = [max(max(one) for one in waits) for waits in found]
        for at, side in enumerate(SIDES):
            times = str(ratio) if at else ""
            report.rows.append([name, side.name, spread(usual[at]), f"{longest[at]:,.0f}", times])
        report.goals.append(Goal(f"{name}: jar alone x stock", ratio.median, "<=", 1.05))
        report.goals.append(Goal(f"{name}: longest, ms", longest[1], "<=", GOAL_MS))
        report.data[name] = {side.name: one for side, one in zip(SIDES, found, strict=True)}
    return report


def _longest(spark: SparkSession, work: Path, side: Side, laps: int) -> list[float]:
    """The longest wait of a row (ms) in each lap."""
    with running(spark, work, side, SOURCE, trigger="5 seconds") as run:
        time.sleep(LAP_S)
        run.meter.lap()
        found = []
        for _ in range(laps):
            time.sleep(LAP_S)
            run.check()
            found.append(run.meter.lap()[1].max_ms)
        return found
