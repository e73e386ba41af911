"""Policies on micro-batches: lane changes, missed triggers, core-seconds; what users try first."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import SparkSession

from laneshift import attach
from laneshift.api.application import Application
from laneshift.api.autoscaler import Autoscaler
from laneshift.policies import registry
from laneshift.session.options import OPTIONS
from laneshift_bench.auto_cases import costly, thinned
from laneshift_bench.costs import wait
from laneshift_bench.hot import Hot
from laneshift_bench.looking import looking
from laneshift_bench.measure import Measurement
from laneshift_bench.offered import (
    DAY_STEPS,
    SHAPES,
    Oracle,
    Stages,
    batches_until,
    constant,
    held_core_seconds,
    missed,
)
from laneshift_bench.operators import python
from laneshift_bench.progress import Progress
from laneshift_bench.query import BenchmarkError, Build, Running, running
from laneshift_bench.report import Goal, Report, kept, ran_now
from laneshift_bench.salting import salted
from laneshift_bench.session import session
from laneshift_bench.sides import Side, alone

LOADS = ("constant", "burst", "day", "hot", "skew")
TRIGGERS = (1.0, 5.0, 30.0)
USUAL = ("static", "elasticutor", "laneshift")
COST_US, RATE = 1500, 1200.0
"""1.8 cores' worth of rows: with 4 lanes a batch takes about half of a trigger of 5 s."""
CORES, PARTITIONS = 16, 2
HOT_CORES, HOT_PARTITIONS, HOT_TIMES, HOT_RATE = 4, 50, 20, 1600.0
SKEW_CORES, SKEW_ZIPF, SKEW_KEYS, SKEW_RATE, SKEW_US = 8, 1.0, 500, 5000.0, 400
SALTS = 8
KEYS, HOT_KEYS = 1_000_000, 600_000
"""So many that rows of a batch seldom share a key, and a batch's work is that of its rows."""
TARGET, FIXED_S = 0.8, 0.3
"""What counts as right: at most so much of the interval for a batch, of which so much is fixed."""
TAIL_S = 3600.0
LEAD_S = 3.0
LAP_S = 0.25
SETTLE_S, SETTLE_BATCHES = 20.0, 5
METHOD = f"""\
Micro-batches at a processing-time trigger, in one JVM with emulated cores: each answer waits
(`laneshift_cost` in mode `wait`, to a deadline), so that lanes need no real ones. *constant*:
{RATE:,.0f} rows/s of {COST_US / 1000:g} ms each, {RATE * COST_US / 1e6:g} cores' worth,
{PARTITIONS} state partitions, at most {CORES} lanes in all, counts per key of so many keys that
nearly every row has an answer of its own. *burst*: four times that for a fifth of the time. *day*:
a quarter to seven quarters of it, from night to night in {DAY_STEPS} steps. *hot*: {HOT_PARTITIONS}
partitions on {HOT_CORES} cores, one with {HOT_TIMES} times the rows of each other one,
{HOT_RATE:,.0f} rows/s. *skew*: {SKEW_RATE:,.0f} rows/s of {SKEW_US} microseconds in
`applyInPandasWithState`, keys by Zipf {SKEW_ZIPF:g}, {SKEW_CORES} cores: stock Spark with 1, 4 and
8 partitions a core, and with {SALTS} salts a key (parts of answers, which its reader adds up),
beside laneshift.

Policies begin with one lane a partition and have their documented defaults, with a turn a second;
*static* has the lanes that are right for the load's first stage from the start, *peak* those for
its greatest. The *oracle* knows the load: for each batch the fewest lanes with which it takes
{TARGET:.0%} of its interval, {FIXED_S:g} s of which no lane makes shorter. *Changes* are partitions
whose lanes a policy changes; *settled*: later than {SETTLE_BATCHES} batches and {SETTLE_S:g} s.
*Missed* triggers passed while a batch still ran. *Core-s* are lanes held over the run's time,
stock's the cores that its tasks may have; */ static*, */ peak* and */ oracle* compare them with
arithmetic. *Batch* is the median, *most* the longest. *p50* and *p99* are those of all rows, from
due to the sink, so waiting for the trigger is in them. *Burst* says in which batch after the load
rises the lanes are the oracle's, and in which after it falls they are no more than its."""
HEADER = (
    "load", "trigger, s", "side", "changes", "settled", "missed", "core-s", "/ static", "/ peak",
    "/ oracle", "batch, ms", "most, ms", "p50, s", "p99, s", "burst: up, down",
)  # fmt: skip


@dataclass(frozen=True)
class Load:
    """One load at one trigger.

    Attributes:
        name: of `LOADS`.
        trigger_s: from one batch to the next.
        stages: rows/s that the query gets, over time.
        cores: emulated.
        oracle: what is right.
        build: the query.
        source: options of the workload source, beside those of time.
        scale: rows of the source for each one that the query gets.
    """

    name: str
    trigger_s: float
    stages: Stages
    cores: int
    oracle: Oracle
    build: Build
    source: dict[str, object]
    scale: float = 1.0

    @property
    def seconds(self) -> float:
        """Of a run."""
        return sum(seconds for _, seconds in self.stages)

    @property
    def settle_s(self) -> float:
        """When it counts as settled."""
        return max(SETTLE_S, SETTLE_BATCHES * self.trigger_s)

    @property
    def part(self) -> str:
        """In data."""
        return f"{self.name}, {self.trigger_s:g} s"

    @property
    def partitions(self) -> int:
        """State partitions."""
        return len(self.oracle.shares)

    def options(self, start_s: float) -> dict[str, object]:
        """Of the source whose first row is due at ``start_s``."""
        *first, (rate, seconds) = self.stages
        stages = [*first, (rate, seconds + TAIL_S)]
        steps = ",".join(f"{r * self.scale:.3f}:{round(1000 * s)}ms" for r, s in stages)
        start = datetime.fromtimestamp(start_s, UTC).isoformat(timespec="milliseconds")
        return self.source | {"rate": "stage", "rateStages": steps, "startTime": start}


def load_of(name: str, trigger_s: float, seconds: float) -> Load:
    """A load by its name."""
    counts: dict[str, object] = {"keys": KEYS, "zipf": 0, "rowBytes": 0, "numPartitions": 2}
    if name in SHAPES:
        stages = SHAPES[name](RATE, seconds)
        even = (1 / PARTITIONS,) * PARTITIONS
        oracle = Oracle(stages, trigger_s, COST_US / 1e6, even, CORES, TARGET, FIXED_S)
        return Load(name, trigger_s, stages, CORES, oracle, partial(costly, COST_US), counts)
    if name == "hot":
        hot = Hot(HOT_PARTITIONS, HOT_TIMES, HOT_PARTITIONS // 2)
        stages = constant(HOT_RATE, seconds)
        shares = tuple(hot.work.tolist())
        oracle = Oracle(stages, trigger_s, COST_US / 1e6, shares, HOT_CORES, TARGET, FIXED_S)
        build = partial(thinned, hot, partial(costly, COST_US))
        source = counts | {"keys": round(HOT_KEYS / hot.kept)}
        return Load(name, trigger_s, stages, HOT_CORES, oracle, build, source, 1 / hot.kept)
    stages = constant(SKEW_RATE, seconds)
    even = (1 / PARTITIONS,) * PARTITIONS
    oracle = Oracle(stages, trigger_s, SKEW_US / 1e6, even, SKEW_CORES, TARGET, FIXED_S)
    source = counts | {"keys": SKEW_KEYS, "zipf": SKEW_ZIPF}
    build = partial(python, partial(wait, SKEW_US))
    return Load(name, trigger_s, stages, SKEW_CORES, oracle, build, source)


@dataclass(frozen=True)
class Contender:
    """A side: its session's settings, the policy that drives it, if any, and its query."""

    side: Side
    policy: str | None
    build: Build

    @property
    def name(self) -> str:
        """In tables."""
        return self.side.name


def contenders(load: Load, policies: Sequence[str]) -> list[Contender]:
    """Who runs a load, the policies among them; stock comes with skew alone, where it matters."""
    parts, cores, oracle = load.partitions, load.cores, load.oracle
    # With more partitions than cores, the lanes of those that run may be all there are.
    most = min(OPTIONS["max_lanes"].values["high"], cores if parts > cores else cores - parts + 1)

    def fixed(name: str, lanes: int, policy: str | None = "static") -> Contender:
        options = {"lanes": str(lanes), "maxLanes": str(max(most, lanes))}
        return Contender(Side(name, options, parts), policy, load.build)

    found = []
    if load.name in ("hot", "skew"):
        found.append(Contender(Side("stock", {}, cores if load.name == "skew" else parts), None,
                               load.build))  # fmt: skip
    if load.name == "skew":
        for times in (4, 8):
            side = Side(f"stock, {times} a core", {}, times * cores)
            found.append(Contender(side, None, load.build))
        side = Side(f"stock, {SALTS} salts", {}, cores)
        found.append(Contender(side, None, partial(salted, SALTS, load.build)))
        found.append(Contender(Side("jar alone", alone(cores).options, cores), None, load.build))
    for policy in policies:
        right = min(oracle.first, most) if load.name != "hot" else 1
        found.append(fixed(policy, right if policy == "static" else 1, policy))
    if load.name in ("burst", "day"):
        found.append(fixed("peak", min(oracle.peak, most)))
    return found


@dataclass
class Watched:
    """One run; times are seconds after the first row was due."""

    start_s: float
    held: list[tuple[float, int]] = field(default_factory=list)
    batches: list[tuple[float, float]] = field(default_factory=list)
    """(begin in s, duration in ms) of those with rows."""
    changes: list[float] = field(default_factory=list)
    latency: Measurement | None = None

    def lanes_at(self, at_s: float) -> int:
        """Lanes held at a time."""
        return next((lanes for time_s, lanes in reversed(self.held) if time_s <= at_s), 0)

    def in_batches(self) -> list[tuple[float, int]]:
        """(begin in s, lanes at its end) of each batch."""
        return [(begin, self.lanes_at(begin + ms / 1000)) for begin, ms in self.batches]

    def figures(self, load: Load) -> dict[str, Any]:
        """What the table shows, and what led to it."""
        inside = [ms for begin, ms in self.batches if begin <= load.seconds]
        if not inside:
            raise BenchmarkError(f"{load.part}: no batch with rows ended in {load.seconds:g} s.")
        # A batch that has not ended by then has let triggers pass, too.
        begin, ms = max(self.batches)
        running_s = max(0.0, load.seconds - begin - ms / 1000)
        settled = sum(load.settle_s < at <= load.seconds for at in self.changes)
        assert self.latency is not None
        up = down = None
        if load.name == "burst":
            rise, fall = 0.4 * load.seconds, 0.6 * load.seconds
            oracle, runs = load.oracle, self.in_batches()
            # A batch reads what came before it: the first that begins later than the rise.
            needed = int(oracle.needed(load.stages[1][0] * load.trigger_s).sum())
            calm = int(oracle.needed(load.stages[0][0] * load.trigger_s).sum())
            during = [each for each in runs if each[0] < fall]
            up = batches_until(during, rise + 0.5 * load.trigger_s, min(needed, load.cores))
            down = batches_until(runs, fall + 0.5 * load.trigger_s, calm, at_most=True)
        return {
            "changes": len([at for at in self.changes if at <= load.seconds]),
            "changes_settled": settled,
            "missed": missed(inside, load.trigger_s) + int(running_s / load.trigger_s),
            "core_seconds": held_core_seconds(self.held, 0.0, load.seconds, load.cores),
            "batch_ms": inside,
            "latency": asdict(self.latency.all),
            "up": up,
            "down": down,
            "held": [(round(at, 2), lanes) for at, lanes in self.held],
        }


@dataclass
class Watch:
    """A query that runs, with its autoscaler."""

    load: Load
    running: Running
    app: Application | None
    autoscaler: Autoscaler | None
    run: Watched
    cores: int

    def look(self) -> None:
        """Note the lanes that it holds now."""
        self.running.check()
        lanes = self.cores if self.app is None else self.running.lanes(self.app)
        # None are told of before the first batch has begun.
        if lanes:
            self.run.held.append((time.time() - self.run.start_s, lanes))

    def finish(self) -> None:
        """Take what was measured."""
        run, query = self.run, self.running.query
        run.latency = self.running.meter.read()
        for progress in query.recentProgress:
            if progress.numInputRows:
                begun = datetime.fromisoformat(progress.timestamp).timestamp()
                run.batches.append((begun - run.start_s, progress.durationMs["triggerExecution"]))
        if self.autoscaler is not None:
            if not self.autoscaler.is_running:
                raise BenchmarkError(f"The autoscaler {self.autoscaler.policy} has ended.")
            self.autoscaler.stop()
            decisions = self.autoscaler.decisions(limit=10_000)
            failed = [d.error for d in decisions if d.error]
            if failed:
                raise BenchmarkError(f"{len(failed)} turns failed, the first by: {failed[0]}")
            for one in decisions:
                run.changes += [one.time_s - run.start_s] * len(one.changes) * one.applied


@contextmanager
def watching(spark: SparkSession, work: Path, load: Load, who: Contender) -> Iterator[Watch]:
    """Start a query and its autoscaler; the first row is due when a trigger is."""
    begin = time.time() + LEAD_S
    start_s = math.ceil(begin / load.trigger_s) * load.trigger_s
    # Of Spark's schedule all are whole multiples of the interval.
    every = f"{round(1000 * load.trigger_s)} milliseconds"
    source = load.options(start_s)
    with running(spark, work, who.side, source, who.build, None, every=every) as query:
        app = autoscaler = None
        elastic = bool(who.side.options)
        if elastic:
            app = attach(spark)
        if app is not None and who.policy is not None:
            autoscaler = app.query(query.query).autoscale(policy=who.policy, cores=load.cores)
        cores = min(load.cores, who.side.partitions)
        try:
            yield Watch(load, query, app, autoscaler, Watched(start_s), cores)
        finally:
            if autoscaler is not None:
                autoscaler.stop()


def watch(spark: SparkSession, work: Path, load: Load, who: Sequence[Contender]) -> list[Watched]:
    """Run some contenders at the same time, each with cores of its own."""
    with ExitStack() as stack:
        # Looked at from its own start on: the last of many starts minutes after the first.
        watches: list[Watch] = []
        wait = stack.enter_context(looking(watches, LAP_S))
        for one in who:
            watches.append(stack.enter_context(watching(spark, work, load, one)))
        # The last batch of the load begins at its end.
        end_s = max(w.run.start_s for w in watches) + load.seconds + 0.9 * load.trigger_s
        wait(end_s - time.time())
        for each in watches:
            each.finish()
        return [one.run for one in watches]


def plans(
    loads: Sequence[str], triggers: Sequence[float], seconds: float | None, quick: bool
) -> list[Load]:
    """The loads that are to run: a day takes ten minutes, all others five."""
    found = []
    for name in loads or LOADS:
        chosen = triggers or (TRIGGERS if name == "constant" and not quick else (5.0,))
        for trigger_s in chosen:
            usual = 60.0 if quick else 600.0 if name == "day" else 300.0
            found.append(load_of(name, trigger_s, seconds or usual))
    return found


def run(
    quick: bool, loads: Sequence[str] = (), policies: Sequence[str] = (),
    triggers: Sequence[float] = (), seconds: float | None = None, together: int = 1,
    add: Path | None = None,
) -> Report:  # fmt: skip
    """The whole benchmark, or what is chosen of it.

    Args:
        policies: names, or ``all``; none for the usual ones.
        together: queries at a time, each with its own emulated cores.
        add: results of an earlier run, whose other parts are kept.
    """
    sizing = tuple(n for n in registry.names() if not registry.policy_class(n).distributes)
    names = sizing if "all" in policies else tuple(policies) or USUAL
    for name in names:
        registry.policy_class(name)
    every = plans(loads, triggers, seconds, quick)
    report = Report("microbatch", "Policies on micro-batches", METHOD, HEADER, data=kept(add))
    for load in every:
        before = report.data.get(load.part, {"seconds": load.seconds})["seconds"]
        if before != load.seconds:
            raise BenchmarkError(
                f"{load.part} has runs of {before:g} s in {add}, and not of {load.seconds:g} s: "
                "give --seconds as then, or leave --add out."
            )
    ran = ran_now()
    sides = {load.part: contenders(load, names) for load in every}
    progress = Progress("microbatch", sum(map(len, sides.values())))
    total_s = sum((x.seconds + 2 * x.trigger_s) * len(sides[x.part]) / together for x in every)
    progress.note(f"This takes about {total_s / 60 + 2:.0f} minutes.")
    for cores, group in groupby(every, lambda load: load.cores):
        with session(cores * together) as (spark, work):
            for number, load in enumerate(group):
                if number == 0:
                    _warm_up(spark, work, load)
                part = report.data.setdefault(load.part, {})
                part["oracle_core_seconds"] = load.oracle.core_seconds()
                part["peak_core_seconds"] = _fixed(load, load.oracle.peak)
                part["static_core_seconds"] = _fixed(load, load.oracle.first)
                part["seconds"] = load.seconds
                runs = part.setdefault("sides", {})
                who_all = sides[load.part]
                for at in range(0, len(who_all), together):
                    some = who_all[at : at + together]
                    progress.step(f"{load.part}: {', '.join(one.name for one in some)}")
                    for who, one in zip(some, watch(spark, work, load, some), strict=True):
                        runs[who.name] = one.figures(load) | {"ran": ran}
                        progress.note(_words(who.name, runs[who.name]))
    report.rows += table(report.data)
    report.goals += goals(report.data)
    report.notes += notes(report.data)
    return report


def _fixed(load: Load, lanes: int) -> float:
    """Core-seconds of so many lanes in every partition for the whole run."""
    return min(lanes * load.partitions, load.cores) * load.seconds


def _warm_up(spark: SparkSession, work: Path, like: Load) -> None:
    """So that a JVM that begins is on no side."""
    short = load_of(like.name, 2.0, 10.0)
    who = contenders(short, ("static",))
    for one in (who[0], who[-1]):
        watch(spark, work, short, [one])


def _words(name: str, figures: dict[str, Any]) -> str:
    return (
        f"{name}: {figures['changes']} changes, {figures['changes_settled']} settled, "
        f"{figures['missed']} missed, {figures['core_seconds']:,.0f} core-s, "
        f"batch {median(figures['batch_ms']):,.0f} ms"
    )


def table(data: dict[str, Any]) -> list[list[str]]:
    """The table's lines from what was measured, now or in earlier runs."""
    rows = []
    for part, found in data.items():
        name, trigger = part.split(", ")
        for side, one in found["sides"].items():
            held = one["core_seconds"]
            against = [found[f"{x}_core_seconds"] for x in ("static", "peak", "oracle")]
            rows.append(
                [
                    name,
                    trigger.removesuffix(" s"),
                    side,
                    str(one["changes"]),
                    str(one["changes_settled"]),
                    str(one["missed"]),
                    f"{held:,.0f}",
                    *(f"{held / each:.2f}" for each in against),
                    f"{median(one['batch_ms']):,.0f}",
                    f"{max(one['batch_ms']):,.0f}",
                    f"{one['latency']['p50_ms'] / 1000:.2f}",
                    f"{one['latency']['p99_ms'] / 1000:.2f}",
                    f"{one['up'] or 'never'}, {one['down'] or 'never'}" if name == "burst" else "",
                ]
            )
    return rows


def goals(data: dict[str, Any]) -> list[Goal]:
    """What policies are to do under a constant load, and in a burst."""
    found = []
    for part, one in data.items():
        sides = one["sides"]
        if part.startswith("constant"):
            for side, figures in sides.items():
                settled = figures["changes_settled"]
                if side != "static":
                    found.append(Goal(f"{part}: {side}, changes settled", settled, "<=", 1))
        if part.startswith(("constant", "burst")) and "laneshift" in sides:
            ours = sides["laneshift"]
            if part.startswith("constant"):
                share = ours["core_seconds"] / one["oracle_core_seconds"]
                found.append(Goal(f"{part}: laneshift, core-s / oracle", share, "<=", 1.15))
            else:
                up, down = (ours[way] or math.inf for way in ("up", "down"))
                found.append(Goal(f"{part}: laneshift, up in batch", up, "<=", 2))
                found.append(Goal(f"{part}: laneshift, down in batch", down, "<=", 5))
    return found


def notes(data: dict[str, Any]) -> list[str]:
    """What each part ran on, its sides on other days too, and its oracle."""
    return [
        f"{part}: {found['seconds']:g} s a run; core-seconds of the oracle "
        f"{found['oracle_core_seconds']:,.0f}, of the lanes right for the first stage "
        f"{found['static_core_seconds']:,.0f}, for the greatest {found['peak_core_seconds']:,.0f}. "
        f"{_ran(found['sides'])}."
        for part, found in data.items()
    ]


def _ran(sides: dict[str, Any]) -> str:
    by_commit: dict[str, list[str]] = {}
    for side, one in sides.items():
        by_commit.setdefault(one["ran"].partition(" at ")[2], []).append(side)
    last = {commit: max(sides[s]["ran"] for s in names) for commit, names in by_commit.items()}
    if len(last) == 1:
        return "".join(last.values())
    return "; ".join(f"{', '.join(names)}: {last[commit]}" for commit, names in by_commit.items())
