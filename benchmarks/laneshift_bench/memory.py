"""Memory: what an elastic query needs at rest, and whether anything grows under constant motion.

Each query runs in a process of its own with a fixed heap, all of whose pages are touched at the
start: what then changes in the resident set is native memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import SparkSession

from laneshift_bench.pairs import Ratio, spread
from laneshift_bench.progress import Progress
from laneshift_bench.query import BenchmarkError, running
from laneshift_bench.report import Goal, Report
from laneshift_bench.session import jvm_pid, session
from laneshift_bench.sides import Side, elastic, stock

HEAP = "1g"
JAVA = f"-Xms{HEAP} -XX:+AlwaysPreTouch"
MOTION = Side(
    "motion", {"lanes": "3", "maxLanes": "5", "motion": "always", "motion.interval": "5ms"}
)
# Spark keeps a history of a thousand SQL executions, jobs and stages for its UI, whether that is
# on or not, and of batches: with the defaults they alone grow for as long as this takes.
HISTORIES = {
    "spark.sql.ui.retainedExecutions": "20",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
}
SIDES = {s.name: s for s in (stock(), elastic(1), elastic(4), MOTION)}
METHOD = f"""\
At rest: Real-time Mode, counts of 100,000 keys at 1,000 rows/s after {{warm}} s at full speed,
a process for each run, in turn: stock (no plugin), 1 lane, 4 lanes. The heap is {HEAP}, fixed
and touched at the start, so the RSS outside of it is native memory. *heap* is what is in use
after two full collections (median of 5), *RSS* all of the JVM's resident memory, *native* RSS
less the heap. Under motion: micro-batches of 2,000 rows with `motion=always` in one process;
flat means that the last quarter's median exceeds the second quarter's by at most 5 %."""


@dataclass(frozen=True, slots=True)
class Memory:
    """One reading: batches so far, heap in use after a full collection, RSS (MB), threads."""

    batches: int
    heap_mb: float
    rss_mb: float
    native_mb: float
    threads: int


def run(quick: bool) -> Report:
    """The whole benchmark."""
    rounds, batches = (1, 60) if quick else (3, 500)
    at_rest = ["stock", "1 lane", "4 lanes"]
    progress = Progress("memory", rounds * len(at_rest) + 1)
    header = ("figure", *at_rest, "1 lane / stock", "4 / stock")
    report = Report("memory", "Memory", METHOD.format(warm=_warm_s(quick)), header)
    found: dict[str, list[Memory]] = {name: [] for name in at_rest}
    for number in range(rounds):
        for name in at_rest:
            progress.step(f"at rest, {name}, round {number + 1}")
            found[name].append(_last(name, 0, quick, progress))
    for figure in ("heap_mb", "rss_mb", "native_mb", "threads"):
        values = {name: [float(getattr(m, figure)) for m in found[name]] for name in at_rest}
        ratios = [Ratio.of(values[name], values["stock"]) for name in at_rest[1:]]
        report.rows.append(
            [
                figure.replace("_mb", ", MB"),
                *(spread(values[n]) for n in at_rest),
                *map(str, ratios),
            ]
        )
        if figure != "threads":
            report.goals += [
                Goal(f"at rest, {figure}: {n} / stock", r.median, "<=", 1.05)
                for n, r in zip(at_rest[1:], ratios, strict=True)
            ]
    progress.step(f"{batches} batches under motion")
    readings = list(_child("motion", batches, quick, progress))
    for figure in ("heap_mb", "native_mb", "threads"):
        series = [float(getattr(m, figure)) for m in readings]
        quarter = max(1, len(series) // 4)
        growth = median(series[-quarter:]) / median(series[quarter : 2 * quarter])
        report.goals.append(Goal(f"under motion, {figure}: end / beginning", growth, "<=", 1.05))
        report.notes.append(
            f"{figure.replace('_mb', ', MB')} under motion, every {readings[0].batches} batches: "
            + ", ".join(f"{v:,.0f}" for v in series)
        )
    report.data = {
        "at_rest": {name: [asdict(m) for m in each] for name, each in found.items()},
        "under_motion": [asdict(m) for m in readings],
    }
    return report


def _last(name: str, batches: int, quick: bool, progress: Progress) -> Memory:
    *_, last = _child(name, batches, quick, progress)
    return last


def _child(name: str, batches: int, quick: bool, progress: Progress) -> Iterator[Memory]:
    """The readings of a process of its own."""
    command = [sys.executable, str(Path(__file__).parent.parent / "run.py"), "memory-child"]
    command += [name, str(batches), "--quick" if quick else "--full"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                reading = Memory(**json.loads(line))
                progress.note(
                    f"{reading.batches or ''} heap {reading.heap_mb} MB, RSS {reading.rss_mb} MB, "
                    f"native {reading.native_mb} MB, {reading.threads} threads"
                )
                yield reading
    if process.returncode:
        raise BenchmarkError(f"The process of side {name!r} failed with {process.returncode}.")


def child(name: str, batches: int, quick: bool) -> None:
    """The body of such a process: prints its readings as lines of JSON."""
    side = SIDES[name]
    plugin = bool(side.options)
    with session(8, HISTORIES, plugin=plugin, memory=HEAP, java=JAVA) as (spark, work):
        if batches:
            _motion(spark, work, side, batches)
        else:
            _rest(spark, work, side, quick)


def _rest(spark: SparkSession, work: Path, side: Side, quick: bool) -> None:
    source: dict[str, object] = {"keys": 100_000, "zipf": 0.5, "rowBytes": 0}
    # The first stage fills the state; then the query rests.
    rates = {"rate": "stage", "rateStages": f"20000:{_warm_s(quick)}s,1000:1h"}
    with running(spark, work, side, source | rates) as run:
        time.sleep(_warm_s(quick) + (5 if quick else 20))
        readings = []
        for _ in range(5):
            readings.append(_read(spark, 0))
            time.sleep(1)
        run.check()
    middle = {f: median(getattr(m, f) for m in readings) for f in Memory.__slots__}
    print(json.dumps(middle), flush=True)


def _motion(spark: SparkSession, work: Path, side: Side, batches: int) -> None:
    source = {"keys": 10_000, "zipf": 0.5, "rowBytes": 0, "pacing": "none", "rowsPerBatch": 2000}
    with running(spark, work, side, source, trigger=None) as run:
        every = max(1, batches // 20)
        done = 0
        while done < batches:
            run.check()
            progress = run.query.lastProgress
            if progress is not None and progress.batchId + 1 >= done + every:
                done = progress.batchId + 1
                print(json.dumps(asdict(_read(spark, done))), flush=True)
            time.sleep(0.05)


def _read(spark: SparkSession, batches: int) -> Memory:
    jvm: Any = spark._jvm
    for _ in range(2):
        jvm.java.lang.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()
    total = int(runtime.totalMemory())
    status = _status(jvm_pid(spark))
    rss = status["VmRSS"] * 1024
    return Memory(
        batches,
        round((total - int(runtime.freeMemory())) / 1e6, 1),
        round(rss / 1e6, 1),
        round((rss - total) / 1e6, 1),
        status["Threads"],
    )


def _status(pid: int) -> dict[str, int]:
    """The numbers of /proc/<pid>/status (kB, or counts); Linux only."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError as cause:
        raise BenchmarkError(
            "Memory is read from /proc, which this system does not have."
        ) from cause
    words = (line.replace(":", "").split() for line in lines)
    return {w[0]: int(w[1]) for w in words if len(w) > 1 and w[1].isdigit()}


def _warm_s(quick: bool) -> int:
    return 10 if quick else 40
