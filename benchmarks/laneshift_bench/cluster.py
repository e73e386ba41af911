"""Policies that drive a query over four executors, and one partition that is scaled out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession

from laneshift_bench import cluster_scale
from laneshift_bench.bound import FloatArray, divided, owners, partitioned, taken
from laneshift_bench.cluster_scale import EACH, HEADER, NODES
from laneshift_bench.driven import take_turns, warm_up
from laneshift_bench.foreseen import METHOD as SIMULATED
from laneshift_bench.foreseen import foresee
from laneshift_bench.live import Case as Load
from laneshift_bench.live import Outcome, room, shares_by_key
from laneshift_bench.pairs import Ratio
from laneshift_bench.progress import Progress
from laneshift_bench.report import Goal, Report
from laneshift_bench.session import FLIGHT
from laneshift_bench.setting import HOME, KEYS, SHARDS, STOCK
from laneshift_bench.there import cluster

CORES = NODES * EACH
SPARE = 1
"""Slots of an executor beyond its emulated cores: that of the source's task, wherever it runs."""
COST_US = 4000
SKEW_SIDES = (STOCK, HOME, "naive-ec", "elasticutor", "laneshift")
STATE_SIDES = (STOCK, "elasticutor", "laneshift")
STATES = {"32 KB": 32 << 10, "256 KB": 256 << 10, "1 MB": 1 << 20}
NEAR = 0.9
"""Of what arithmetic foretells."""
METHOD = f"""\
{NODES} executor processes on this machine (`local-cluster`), of which lanes may use {EACH} emulated
cores each: {CORES} in all, and a slot more for the source's task. Real-time Mode, {KEYS:,} keys,
counts per key and above them a projection in which each row waits (`laneshift_cost` in mode `wait`,
to a deadline). All processes share this machine's real cores. Throughput, latency and pictures as
in `live`: half of the bound first, then 1.05 times it; sinks write what they find to files.

*skew*: keys of zipf 0.8 whose frequencies change every 4 s, {COST_US / 1000:g} ms and 4 KB a row.
Home cores are scarce: 2 or 4 state partitions, each on an executor of its own, have {EACH} cores
there.
*{STOCK}* has a state partition for each of the {CORES} cores. *{HOME}* is the policy with
`remote.maxLanes` 0. All others place lanes on any executor. *state* (Figure 9): zipf 0.5, a
change every 30 s, small rows, 2 state partitions of {SHARDS} shards with so much state each; the
paper's 32 MB are not run, since each answer writes its key's state, on two real cores.
{cluster_scale.METHOD}

{SIMULATED}"""


@dataclass(frozen=True)
class Case:
    """A load, and who takes it."""

    name: str
    load: Load
    sides: tuple[str, ...]


def cases(quick: bool) -> list[Case]:
    """Those in which policies drive: skew that moves, and state of several sizes."""
    times = (10.0, 12.0) if quick else (18.0, 20.0)
    found = []
    for parts in (2, 4):
        name = f"skew, {parts} partitions"
        load = Load.of(CORES, parts, COST_US, 0.8, 15, *times, 4000, name)
        found.append(Case(name, _on_nodes(load), SKEW_SIDES))
    for size, shard_bytes in STATES.items():
        name = f"state, {size} a shard"
        load = Load.of(CORES, 2, COST_US, 0.5, 2, *times, 0, name)
        of_key = shard_bytes * load.setting.partitions * SHARDS // KEYS
        found.append(Case(name, _on_nodes(load, of_key), STATE_SIDES))
    return found


def _on_nodes(load: Load, state_bytes: int = 0) -> Load:
    """The same on the executors; each partition begins with one lane."""
    setting = replace(load.setting, nodes=NODES, lanes=1, state_bytes=state_bytes)
    return replace(load, setting=setting)


def run(quick: bool, only: Sequence[str] = (), rounds: int | None = None) -> Report:
    """All cases, or those whose names begin with one of ``only``."""

    def wanted(name: str) -> bool:
        return not only or name.startswith(tuple(only))

    turns = rounds or (1 if quick else 2)
    driven = [c for c in cases(quick) if wanted(c.name)]
    points = [p for p in cluster_scale.points(quick) if wanted(p.name)]
    progress = Progress("cluster", turns * (sum(len(c.sides) for c in driven) + len(points)))
    report = Report("cluster", "Policies on a cluster", METHOD, HEADER)
    if driven:
        with cluster(NODES, EACH + SPARE, FLIGHT, memory_mb=1000) as (spark, work):
            warm_up(spark, work, driven[0].load.setting)
            for case in driven:
                _compare(spark, work, case, turns, progress, report)
    if points:
        with cluster(NODES, EACH + SPARE, FLIGHT, memory_mb=1000) as (spark, work):
            cluster_scale.run(spark, work, points, turns, quick, progress, report)
    return report


def _compare(
    spark: SparkSession, work: Path, case: Case, rounds: int, progress: Progress, report: Report
) -> None:
    load = case.load
    runs, _ = take_turns(spark, work, load.setting, case.sides, rounds, progress, load.words)
    found = Outcome(load, runs, {side: foresee(load.setting, side) for side in case.sides})
    found.add_to(report)
    report.files[f"cluster-{case.name.replace(', ', '-').replace(' ', '-')}.png"] = found.draw
    report.notes.append(f"{case.name}: {found.differences()}.")
    if HOME in case.sides:
        _judge(report, found, arithmetic(spark, load), case.name)


@dataclass(frozen=True)
class Arithmetic:
    """Rows/s above the bound, for the run's own shuffles.

    Attributes:
        stock: of a state partition a core, if as many rows wait before them as Spark's shuffle
            holds.
        home: of partitions with the cores of an executor each.
        best: of partitions with the best whole numbers of all cores.
    """

    stock: float
    home: float
    best: float


def arithmetic(spark: SparkSession, load: Load) -> Arithmetic:
    """Foretell a load of skew."""
    setting = load.setting
    shuffled = shares_by_key(spark, setting)
    mine = owners(spark, setting.partitions)

    def rate(work: FloatArray, waiting: int = 0) -> float:
        period_s = 60 / setting.omega
        return taken(setting.due, work, setting.cost_us / 1e6, period_s, *load.full, waiting)

    return Arithmetic(
        rate(partitioned(1, CORES, shuffled, owners(spark, CORES)), room(setting)),
        rate(partitioned(setting.cores_each, setting.partitions, shuffled, mine)),
        rate(divided(CORES, setting.partitions, shuffled, mine)),
    )


def _judge(report: Report, found: Outcome, foretold: Arithmetic, name: str) -> None:
    """Goals: as far ahead of stock, and of lanes at home, as arithmetic says, nearly."""
    for side, expected in ((STOCK, foretold.stock), (HOME, foretold.home)):
        ahead = Ratio.of(found.rates("laneshift"), found.rates(side)).median
        goal = max(1.0, NEAR * foretold.best / expected)
        report.goals.append(Goal(f"{name}: laneshift / {side}", ahead, ">=", round(goal, 2)))
    share = float(np.median(found.rates("laneshift"))) / foretold.best
    report.notes.append(
        f"{name}: arithmetic for the run's own shuffles gives {foretold.stock:,.0f} rows/s to "
        f"{CORES} hash partitions with {room(found.case.setting):,} rows before them, "
        f"{foretold.home:,.0f} to partitions with {EACH} cores each, and {foretold.best:,.0f} to "
        f"the best division of all cores, of which laneshift takes {share:.0%}."
    )
