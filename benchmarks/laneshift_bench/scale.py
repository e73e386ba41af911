"""Scale: what a thousand elastic partitions hold and cost, and what watching them takes.

Each side's query runs in a process of its own, so that what one holds is not counted for another.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

from google.protobuf.message import Message
from pyspark.sql import SparkSession

from laneshift.autoscale.loop import AutoscaleLoop
from laneshift.plugin.gateway import Py4jGateway
from laneshift.plugin.wire import M
from laneshift.policies import registry
from laneshift_bench.memory import HISTORIES
from laneshift_bench.pairs import Ratio, in_turn, spread
from laneshift_bench.progress import Progress
from laneshift_bench.query import BenchmarkError, Running, batch_ms, counting, running
from laneshift_bench.report import Goal, Report
from laneshift_bench.session import jvm_pid, session
from laneshift_bench.sides import Side, alone, stock

CORES = 2
WIDE = 1_000
INSIDE = 25
HEAP = "4g"
BATCHES, FIRST = 7, 3
"""Of a run, and those left out: in a JVM that warms up two of them said nothing of the others."""
SETTINGS = HISTORIES | {
    "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "true",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
METHOD = f"""\
On {CORES} cores, each run a process of its own, in turn, every other round backwards: stock, the
jar with nothing configured, and the same beside an autoscaler. *Wide*: micro-batches of {WIDE:,}
map tasks and {WIDE:,} state partitions, whose lanes are chosen by what the maps have told: the
median of {BATCHES} of them without the first {FIRST}, in which the JVM warms up. The autoscaler
(policy `elasticutor`) looks once a second: CPU of its thread and calls of the gateway a turn, of
turns that ended with a decision. When the source has ended, *heap* is what is in use after two full
collections. *Overload*: Real-time Mode, {INSIDE} state partitions in one task and a source without
pacing; *switches* are voluntary context switches a second of laneshift's threads,
/proc."""
SIDES = ("stock", "jar alone", "autoscaler")
HEADER = ("figure", *SIDES, "jar alone / stock", "autoscaler / stock")


def run(quick: bool) -> Report:
    """The whole benchmark."""
    rounds = 1 if quick else 3
    progress = Progress("scale", rounds * 4)
    report = Report("scale", "A thousand elastic partitions", METHOD, HEADER)
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    for number in range(rounds):
        for side in in_turn(SIDES, number + 1):
            progress.step(f"wide, {side}, round {number + 1}")
            one = _child("wide", side, quick, progress)
            found.setdefault("wide", {}).setdefault(side, []).append(one)
        progress.step(f"overload, round {number + 1}")
        one = _child("overload", "jar alone", quick, progress)
        found.setdefault("overload", {}).setdefault("jar alone", []).append(one)
    wide = found["wide"]
    for figure, words in (("heap_mb", "heap at rest, MB"), ("batch_ms", "batch, ms")):
        sides = [[one[figure] for one in wide[side]] for side in SIDES]
        ratios = [Ratio.of(values, sides[0]) for values in sides[1:]]
        report.rows.append([words, *map(spread, sides), *map(str, ratios)])
        if figure == "heap_mb":
            more = median(a - b for a, b in zip(sides[1], sides[0], strict=True))
            report.goals.append(Goal("heap, jar alone - stock, MB", more, "<=", 30.0))
        else:
            report.goals.append(Goal("batch, jar alone / stock", ratios[0].median, "<=", 1.02))
    for each, figure, words, bound in (
        (wide["autoscaler"], "turn_ms", "CPU of a turn, ms", 50.0),
        (wide["autoscaler"], "calls", "calls of a turn", 3.0),
        (found["overload"]["jar alone"], "switches", "switches a second", 5_000.0),
    ):
        values = [one[figure] for one in each]
        report.rows.append([words, "", "", spread(values), "", ""])
        report.goals.append(Goal(words, median(values), "<=", bound))
    report.data = found
    return report


def _child(case: str, side: str, quick: bool, progress: Progress) -> dict[str, float]:
    """What a process of its own has found."""
    command = [sys.executable, str(Path(__file__).parent.parent / "run.py"), "scale-child"]
    command += [case, side, "--quick" if quick else "--full"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        raise BenchmarkError(f"{case}, {side!r}: the process failed with {done.returncode}.")
    one: dict[str, float] = json.loads(lines[-1])
    progress.note(", ".join(f"{figure} {value:,.0f}" for figure, value in one.items()))
    return one


def child(case: str, side: str, quick: bool) -> None:
    """The body of such a process: prints what it has found as a line of JSON."""
    slots = 4 if case == "overload" else CORES
    with session(slots, SETTINGS, memory=HEAP) as (spark, work):
        wide = case == "wide"
        found = _wide(spark, work, side, quick) if wide else _overload(spark, work, quick)
    print(json.dumps(found), flush=True)


def _wide(spark: SparkSession, work: Path, name: str, quick: bool) -> dict[str, float]:
    side = stock(WIDE) if name == "stock" else alone(WIDE)
    batches, first = (2, 1) if quick else (BATCHES, FIRST)
    rows = 200 * WIDE
    source = {"keys": 100_000, "zipf": 0.5, "rowBytes": 0, "numPartitions": WIDE,
              "pacing": "none", "rowsPerBatch": rows, "totalRows": batches * rows}  # fmt: skip
    found: dict[str, float] = {}
    with running(spark, work, side, source, counting, trigger=None) as run:
        if name == "autoscaler":
            turns = _turns(Counted(spark), run, batches)
            found["turn_ms"] = median(cpu for cpu, _ in turns)
            found["calls"] = max(calls for _, calls in turns)
        found["batch_ms"] = median(batch_ms(run, first, batches - first))
        found["heap_mb"] = _heap_mb(spark)
    return found


class Counted(Py4jGateway):
    """The gateway of a session, that counts its calls."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark)
        self.calls = 0

    def ask(self, method: str, request: Message, reply: type[M]) -> M:
        self.calls += 1
        return super().ask(method, request, reply)


def _turns(gateway: Counted, run: Running, batches: int) -> list[tuple[float, int]]:
    """CPU (ms) and calls of turns, once a second, that ended with a decision."""
    autoscaler = AutoscaleLoop(gateway, registry.policy("elasticutor"))
    found = []
    while sum(bool(p.numInputRows) for p in run.query.recentProgress) < batches:
        run.check()
        gateway.calls = 0
        began_s = time.thread_time()
        said = autoscaler.turn()
        took_s = time.thread_time() - began_s
        if said:
            found.append((1000 * took_s, gateway.calls))
        time.sleep(1)
    if not found:
        raise BenchmarkError("No turn has measured anything.")
    return found[1:] or found


def _overload(spark: SparkSession, work: Path, quick: bool) -> dict[str, float]:
    side = Side("one task", {"tasks": "1", "lanes": "1"}, INSIDE)
    source = {"keys": 10_000, "zipf": 0.5, "rowBytes": 0, "pacing": "none", "totalRows": 10**12}
    with running(spark, work, side, source) as run:
        time.sleep(5 if quick else 15)
        run.check()
        began, before = time.monotonic(), _switches(jvm_pid(spark))
        time.sleep(5 if quick else 20)
        run.check()
        after, took = _switches(jvm_pid(spark)), time.monotonic() - began
    return {"switches": sum(after[t] - before.get(t, 0) for t in after) / took}


def _switches(pid: int) -> dict[str, int]:
    """Voluntary context switches of each of laneshift's threads; Linux only."""
    found = {}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError):  # it has ended
            words = (line.split(":", 1) for line in (thread / "status").read_text().splitlines())
            status = {word: value.strip() for word, value in words}
            if status["Name"].startswith("laneshift"):
                found[thread.name] = int(status["voluntary_ctxt_switches"])
    if not found:
        raise BenchmarkError("No thread of the process is laneshift's.")
    return found


def _heap_mb(spark: SparkSession) -> float:
    """In use after two full collections (MB), the least of three readings."""
    jvm: Any = spark._jvm
    readings = []
    for _ in range(3):
        for _ in range(2):
            jvm.java.lang.System.gc()
        runtime = jvm.java.lang.Runtime.getRuntime()
        readings.append((int(runtime.totalMemory()) - int(runtime.freeMemory())) / 1e6)
        time.sleep(1)
    return min(readings)
