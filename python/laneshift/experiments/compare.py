"""Our policy ``laneshift`` on the papers' own experiments, with an oracle as the limit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from laneshift.experiments.base import (
    Cell,
    Chart,
    Experiment,
    Options,
    Progress,
    Report,
    Statement,
    Table,
    mean,
)
from laneshift.experiments.buffers import LOADS, craa_load
from laneshift.experiments.micro import WARM_UP_S, Micro, run
from laneshift.scheduler.plan import CoreChange, PlacementChange, Plan
from laneshift.scheduler.policies.base import Policy
from laneshift.scheduler.registry import policy
from laneshift.scheduler.snapshot import Snapshot
from laneshift.simulator import rates
from laneshift.simulator.rates import Rate
from laneshift.simulator.window import CRAA_CHAIN, BufferedOperator
from laneshift.simulator.window_run import WindowRun, run_windows


@dataclass(frozen=True, kw_only=True)
class Oracle(Policy[int]):
    """Full knowledge: the fewest units with which the next window loses nothing.

    rate: the source's true rate; lag: whether an output arrives a window later (else at once).
    Inputs below the head follow from what upstream emits. State: the window's number.
    """

    name: ClassVar[str] = "oracle"
    summary: ClassVar[str] = "knows the next window"
    source: ClassVar[str] = "ours, for comparison"

    rate: Rate
    lag: bool = True

    def start(self) -> int:
        """Window 0."""
        return 0

    def decide(self, snapshot: Snapshot, state: int) -> tuple[Plan, int]:
        """Units for the next window."""
        dt, n = snapshot.window_s, state + 1
        inflow = self.rate.mean(n * dt, (n + 1) * dt)
        changes, cells = [], []
        for part in snapshot.partitions:
            unit, room = part.service_rate_per_core, part.queue_capacity_rows or math.inf
            rows = part.queue_rows + inflow * dt
            least = max(1, math.ceil((rows - room) / (unit * dt) - 1e-9))
            least = min(least, part.max_cores or least)
            if least != part.cores:
                changes.append(CoreChange(part.partition, part.cores, least))
                cells.append(PlacementChange(part.partition, part.home, part.cores, least))
            now = part.output_rate or 0.0
            done = min(unit * least * dt, rows) / dt * part.selectivity
            inflow = now if self.lag else done
        return Plan(core_changes=tuple(changes), placement_changes=tuple(cells)), n


SYSTEMS = ("threshold", "kalman", "craa", "oera", "laneshift", "oracle")


def _chosen(system: str, rate: Rate, lag: bool) -> Policy[Any]:
    if system == "oracle":
        return Oracle(rate=rate, lag=lag)
    parameters: dict[str, Any] = {"trend_tolerance": 0.02} if system == "craa" else {}
    return policy(system, **parameters)


def _row(system: str, load: str, runs: list[WindowRun]) -> tuple[Cell, ...]:
    loss = np.mean([100 * r.loss_share for r in runs], axis=0)
    return (
        system, load, float(loss[0]), float(loss[1:].max()),
        mean(100 * r.total_loss_share for r in runs),
        mean(float(r.use.mean()) for r in runs),
        mean(float(r.adjustments.sum()) for r in runs),
        mean(float(r.units.sum(axis=1).mean()) for r in runs),
    )  # fmt: skip


def buffers(options: Options, progress: Progress) -> Report:
    """Every buffer policy on CRAA's five loads and on OERA's WordCount."""
    rows: list[tuple[Cell, ...]] = []
    wordcount = (
        BufferedOperator("Split", 400.0, 5 * 1024.0, 6.0, 5, 16),
        BufferedOperator("Count", 100.0, 12 * 1024.0, 1.0, 12, 40),
    )
    for i, load in enumerate((*LOADS, "wordcount")):
        for system in SYSTEMS:
            progress(i / (len(LOADS) + 1), f"{load}, {system}")
            runs = []
            seeds = options.seeds if load in ("random", "wordcount") else 1
            for seed in range(1, seeds + 1):
                if load == "wordcount":
                    rate: Rate = rates.diurnal(seed, 300.0)
                    chosen = _chosen(system, rate, False)
                    runs.append(run_windows(chosen, wordcount, rate, 42 * 600.0, 600.0, lag=False))
                else:
                    rate, seconds = craa_load(load, seed)
                    chosen = _chosen(system, rate, True)
                    runs.append(run_windows(chosen, CRAA_CHAIN, rate, seconds, 5.0))
            rows.append(_row(system, load, runs))
    columns = (
        "system", "load", "loss_head_percent", "loss_worst_other_percent", "loss_percent", "use",
        "adjustments", "units",
    )  # fmt: skip
    table = Table(columns, tuple(rows))
    statements = tuple(_beats(table, load) for load in (*LOADS, "wordcount"))
    charts = (
        Chart("load", "loss_percent", "system", "rows lost, %"),
        Chart("load", "adjustments", "system", "adjustments"),
        Chart("load", "use", "system", "mean resource use"),
    )
    notes = (
        "oracle: the fewest units that lose nothing in the next window, from the true rate; it "
        "changes units whenever that saves one. All policies with their defaults (craa: trend "
        "tolerance 0.02).",
        "CRAA's objective is lexicographic: least loss, then most use, then fewest adjustments.",
    )
    return Report(table, statements, charts, notes)


def _beats(table: Table, load: str) -> Statement:
    """The first metric of CRAA's and OERA's objective: loss."""
    papers = ("threshold", "kalman", "craa", "oera")
    best = min(papers, key=lambda s: table.one("loss_percent", system=s, load=load))

    def show(system: str) -> str:
        cells = [
            table.one(c, system=system, load=load) for c in ("loss_percent", "use", "adjustments")
        ]
        return f"{system} loss {cells[0]:.2f}%, use {cells[1]:.3f}, {cells[2]:.0f} adjustments"

    ours, theirs = (table.one("loss_percent", system=s, load=load) for s in ("laneshift", best))
    return Statement(
        f"goal of ours: under {load} load, laneshift loses no more than the best paper policy",
        "[D]", "; ".join(show(s) for s in ("laneshift", best, "oracle")), ours <= theirs + 0.01,
    )  # fmt: skip


def dynamics(options: Options, progress: Progress) -> Report:
    """Fig 6's sweep with Elasticutor's policy and ours, same executors and balancer."""
    values = options.sweep((0.0, 2.0, 16.0))
    systems = ("elasticutor", "naive-ec", "laneshift")
    capacity = options.nodes * options.cores * 1e3
    rows: list[tuple[Cell, ...]] = []
    for omega in values:
        for system in systems:
            progress(len(rows) / (len(values) * len(systems)), f"omega {omega:g}, {system}")
            full, part, moved, cores = [], [], [], []
            for seed in range(1, options.seeds + 1):
                seconds = options.seconds(80.0)
                a = run(system, Micro(omega=omega), options, seconds, seed)
                b = run(system, Micro(omega=omega, rate=0.38 * capacity), options, seconds, seed)
                full.append(a.mean("throughput", WARM_UP_S))
                part.append(b.mean("latency_mean_s", WARM_UP_S))
                moved.append(a.mean("migrated_bytes", WARM_UP_S) / 1e6)
                cores.append(b.mean("cores", WARM_UP_S))
            spread = float(np.std(full))
            rows.append((system, omega, mean(full), spread, mean(part), mean(cores), mean(moved)))
    columns = (
        "system", "omega", "rows_per_s", "rows_per_s_sd", "latency_mean_s", "cores_at_38_percent",
        "migration_mb_s",
    )  # fmt: skip
    table = Table(columns, tuple(rows))
    statements = []
    for omega in values:
        ours, theirs = (
            table.one("rows_per_s", system=s, omega=omega) for s in ("laneshift", "elasticutor")
        )
        noise = table.one("rows_per_s_sd", system="elasticutor", omega=omega)
        held = table.one("cores_at_38_percent", system="laneshift", omega=omega)
        statements.append(
            Statement(
                f"goal of ours: omega {omega:g}, throughput no worse than Elasticutor's", "[D]",
                f"{ours / theirs:.2f} times; at 38% load laneshift holds {held:.0f} of "
                f"{options.nodes * options.cores} cores",
                ours >= theirs - max(2 * noise, 0.02 * theirs),
            )
        )  # fmt: skip
    charts = (
        Chart("omega", "rows_per_s", "system", "throughput, saturating source"),
        Chart("omega", "latency_mean_s", "system", "mean latency at 38% load", log_y=True),
    )
    return Report(table, tuple(statements), charts)


EXPERIMENTS = (
    Experiment("compare-buffers", "comparison", "Policies compared: bounded buffers", buffers),
    Experiment("compare-dynamics", "comparison", "Policies compared: key dynamics", dynamics),
)
