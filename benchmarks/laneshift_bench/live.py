"""Policies that drive a running query, under skew that moves: throughput and latency over time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

from laneshift import inputcheck
from laneshift_bench.bound import (
    FloatArray,
    divided,
    elastic_bound,
    owners,
    partitioned,
    taken,
    zipf_shares,
)
from laneshift_bench.driven import SETTLE_S, Run, take_turns, warm_up
from laneshift_bench.foreseen import METHOD as SIMULATED
from laneshift_bench.foreseen import Foreseen, foresee
from laneshift_bench.pairs import Ratio, spread
from laneshift_bench.pictures import Kept, Panel, lanes, latency, over_time
from laneshift_bench.progress import Progress
from laneshift_bench.report import Goal, Report
from laneshift_bench.session import FLIGHT, SEED, session
from laneshift_bench.setting import (
    INTERVAL_S,
    KEYS,
    ROW_BYTES,
    SHARDS,
    SIDES,
    STOCK,
    Setting,
)

HALF = 0.5
OVER = 1.05
QUEUED_S = 0.5
"""Of a lane. The default's many seconds of such rows would be hot and cold again while waiting."""
FULL_S = 4.0
"""Not measured after the load has risen: queues fill."""
GOAL = 0.90
BUFFER = 4 << 10
"""Bytes of a network buffer, as `FLIGHT` sets it."""
IN_SHUFFLE = 2
"""Network buffers of each source task for each partition; any partition may hold all of them."""
EMULATED = f"""\
Real-time Mode in one JVM, {KEYS:,} keys, counts per key and above them a projection in which each
row waits (`laneshift_cost` in mode `wait`, to a deadline, so that emulated cores need no real
ones); its own work comes on top. *Stock* has a state partition for each of C emulated cores, so
hash partitioning. The policies drive P state partitions of {SHARDS} shards with C lanes in all: one
lane is one core, a turn every {INTERVAL_S:g} s, never more than C, balancing inside each partition
on. *static* is the library's: the lanes of the start, C / P a partition, for the whole run (not one
core a partition: that is stock's side here). Rows carry a payload, of which each key's state keeps
the greatest. A lane's queue holds about {QUEUED_S:g} s of work, and what is on its way is bounded
in bytes for all sides: one source task, shuffle readers of 16 KB, buffers of {BUFFER >> 10} KB, of
which Spark gives a writer at least {IN_SHUFFLE} a partition. Any partition may hold them all, which
evens out some of a period's skew. Batches last 5 minutes, Spark's default, so that no run has the
pause between two batches in it. A *resource-centric* engine, which stops, repartitions its state
and starts again, is not among the sides: stock has all C partitions from the start, and Spark's
repartition cannot choose which keys share one. What such a step takes has `rescale`."""
METHOD = f"""\
{EMULATED}

Key frequencies change at random every 4 s of the source's schedule. One run has {HALF:.0%} of the
bound as its load first (latency), then {OVER:.0%} (throughput: the source is late then, and
gives what is taken). The bound is `min(C, 1/p_max)` rows per row cost: one key runs on one lane
at a time; what waits may be worked on when other keys are hot, so that a short run can come out
above it. *p99* is the median over half seconds of the 99th percentile of the rows that came in
it, from the time a row is due to its arrival in the sink; *all rows* is the 99th percentile over
all rows of the same time, in which a late half second counts with all its rows. *Lanes* are those
held on average, at half load and at full. Sides take turns, after a warm-up.

Three payloads, all else the same: none (a row has about {ROW_BYTES} bytes), 1 to 4 KB, and 4 to 8
KB, the more the longer a row takes. What is on its way to stock's partitions is bounded in bytes,
so payloads differ in the rows that wait there. If those are much work, the hot partition's rows
wait while the source goes on to the next period, in which other keys are hot: over some periods
hash partitioning is even, and late. If they are a moment's work, the hottest partition of each
period holds up all others. The notes have the arithmetic of each payload, with what the buffers
hold; what readers and sockets hold besides has not been measured.

{SIMULATED}"""
KNOWN = """\
Known of what is between live and simulated: a row's own work comes beside its wait; a side that
falls behind the schedule has longer periods between shuffles; rows on their way even periods out;
the simulator's handoffs wait until the rows before their label are worked on, laneshift's take
them along. How much each does has not been measured, and for the rest the reason is not known."""
HEADER = (
    "case", "side", "rows/s", "/ stock", "of bound", "simulated, rows/s", "p99 at half load, ms",
    "all rows", "simulated", "lanes: half", "full",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A setting whose load rises from half of the bound to above it, after ``calm_s``."""

    setting: Setting
    calm_s: float

    @classmethod
    def of(
        cls, cores: int, partitions: int, cost_us: int, zipf: float, omega: float,
        calm_s: float, full_s: float, row_bytes: int, name: str = "",
    ) -> Case:  # fmt: skip
        """Stages of ``calm_s`` and ``full_s`` seconds, each with its first seconds unmeasured."""
        rate = elastic_bound(cores, zipf_shares(KEYS, zipf)) * 1e6 / cost_us
        stages = ((HALF * rate, calm_s), (OVER * rate, full_s))
        setting = Setting(
            name=name or f"C={cores}, P={partitions}, zipf {zipf:g}", cores=cores,
            partitions=partitions, cost_us=cost_us, stages=stages, zipf=zipf, omega=omega,
            row_bytes=row_bytes, sources=1, queued_s=QUEUED_S,
        )  # fmt: skip
        return cls(setting, calm_s)

    @property
    def bound(self) -> float:
        """Rows a second."""
        shares = zipf_shares(KEYS, self.setting.zipf)
        return elastic_bound(self.setting.cores, shares) * 1e6 / self.setting.cost_us

    @property
    def calm(self) -> tuple[float, float]:
        """What is measured at half load (s)."""
        return min(SETTLE_S, 0.5 * self.calm_s), self.calm_s

    @property
    def full(self) -> tuple[float, float]:
        """What is measured above the bound (s)."""
        return self.calm_s + FULL_S, self.setting.seconds

    def words(self, run: Run) -> str:
        """What a run gave."""
        rate = run.rate(*self.full)
        return (
            f"{rate:,.0f} rows/s, {rate / self.bound:.1%} of the bound; "
            f"p99 {run.p99_ms(*self.calm):.1f} ms, over all rows {run.p99_all_ms(*self.calm):.1f}; "
            f"at most {run.most_lanes} lanes"
        )


@dataclass(frozen=True)
class Outcome:
    """All runs of a case: by side, one a round; and what was simulated."""

    case: Case
    runs: Mapping[str, Sequence[Run]]
    foreseen: Mapping[str, Foreseen]

    def rates(self, side: str) -> list[float]:
        """Rows a second above the bound, one a round."""
        return [run.rate(*self.case.full) for run in self.runs[side]]

    def row(self, side: str) -> list[str]:
        """The side's line of the table."""
        case, simulated, runs = self.case, self.foreseen[side], self.runs[side]
        rates = self.rates(side)
        against = Ratio.of(rates, self.rates(STOCK)) if STOCK in self.runs else None
        half, full = ([run.lanes(*when) for run in runs] for when in (case.calm, case.full))
        return [
            case.setting.name,
            side,
            spread(rates),
            "" if against is None or side == STOCK else f"{against.median:.2f}",
            f"{np.median(rates) / case.bound:.1%}",
            f"{simulated.rate(*case.full):,.0f}",
            spread([run.p99_ms(*case.calm) for run in runs]),
            spread([run.p99_all_ms(*case.calm) for run in runs]),
            f"{simulated.p99_ms(*case.calm):.1f}",
            f"{np.median(half):.1f}",
            f"{np.median(full):.1f}",
        ]

    def differences(self) -> str:
        """Where live and simulated throughput are more than a tenth apart, in words."""
        found = []
        for side in self.runs:
            ratio = float(np.median(self.rates(side))) / self.foreseen[side].rate(*self.case.full)
            if abs(ratio - 1) > 0.1:
                found.append(f"{side} {ratio:.2f}")
        apart = ", ".join(found) or "none"
        return f"live / simulated throughput where more than a tenth apart: {apart}"

    def add_to(self, report: Report) -> None:
        """Its lines of the table, and all that was measured."""
        report.rows += [self.row(side) for side in self.runs]
        report.data[self.case.setting.name] = self.data()

    def data(self) -> dict[str, object]:
        """For JSON."""
        case = self.case
        return {
            "bound_rows_per_s": case.bound,
            "rows_per_s": {side: self.rates(side) for side in self.runs},
            "p99_ms": {s: [r.p99_ms(*case.calm) for r in runs] for s, runs in self.runs.items()},
            "p99_all_rows_ms": {
                s: [r.p99_all_ms(*case.calm) for r in runs] for s, runs in self.runs.items()
            },
            "most_lanes": {s: [r.most_lanes for r in runs] for s, runs in self.runs.items()},
            "simulated_rows_per_s": {s: f.rate(*case.full) for s, f in self.foreseen.items()},
            "simulated_p99_ms": {s: f.p99_ms(*case.calm) for s, f in self.foreseen.items()},
            "runs": {side: [run.data() for run in runs] for side, runs in self.runs.items()},
        }

    def draw(self, file: Path) -> None:
        """Throughput, latency and lanes of the last round."""
        setting, last = self.case.setting, {side: runs[-1] for side, runs in self.runs.items()}
        held = {side: run.held() for side, run in last.items() if side != STOCK}
        panels = (
            Panel(
                "Rows per second",
                {side: run.series(1.0) for side, run in last.items()},
                {"offered": setting.offered},
            ),
            latency({side: run.p99s() for side, run in last.items()}),
            lanes(held, setting.cores, setting.seconds),
        )
        shuffled = f", shuffles every {60 / setting.omega:g} s" if setting.omega else ""
        over_time(file, setting.name + shuffled, panels)


PAYLOADS = {"none": (0, 0, 0), "middle": (1000, 2000, 4000), "large": (4000, 4000, 8000)}
"""Bytes of a row's payload in the three cases."""
LARGE = "large"


def cases(quick: bool, payload: str = LARGE) -> tuple[tuple[Case, tuple[str, ...]], ...]:
    """The cases with their sides: naive-ec differs from elasticutor in placing on nodes alone.

    Two real cores can bring their 4,000 to 8,000 rows/s at full use. A row of the large payload
    fills a network buffer; the largest, two, so that sockets hold little work, too.
    """
    inputcheck.choice("payload", payload, tuple(PAYLOADS), "Of a row.")
    times = (10.0, 12.0) if quick else (18.0, 20.0)
    large = payload == LARGE
    every = SIDES if large else (STOCK, "static", "laneshift")
    few = tuple(side for side in every if side != "naive-ec")
    loads = ((8, 2, 2000, 1.0), (32, 8, 4000, 0.8), (64, 16, 8000, 0.7))
    found = []
    for (cores, parts, cost_us, zipf), row_bytes in zip(loads, PAYLOADS[payload], strict=True):
        of = f"{row_bytes:,} bytes" if row_bytes else "no payload"
        name = f"C={cores}, P={parts}, zipf {zipf:g}, {of}"
        case = Case.of(cores, parts, cost_us, zipf, 15, *times, row_bytes, name)
        found.append((case, every if cores == 8 else few))
    return tuple(found)


def run(quick: bool, payloads: Sequence[str] = ()) -> Report:
    """The whole benchmark, or some payloads of it."""
    rounds = 1 if quick else 2
    # The cases of one number of cores side by side in the table.
    chosen = {payload: cases(quick, payload) for payload in payloads or PAYLOADS}
    every = [(payload, *one) for some in zip(*chosen.values(), strict=True)
             for payload, one in zip(chosen, some, strict=True)]  # fmt: skip
    progress = Progress("live", rounds * sum(len(sides) for _, _, sides in every))
    report = Report("live", "Policies under dynamic skew", METHOD, HEADER)
    slots = max(case.setting.slots for _, case, _ in every)
    with session(slots, FLIGHT) as (spark, work):
        warm_up(spark, work, every[0][1].setting)
        for payload, case, sides in every:
            found, kept = compare(spark, work, case, sides, rounds, progress)
            _judge(report, spark, found, payload == LARGE)
            end = "" if payload == LARGE else f"-{payload}"
            report.files[f"live-c{case.setting.cores}{end}.png"] = found.draw
            if payload == LARGE and case.setting.cores == 8:
                report.files["live-c8-laneshift.png"] = kept["laneshift"].draw
                report.files["live-c8-laneshift.trace"] = kept["laneshift"].write
    report.notes.append(KNOWN.replace("\n", " "))
    return report


def compare(
    spark: SparkSession, work: Path, case: Case, sides: Sequence[str], rounds: int,
    progress: Progress,
) -> tuple[Outcome, dict[str, Kept]]:  # fmt: skip
    """Run and simulate all sides of a case; the policies' last traces come with the outcome."""
    runs, kept = take_turns(spark, work, case.setting, sides, rounds, progress, case.words)
    return Outcome(case, runs, {side: foresee(case.setting, side) for side in sides}), kept


def _judge(report: Report, spark: SparkSession, found: Outcome, large: bool) -> None:
    """Add an outcome with its goals: arithmetic without rows that wait is for large rows only."""
    found.add_to(report)
    case, name = found.case, found.case.setting.name
    share = float(np.median(found.rates("laneshift"))) / case.bound
    ahead = Ratio.of(found.rates("laneshift"), found.rates(STOCK)).median
    foretold = arithmetic(spark, case)
    report.goals.append(Goal(f"{name}: laneshift / bound", share, ">=", GOAL))
    if large:
        by_hash = Goal(f"{name}: laneshift / stock, by arithmetic", ahead, ">=", foretold.ahead)
        report.goals.append(by_hash)
    report.goals += [
        Goal(
            f"{name}: laneshift / stock, rows on their way counted",
            ahead,
            ">=",
            foretold.ahead_with_room,
        ),
    ]
    report.notes += [foretold.words(case), f"{name}: {found.differences()}."]


@dataclass(frozen=True)
class Arithmetic:
    """Rows/s above the bound, for the run's own shuffles.

    Attributes:
        stock: of hash partitions of one core each; nothing waits anywhere.
        stock_with_room: the same if as many rows may wait as Spark's shuffle holds.
        static: of P partitions with C / P cores each.
        best: of P partitions with the best whole numbers of cores.
    """

    stock: float
    stock_with_room: float
    static: float
    best: float

    @property
    def ahead(self) -> float:
        """The best division of cores over hash partitioning."""
        return self.best / self.stock

    @property
    def ahead_with_room(self) -> float:
        """The same if rows may wait before stock's cores."""
        return self.best / self.stock_with_room

    def words(self, case: Case) -> str:
        """All of it."""
        setting = case.setting
        cores, parts = setting.cores, setting.partitions
        return (
            f"{setting.name}: the bound is {case.bound:,.0f} rows/s, "
            f"{case.bound / setting.full_rate:.0%} of {setting.full_rate:,.0f}. Arithmetic for the "
            f"run's own shuffles: {cores} hash partitions {self.stock / case.bound:.0%} of the "
            f"bound, and {self.stock_with_room / case.bound:.0%} if {room(setting):,} rows "
            f"({room(setting) * setting.cost_us / 1e6 / cores:.2g} s of all cores' work) "
            f"may wait before them; {parts} partitions of {cores // parts} cores "
            f"{self.static / case.bound:.0%}; {parts} partitions with the best whole numbers of "
            f"cores {self.best / case.bound:.0%}."
        )


def room(setting: Setting) -> int:
    """Rows that buffers of Spark's shuffle hold before stock's partitions, any of them all."""
    in_buffer = max(1, BUFFER // (ROW_BYTES + setting.row_bytes))
    return IN_SHUFFLE * setting.cores * setting.sources * in_buffer


def arithmetic(spark: SparkSession, case: Case) -> Arithmetic:
    """Foretell a case. What sockets and readers hold is not in it."""
    setting = case.setting
    shuffled = shares_by_key(spark, setting)
    cores, parts = setting.cores, setting.partitions
    mine = owners(spark, parts)
    by_hash = partitioned(1, cores, shuffled, owners(spark, cores))

    def rate(work: FloatArray, waiting: int = 0) -> float:
        period_s = 60 / setting.omega if setting.omega else setting.seconds
        return taken(setting.due, work, setting.cost_us / 1e6, period_s, *case.full, waiting)

    return Arithmetic(
        rate(by_hash),
        rate(by_hash, room(setting)),
        rate(partitioned(cores // parts, parts, shuffled, mine)),
        rate(divided(cores, parts, shuffled, mine)),
    )


def shares_by_key(spark: SparkSession, setting: Setting) -> list[FloatArray]:
    """Each key's share in each period between two shuffles of the workload source."""
    shares = zipf_shares(KEYS, setting.zipf)
    workload: Any = spark.sparkContext._jvm
    workload = workload.org.apache.spark.sql.laneshift.workload
    found = [shares]  # at first a key's rank is its number
    for index in range(1, math.ceil(setting.seconds * setting.omega / 60)):
        shuffle = workload.KeyShuffle(KEYS, SEED, index)
        by_key = np.empty(KEYS)
        by_key[[shuffle.key(rank) for rank in range(KEYS)]] = shares
        found.append(by_key)
    return found
