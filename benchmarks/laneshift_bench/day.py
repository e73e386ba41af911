"""A day in half an hour, with noise and three incidents: what keeps its target, and on how much."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyspark
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from laneshift import attach
from laneshift.api.application import Application
from laneshift.api.autoscaler import Autoscaler
from laneshift.session.options import OPTIONS
from laneshift_bench.offered import Oracle, Stages, held_core_seconds, missed
from laneshift_bench.pictures import Line, Panel, over_time
from laneshift_bench.processes import executors
from laneshift_bench.progress import Progress
from laneshift_bench.query import BenchmarkError, as_side
from laneshift_bench.report import Goal, Report
from laneshift_bench.session import SEED, session
from laneshift_bench.sides import Side, stock

FloatArray = NDArray[np.float64]
SECONDS, QUICK_SECONDS = 1800.0, 300.0
STEPS = 144
"""Of ten minutes of the day each."""
RATE, SWING, NOISE = 400.0, 0.75, 0.1
COST_US = 3000
TRIGGER_S = 5.0
EXECUTORS, CORES, SLOTS = 2, 8, 32
PARTITIONS, KEYS = 4, 200
HOT_SHARE, BURST = 0.4, 3.0
TARGET, FIXED_S = 0.8, 0.5
LIMIT_S = 2 * TRIGGER_S
LEAD_S = 15.0
TAIL_S = 3 * TRIGGER_S
"""After a day, more than the limit: what is not answered then is late."""
LAP_S = 0.5
BUSY = 1.5
"""Load of the machine, in the median, above which it is the machine that is measured."""
POLICIES = ("elasticutor", "laneshift")
Sided = tuple[Side, str | None]
"""A side, and the policy that drives it."""
INCIDENTS = {"hot key": (9.0, 10.0), "burst": (14.0, 14 + 2 / 3), "lost executor": (19.0, 19.5)}
"""Hours of the day; an executor is lost at once, and its hours are those in which that is seen."""
METHOD = f"""\
24 hours in half an hour: {RATE:,.0f} rows/s on average, from a quarter of that at night to seven
quarters at noon in {STEPS} steps, each of them {NOISE:.0%} more or less by chance (standard
deviation, seed {SEED}). From 9 to 10 o'clock {HOT_SHARE:.0%} of all rows have one key, from 14 to
14:40 {BURST:g} times as many rows come, at 19 o'clock one of {EXECUTORS} executor processes is
killed (and started again by Spark). Counts of {KEYS} keys, micro-batches every {TRIGGER_S:g} s, on
`local-cluster`. Each row waits {COST_US / 1000:g} ms (`laneshift_cost` in mode `wait`) behind the
shuffle by key and before it is counted, so where its state is, and needs no core for that. Sides
run at the same time in one application, so that what happens to the machine happens to all, each
with its own query and {EXECUTORS * CORES} emulated cores; with `--together` so many at a time.

*stock*: a state partition for each core. All others: {PARTITIONS} partitions. *peak*: as many lanes
all day as the greatest load of the day needs, by arithmetic, in each partition. Policies have their
documented defaults. The *oracle* knows the load: for each batch the fewest lanes with which it
takes {TARGET:.0%} of the interval, {FIXED_S:g} s of which no lane makes shorter. *Core-hours* are
lanes held (stock's: its partitions), for a day of 24 hours. A row's latency is from when it is due
to the end of the batch that has it, over all rows of the day; *late* are those above {LIMIT_S:g} s,
and those without an answer {TAIL_S:g} s after the day has ended, which count with that age.
*Missed* triggers passed while a batch still ran. *Back* is how long after an incident begins the
last batch begins that takes longer than the interval, in seconds of the run."""
HEADER = (
    "side", "core-hours", "/ peak", "/ oracle", "late rows", "p50, s", "p99, s", "longest, s",
    "missed", *(f"{name}: back, s" for name in INCIDENTS),
)  # fmt: skip


@dataclass(frozen=True)
class Day:
    """The load of a day that takes ``seconds``."""

    seconds: float

    def at(self, hour: float) -> float:
        """Seconds after the first row was due."""
        return hour / 24 * self.seconds

    def window(self, incident: str) -> tuple[float, float]:
        """Begin and end of an incident (s)."""
        begin, end = INCIDENTS[incident]
        return self.at(begin), self.at(end)

    @property
    def stages(self) -> Stages:
        """(rows/s, s), one after the other."""
        hours = (np.arange(STEPS) + 0.5) * 24 / STEPS
        chance = np.random.default_rng(SEED).normal(1.0, NOISE, STEPS).clip(0.5, 1.5)
        rates = RATE * (1 - SWING * np.cos(2 * np.pi * hours / 24)) * chance
        begin, end = INCIDENTS["burst"]
        rates[(hours >= begin) & (hours < end)] *= BURST
        return tuple((float(rate), self.seconds / STEPS) for rate in rates)

    @property
    def rows(self) -> int:
        """That are due in the day."""
        return int(sum(rate * seconds for rate, seconds in self.stages))

    def oracle(self, hot: bool) -> Oracle:
        """With even partitions, or with the hot key in the first."""
        rest = (1 - HOT_SHARE * hot) / PARTITIONS
        shares = (rest + HOT_SHARE * hot, *(rest,) * (PARTITIONS - 1))
        return Oracle(
            self.stages, TRIGGER_S, COST_US / 1e6, shares, EXECUTORS * CORES, TARGET, FIXED_S
        )

    def needed(self) -> NDArray[np.int64]:
        """The oracle's lanes of all partitions in each batch, int64 (batches,)."""
        even, hot = self.oracle(False).lanes(), self.oracle(True).lanes()
        begin, end = self.window("hot key")
        # A batch reads what has come in the interval before it.
        times = (np.arange(len(even)) + 1) * TRIGGER_S
        return np.where((times > begin) & (times <= end + TRIGGER_S), hot, even)

    def due_at(self, rows: FloatArray) -> FloatArray:
        """When the row with each number is due (s), float64 as ``rows``."""
        ends = np.cumsum([0.0, *(seconds for _, seconds in self.stages)])
        upto = np.cumsum([0.0, *(rate * seconds for rate, seconds in self.stages)])
        # The last stage goes on.
        more = ends[-1] + (rows - upto[-1]) / self.stages[-1][0]
        inside: FloatArray = np.interp(rows, upto, ends)
        return np.where(rows > upto[-1], more, inside)

    def source(self, start_s: float) -> dict[str, object]:
        """Options of the workload source whose first row is due at ``start_s``."""
        *first, (rate, seconds) = self.stages
        steps = [*first, (rate, seconds + 3600)]
        return {
            "keys": KEYS, "zipf": 0, "rowBytes": 0, "numPartitions": 2, "seed": SEED,
            "rate": "stage",
            "rateStages": ",".join(f"{r:.3f}:{round(1000 * s)}ms" for r, s in steps),
            "startTime": _iso(start_s),
        }  # fmt: skip

    def build(self, rows: DataFrame, start_s: float, partitions: int) -> DataFrame:
        """The query with so many state partitions; for an hour many of the rows are one key's.

        The shuffle is asked for, and is the one that the counts need: so rows can be paid for one
        by one between the two, which nothing above an aggregation can do in a micro-batch.
        """
        begin, end = (sf.lit(_iso(start_s + at)).cast("timestamp") for at in self.window("hot key"))
        hot = (sf.col("event_time") >= begin) & (sf.col("event_time") < end)
        hot &= sf.col("value") < round(HOT_SHARE * 1_000_000)
        key = sf.when(hot, sf.lit(0)).otherwise(sf.col("key"))
        cost = sf.expr(f"laneshift_cost(value, {COST_US}, 'wait')").alias("value")
        keyed = rows.select(key.alias("key"), "value", "event_time").repartition(partitions, "key")
        return (
            keyed.select("key", cost, "event_time")
            .groupBy("key")
            .agg(
                sf.count("*").alias("n"),
                sf.max("value").alias("most"),
                sf.max("event_time").alias("event_time"),
            )
        )


def _iso(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds")


@dataclass
class Lived:
    """One side's day; times are seconds after the first row was due.

    Attributes:
        held: (time, lanes) whenever somebody looked.
        batches: (begin, duration, rows) of each that had rows.
    """

    held: list[tuple[float, int]] = field(default_factory=list)
    batches: list[tuple[float, float, int]] = field(default_factory=list)

    def latency_s(self, day: Day, until_s: float | None = None) -> FloatArray:
        """Of every row, float64 (rows,), in the order of the rows.

        With ``until_s``, of those of the day alone; one without an answer has the age that it had
        then.
        """
        rows = np.array([n for _, _, n in self.batches])
        ends = np.repeat([begin + took for begin, took, _ in self.batches], rows)
        if until_s is not None:
            ends = np.append(ends, np.full(max(0, day.rows - len(ends)), until_s))[: day.rows]
        found: FloatArray = ends - day.due_at(np.arange(len(ends), dtype=np.float64))
        return found

    def back_s(self, day: Day, incident: str) -> float:
        """How long after an incident began the last late batch began; 0 without one.

        Of what begins before the next incident, or four hours of the day later.
        """
        begin, _ = day.window(incident)
        later = [day.window(other)[0] for other in INCIDENTS]
        until = min([at for at in later if at > begin] + [begin + day.at(4)])
        late = [at for at, took, _ in self.batches if begin <= at < until and took > TRIGGER_S]
        return max(late, default=begin) - begin

    def figures(self, day: Day) -> dict[str, Any]:
        """What the table shows, and what led to it."""
        latency = self.latency_s(day, day.seconds + TAIL_S)
        answered = sum(n for _, _, n in self.batches)
        p50, p99, most = (float(x) for x in np.percentile(latency, (50, 99, 100)))
        return {
            "core_hours": held_core_seconds(self.held, 0, day.seconds, EXECUTORS * CORES)
            / day.seconds * 24,
            "late": float((latency > LIMIT_S).mean()),
            "p50_s": p50, "p99_s": p99, "longest_s": most, "rows": len(latency),
            "unanswered": max(0, day.rows - answered),
            "missed": missed([1000 * took for _, took, _ in self.batches], TRIGGER_S),
            "back_s": {name: self.back_s(day, name) for name in INCIDENTS},
            "batches": [(round(at, 2), round(took, 2), n) for at, took, n in self.batches],
            "held": [(round(at, 1), lanes) for at, lanes in thinned(self.held)],
        }  # fmt: skip


def thinned(held: Sequence[tuple[float, int]]) -> list[tuple[float, int]]:
    """Only where the number of lanes changes."""
    kept: list[tuple[float, int]] = []
    for at, lanes in held:
        if not kept or kept[-1][1] != lanes:
            kept.append((at, lanes))
    return kept


@dataclass
class Running:
    """A side that runs: its query and, if a policy drives it, its autoscaler."""

    name: str
    query: StreamingQuery
    app: Application | None
    autoscaler: Autoscaler | None
    lived: Lived = field(default_factory=Lived)

    def look(self, at_s: float) -> None:
        """Note the lanes that it holds now."""
        if not self.query.isActive:
            raise BenchmarkError(f"The query of {self.name} has ended: {self.query.exception()}")
        lanes = EXECUTORS * CORES
        if self.app is not None:
            mine = [q for q in self.app.snapshot().queries if q.run_id == str(self.query.runId)]
            lanes = sum(o.lanes for q in mine for o in q.operators if o.operator_id < 1000)
        if lanes:
            self.lived.held.append((at_s, lanes))

    def finish(self, start_s: float) -> None:
        """Take what was measured."""
        for progress in self.query.recentProgress:
            if progress.numInputRows:
                begun = datetime.fromisoformat(progress.timestamp).timestamp() - start_s
                took = progress.durationMs["triggerExecution"] / 1000
                self.lived.batches.append((begun, took, progress.numInputRows))
        if self.autoscaler is not None:
            failed = [d.error for d in self.autoscaler.decisions(limit=100_000) if d.error]
            if not self.autoscaler.is_running or len(failed) > 3:
                raise BenchmarkError(f"{self.name}: {len(failed)} turns failed: {failed[:1]}")


def sides(day: Day, policies: Sequence[str]) -> list[Sided]:
    """What runs, and the policy that drives it."""
    peak = max(day.oracle(False).peak, day.oracle(True).at_rate(RATE * (1 + SWING)))
    most = str(min(OPTIONS["max_lanes"].values["high"], EXECUTORS * CORES - PARTITIONS + 1))

    def elastic(name: str, lanes: int) -> Side:
        return Side(name, {"lanes": str(lanes), "maxLanes": most}, PARTITIONS)

    found: list[Sided] = [
        (stock(EXECUTORS * CORES), None),
        (elastic("peak", min(peak, EXECUTORS * CORES // PARTITIONS)), "static"),
    ]
    return found + [(elastic(policy, 1), policy) for policy in policies]


@contextmanager
def started(
    spark: SparkSession, work: Path, day: Day, side: Side, policy: str | None, start_s: float
) -> Iterator[Running]:
    """A side's query and autoscaler, until the end of the block."""
    reader = spark.readStream.format("laneshift-workload")
    for option, setting in day.source(start_s).items():
        reader = reader.option(option, str(setting))
    with as_side(spark, side):
        rows = day.build(reader.load(), start_s, side.partitions)
        written = rows.writeStream.format("noop").outputMode("update")
        written = written.option("checkpointLocation", str(work / side.name))
        query = (
            written.queryName(side.name).trigger(processingTime=f"{TRIGGER_S:g} seconds").start()
        )
    app = attach(spark) if side.options else None
    autoscaler = app.query(query).autoscale(policy=policy, cores=CORES) if app and policy else None
    try:
        yield Running(side.name, query, app, autoscaler)
    finally:
        if autoscaler is not None:
            autoscaler.stop()
        query.stop()


def kill_executor(application: str) -> int:
    """Kill one executor process of the application, the one started last; its process id."""
    found = executors(application)
    if not found:
        raise BenchmarkError(f"No executor process of {application} was found.")
    pid = found[max(found, key=int)]
    os.kill(pid, signal.SIGKILL)
    return pid


def groups_of(sides: Sequence[Sided], together: int) -> list[Sequence[Sided]]:
    """Sides in groups of so many that run at the same time; the last may have fewer."""
    return [sides[at : at + together] for at in range(0, len(sides), together)]


def run(
    quick: bool, policies: Sequence[str] = (), seconds: float | None = None,
    together: int | None = None,
) -> Report:  # fmt: skip
    """The whole benchmark, all sides at a time or ``together`` of them."""
    day = Day(seconds or (QUICK_SECONDS if quick else SECONDS))
    every = sides(day, policies or POLICIES)
    groups = groups_of(every, together or len(every))
    progress = Progress("day", 24 * len(groups))
    progress.note(f"This takes about {len(groups) * (day.seconds + 60) / 60:.0f} minutes.")
    report = Report("day", "A day in half an hour", METHOD, HEADER)
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    lived: dict[str, Lived] = {}
    load: list[float] = []
    for group in groups:
        lived |= _days(day, group, progress, load)
    if len(groups) > 1:
        report.notes.append(f"{together} sides at a time, each group in an application of its own.")
    _tell(report, day, lived, load)
    return report


def _days(
    day: Day, group: Sequence[Sided], progress: Progress, load: list[float]
) -> dict[str, Lived]:
    """The day of sides that live it together; the machine's load on the way goes to ``load``."""
    settings = {
        "spark.master": f"local-cluster[{EXECUTORS},{SLOTS},2048]",
        "spark.executor.memory": "2000m",
        "spark.scheduler.mode": "FAIR",
    }
    with session(slots=1, settings=settings) as (spark, work), ExitStack() as stack:
        # A trigger is due at whole multiples of its interval.
        start_s = math.ceil((time.time() + LEAD_S) / TRIGGER_S) * TRIGGER_S
        running = [
            stack.enter_context(started(spark, work, day, side, policy, start_s))
            for side, policy in group
        ]
        application = str(spark.sparkContext.applicationId)
        _live_through(day, running, start_s, application, progress, load)
        for one in running:
            one.finish(start_s)
    return {one.name: one.lived for one in running}


def _live_through(
    day: Day, running: Sequence[Running], start_s: float, application: str, progress: Progress,
    load: list[float],
) -> None:  # fmt: skip
    lost_s, _ = day.window("lost executor")
    killed, hours = False, 0
    pause = threading.Event()
    while (at_s := time.time() - start_s) < day.seconds + TAIL_S:
        if hours < 24 and at_s >= hours * day.seconds / 24:
            progress.step(f"{', '.join(one.name for one in running)}: {hours}:00")
            hours += 1
            load.append(os.getloadavg()[0])
        if at_s >= lost_s and not killed:
            progress.note(f"killed executor process {kill_executor(application)}")
            killed = True
        for one in running:
            one.look(at_s)
        pause.wait(LAP_S)


def _tell(report: Report, day: Day, lived: dict[str, Lived], load: Sequence[float]) -> None:
    needed = day.needed()
    oracle = float(needed.sum()) * TRIGGER_S / day.seconds * 24
    found = {name: one.figures(day) for name, one in lived.items()}
    for name, one in found.items():
        hours = one["core_hours"]
        report.rows.append(
            [
                name, f"{hours:,.0f}", f"{hours / found['peak']['core_hours']:.2f}",
                f"{hours / oracle:.2f}", f"{one['late']:.2%}", f"{one['p50_s']:.1f}",
                f"{one['p99_s']:.1f}", f"{one['longest_s']:.1f}", str(one["missed"]),
                *(f"{one['back_s'][each]:.0f}" for each in INCIDENTS),
            ]
        )  # fmt: skip
    report.data |= {"oracle_core_hours": oracle, "seconds": day.seconds, "sides": found}
    report.notes.append(f"The oracle has {oracle:,.0f} core-hours. {day.seconds:g} s are a day.")
    if "laneshift" in found:
        mine = found["laneshift"]
        ratio = mine["core_hours"] / found["peak"]["core_hours"]
        report.goals.append(Goal("laneshift: core-hours / peak", ratio, "<=", 0.7))
        report.goals.append(Goal("laneshift: late rows, %", 100 * mine["late"], "<=", 2.0))
    middle = float(np.median(load)) if load else 0.0
    report.data["load"] = {"median": round(middle, 2), "most": max(load, default=0.0)}
    report.goals.append(Goal("load of the machine, median", middle, "<=", BUSY))
    report.files["day.png"] = lambda file: _draw(day, lived, needed, file)


def _draw(day: Day, lived: dict[str, Lived], needed: NDArray[np.int64], file: Path) -> None:
    edges = np.cumsum([0.0, *(seconds for _, seconds in day.stages)])
    offered = np.repeat(edges, 2)[1:-1], np.repeat([rate for rate, _ in day.stages], 2)
    times = np.arange(len(needed) + 1) * TRIGGER_S
    oracle = np.repeat(times, 2)[1:-1], np.repeat(needed.astype(np.float64), 2)

    def steps(held: Sequence[tuple[float, int]]) -> Line:
        return np.array([at for at, _ in held]), np.array([n for _, n in held], dtype=np.float64)

    def worst(one: Lived) -> Line:
        ends = np.array([at + took for at, took, _ in one.batches])
        first = np.cumsum([0] + [n for _, _, n in one.batches])[:-1].astype(np.float64)
        return ends, ends - day.due_at(first)

    panels = (
        Panel("Rows per second", {}, {"offered": offered}),
        Panel("Lanes (stock: partitions)", {n: steps(x.held) for n, x in lived.items()},
              {"oracle": oracle}),
        Panel("Age of a batch's oldest row when it is answered, s",
              {n: worst(x) for n, x in lived.items()},
              {"late": (times[[0, -1]], np.array([LIMIT_S, LIMIT_S]))}, log=True),
    )  # fmt: skip
    over_time(file, "A day: hot key at 9, burst at 14, an executor lost at 19 o'clock", panels)
