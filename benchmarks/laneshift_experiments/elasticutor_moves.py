"""Elasticutor Figs 12a and 15: sync time over upstream executors; cost of elasticity."""

from __future__ import annotations

import math
from dataclasses import replace

from laneshift_experiments.base import (
    Chart,
    Experiment,
    Options,
    Progress,
    Report,
    Samples,
    Statement,
    Table,
)
from laneshift_experiments.micro import Micro, policy_of, throughput
from laneshift_lab.simulator import Cluster, Engine, Operator, Scenario, Simulation
from laneshift_lab.simulator.rates import Constant
from laneshift_lab.simulator.workload import ZipfKeys


def fig12a(options: Options, progress: Progress) -> Report:
    """Sync time per move over the number of upstream executors."""
    counts = [int(v) for v in options.sweep((1, 4, 16, 64))]
    rows: list[tuple[str, int, float, float, float]] = []
    for i, upstream in enumerate(counts):
        progress(i / len(counts), f"{upstream} upstream executors")
        for system in ("elasticutor", "resource-centric"):
            elastic = system == "elasticutor"
            ops = (
                Operator("up", upstream, 4, 1e-4, lane_queue_rows=40.0),
                Operator(
                    "down", 4 if elastic else 32, 64 if elastic else 8, 1e-3,
                    lane_queue_rows=3.0, upstream=("up",),
                ),
            )  # fmt: skip
            cores = (1,) * upstream + ((8,) * 4 if elastic else (1,) * 32)
            engine = Engine(
                paradigm="executor-centric" if elastic else "resource-centric", step_s=1e-3
            )
            name, count = (
                ("handoff_sync_mean_s", "handoffs_local")
                if elastic
                else ("rc_sync_mean_s", "rc_syncs")
            )
            notes = []
            for seed in range(1, options.seeds + 1):
                scene = Scenario(
                    Cluster(16, 8), ops, ZipfKeys(2000, 0.7, 16, seed), Constant(9e3),
                    options.seconds(16.0), engine, cores, seed,
                )  # fmt: skip
                chosen = None if elastic else policy_of("resource-centric")
                notes.append(Simulation(scene, chosen).run().notes)
            sync = Samples.of(1e3 * n[name] for n in notes if n[count])
            label = "Elasticutor" if elastic else "RC"
            rows.append((label, upstream, sync.mean, sync.sd, sum(n[count] for n in notes)))
    table = Table(("system", "upstream", "sync_ms", "sync_ms_sd", "moves"), tuple(rows))
    el, rc = table.pick("sync_ms", system="Elasticutor"), table.pick("sync_ms", system="RC")
    statements = (
        Statement(
            "Elasticutor's sync is about 2 ms and flat in the number of upstreams", "[S]",
            ", ".join(f"{n}: {v:.2f} ms" for n, v in zip(counts, el, strict=True)),
            max(el) < 6 and max(el) < 2 * min(el),
        ),
        Statement(
            "RC's sync is 2-3 orders of magnitude more and grows", "[S]",
            ", ".join(f"{n}: {v:.0f} ms" for n, v in zip(counts, rc, strict=True))
            + " (its coordination time is an assumption [A])",
            None,
        ),
    )  # fmt: skip
    charts = (Chart("upstream", "sync_ms", "system", "synchronisation per move", True, True),)
    assumed = (
        "Elasticutor's 2 ms hold 1 ms for control messages, an assumption [A]; that they do not "
        "grow with the upstreams is the protocol's doing.",
    )
    return Report(table, statements, charts, assumed)


def fig15(options: Options, progress: Progress) -> Report:
    """One elastic partition: throughput over cores for several state sizes, omega 2 and 16."""
    counts = [int(v) for v in options.sweep((8, 32, 128, 256))]
    counts = [c for c in counts if c <= options.nodes * options.cores]
    sizes = (32.0, 1024.0, 32768.0)
    rows: list[tuple[str, float, float, int, float, float]] = []
    total = 2 * len(sizes) * len(counts)
    for omega in (2.0, 16.0):
        for kb in sizes:
            for c in counts:
                progress(len(rows) / total, f"omega {omega:g}, {kb:g} KB, {c} cores")
                few = replace(options, nodes=max(1, math.ceil(c / options.cores)))
                # The paper's skew: the hottest key allows 198 cores' worth at most.
                m = Micro(omega=omega, state_bytes=kb * 1024, y=1, z=4096)
                rate = throughput("elasticutor", m, few, options.seconds(70.0))
                rows.append((f"omega {omega:g}, {kb:g} KB", omega, kb, c, rate.mean, rate.sd))
    columns = ("line", "omega", "state_kb", "cores", "rows_per_s", "rows_per_s_sd")
    table = Table(columns, tuple(rows))

    def gain(omega: float, kb: float) -> float:
        found = table.pick("rows_per_s", omega=omega, state_kb=kb)
        return found[-1] / found[0]

    text = ", ".join(f"{kb:g} KB: {gain(2.0, kb):.1f} / {gain(16.0, kb):.1f}" for kb in sizes)
    statements = (
        Statement(
            "all state sizes scale except 32 MB", "[S]",
            f"from {counts[0]} to {counts[-1]} cores, omega 2 / 16: " + text,
            gain(2.0, sizes[-1]) < 0.7 * gain(2.0, sizes[0]),
        ),
        Statement(
            "at omega = 16 large state scales clearly worse", "[S]", text,
            gain(16.0, sizes[-1]) < 0.7 * gain(2.0, sizes[-1]),
        ),
    )  # fmt: skip
    charts = (Chart("cores", "rows_per_s", "line", "elasticity cost of one partition"),)
    return Report(table, statements, charts)


EXPERIMENTS = (
    Experiment("elasticutor-fig12a", "elasticutor", "Elasticutor Fig 12a: sync time", fig12a),
    Experiment("elasticutor-fig15", "elasticutor", "Elasticutor Fig 15: elasticity cost", fig15),
)
