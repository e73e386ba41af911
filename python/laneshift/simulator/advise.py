"""What would have happened to a recorded load under other policies: ``laneshift simulate``.

Window by window, the recorded offered rates, service rates and sizes drive a fluid of every
partition under the cores that the policy gives it. Approximations: lanes inside a partition are
taken as balanced; rates downstream are as recorded, whatever upstream does here; a decision is in
force from the next window on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from laneshift.errors import InputError
from laneshift.inputcheck import FloatArray, IntArray
from laneshift.models.migration import migration_bytes
from laneshift.models.queueing import sojourn_time
from laneshift.plotting import pyplot
from laneshift.scheduler.cluster_load import ClusterLoad, Node
from laneshift.scheduler.ids import NodeId
from laneshift.scheduler.partition_load import NodeCores
from laneshift.scheduler.policies.base import Policy
from laneshift.scheduler.registry import policy
from laneshift.simulator import Cluster, Operator, Scenario, Simulation
from laneshift.simulator.rates import Levels
from laneshift.simulator.workload import StockKeys

__all__ = [
    "Advice",
    "advice_table",
    "advise",
    "demo_trace",
    "draw_advice",
    "text_picture",
    "with_cores",
]


@dataclass(frozen=True, eq=False)
class Advice:
    """One policy on one trace. W windows.

    latency_mean_s, latency_p99_s: over the windows, weighted by rows (p99: of window means).
    lost_percent: rows above a bounded queue; backlog_rows: mean rows waiting. cores: mean held.
    adjustments: changes of a partition's core count; moved_bytes: state moved between nodes.
    series: per window, by name: offered rows/s, capacity rows/s, cores, latency_s.
    """

    policy: str
    latency_mean_s: float
    latency_p99_s: float
    lost_percent: float
    backlog_rows: float
    cores: float
    adjustments: int
    moved_bytes: float
    shortfalls: int
    series: dict[str, FloatArray]


def with_cores(recorded: Sequence[ClusterLoad], cores: int | None) -> list[ClusterLoad]:
    """The trace on a cluster of ``cores`` cores over its own nodes, spread evenly; None: as is.

    Partitions start with one core each at home where the recorded placement does not fit.
    """
    if not recorded:
        raise InputError("trace", 0, "at least one cluster load", "Record a running query first.")
    parts = len(recorded[0].partitions)
    if cores is None:
        return list(recorded)
    if cores < parts:
        raise InputError("cores", cores, f"at least {parts}, one per partition", "Give more.")
    names = [n.node for n in recorded[0].nodes]
    share = [cores // len(names) + (i < cores % len(names)) for i in range(len(names))]
    nodes = tuple(replace(n, cores=c) for n, c in zip(recorded[0].nodes, share, strict=True))
    placement = _spread(recorded[0], names, share)
    return [_dress(s, nodes, placement) for s in recorded]


def _spread(first: ClusterLoad, names: list[NodeId], share: list[int]) -> IntArray:
    """(P, N) one core per partition at home or next to it, then the rest round robin."""
    free = np.array(share, dtype=np.int64)
    out = np.zeros((len(first.partitions), len(names)), dtype=np.int64)
    wanted = max(int(free.sum()) // len(first.partitions), 1)
    for _ in range(wanted):
        for p, part in enumerate(first.partitions):
            home = names.index(part.home)
            node = home if free[home] > 0 else int(free.argmax())
            if free[node] > 0:
                free[node] -= 1
                out[p, node] += 1
    return out


def _dress(cluster: ClusterLoad, nodes: tuple[Node, ...], placement: IntArray) -> ClusterLoad:
    parts = tuple(
        replace(
            part,
            placement=tuple(
                NodeCores(nodes[i].node, int(placement[p, i])) for i in np.flatnonzero(placement[p])
            ),
            lanes=(),
            shards=None,
        )
        for p, part in enumerate(cluster.partitions)
    )
    return replace(cluster, nodes=nodes, partitions=parts)


def advise(
    name: str,
    chosen: Policy[Any],
    trace: Sequence[ClusterLoad],
    progress: Callable[[float], None] | None = None,
) -> Advice:
    """Run ``chosen`` over the trace. Errors: partitions that come and go within it."""
    ids = [p.partition for p in trace[0].partitions]
    nodes = [n.node for n in trace[0].nodes]
    placement = np.zeros((len(ids), len(nodes)), dtype=np.int64)
    for p, part in enumerate(trace[0].partitions):
        for held in part.placement:
            placement[p, nodes.index(held.node)] = held.cores
    queue = np.array([p.queue_rows for p in trace[0].partitions])
    state = chosen.start()
    track: dict[str, list[float]] = {k: [] for k in _SERIES}
    lost = moved = arrived = 0.0
    adjustments = shortfalls = 0
    for w, recorded in enumerate(trace):
        if [p.partition for p in recorded.partitions] != ids:
            raise InputError(
                f"partitions of cluster load {w}", len(recorded.partitions),
                "the same ones as in the first", "Cut the trace where the query changes.",
            )  # fmt: skip
        seconds = recorded.window_s
        rate = np.array([p.offered_rate for p in recorded.partitions])
        unit = np.array([p.service_rate_per_core for p in recorded.partitions])
        cores = placement.sum(axis=1)
        rows = queue + rate * seconds
        served = np.minimum(rows, unit * cores * seconds)
        bound = np.array([_bound(p.queue_capacity_rows) for p in recorded.partitions])
        left = rows - served
        over = np.maximum(left - bound, 0.0)
        queue, before = left - over, queue
        lost += float(over.sum())
        arrived += float(rate.sum() * seconds)
        latency = _latency(rate, unit, cores, (before + queue) / 2, recorded)
        for key, value in zip(
            _SERIES,
            (rate.sum(), (unit * cores).sum(), cores.sum(), latency, queue.sum()),
            strict=True,
        ):
            track[key].append(float(value))
        seen = _dress(recorded, trace[0].nodes, placement)
        parts = tuple(
            replace(p, queue_rows=float(q), rows_lost=float(o), saturated=False)
            for p, q, o in zip(seen.partitions, queue, over, strict=True)
        )
        plan, state = chosen.answer(replace(seen, partitions=parts), state)
        shortfalls += not plan.feasible
        after = placement.copy()
        for change in plan.placement_changes:
            after[ids.index(change.partition), nodes.index(change.node)] = change.after
        sizes = np.array([p.state_bytes for p in recorded.partitions])
        moved += migration_bytes(placement, after, sizes) if (after != placement).any() else 0.0
        adjustments += int((after.sum(axis=1) != cores).sum())
        placement = after
        if progress is not None:
            progress((w + 1) / len(trace))
    series = {k: np.array(v) for k, v in track.items()}
    weight = np.maximum(series["offered"], 1e-9)
    mean = float(series["latency_s"] @ weight / weight.sum())
    return Advice(
        name, mean, float(np.quantile(series["latency_s"], 0.99)),
        100 * lost / arrived if arrived > 0 else 0.0, float(series["backlog"].mean()),
        float(series["cores"].mean()), adjustments, moved, shortfalls, series,
    )  # fmt: skip


_SERIES = ("offered", "capacity", "cores", "latency_s", "backlog")


def _bound(capacity: float | None) -> float:
    return math.inf if capacity is None else capacity


def _latency(
    rate: FloatArray, unit: FloatArray, cores: IntArray, waiting: FloatArray, recorded: ClusterLoad
) -> float:
    """Mean time in the topology (s): M/M/k plus the time to work off what waits."""
    total = 0.0
    for lam, mu, k, rows in zip(rate, unit, cores.tolist(), waiting, strict=True):
        if lam <= 0:
            continue
        usable = min(float(lam), 0.98 * k * float(mu))  # a window is too short for infinity
        total += float(lam) * (sojourn_time(k, usable, float(mu)) + float(rows) / (k * float(mu)))
    entering = recorded.external_rate or float(rate.sum())
    return total / entering if entering > 0 else 0.0


def text_picture(advices: Sequence[Advice], width: int = 60) -> str:
    """Offered load and capacity over time as lines of blocks, for the terminal."""
    bars = " ▁▂▃▄▅▆▇█"
    top = max(float(max(a.series["capacity"].max(), a.series["offered"].max())) for a in advices)
    lines = []
    rows = [("offered", advices[0].series["offered"])]
    rows += [(a.policy, a.series["capacity"]) for a in advices]
    for name, values in rows:
        cut = np.array_split(values, min(width, values.size))
        level = [float(np.mean(c)) / top if top > 0 else 0.0 for c in cut]
        lines.append(f"{name:18} " + "".join(bars[round(v * 8)] for v in level))
    return "\n".join(lines)


def advice_table(advices: Sequence[Advice]) -> str:
    """The comparison as aligned text."""
    head = (
        "policy", "latency", "p99", "lost %", "backlog", "cores", "adjustments", "moved MB",
        "shortfalls",
    )  # fmt: skip
    rows = [head] + [
        (
            a.policy, f"{a.latency_mean_s:.4g} s", f"{a.latency_p99_s:.4g} s",
            f"{a.lost_percent:.3g}", f"{a.backlog_rows:.4g}", f"{a.cores:.1f}",
            str(a.adjustments), f"{a.moved_bytes / 1e6:.4g}", str(a.shortfalls),
        )
        for a in advices
    ]  # fmt: skip
    width = [max(len(row[i]) for row in rows) for i in range(len(head))]
    return "\n".join(
        "  ".join(
            c.ljust(w) if i == 0 else c.rjust(w)
            for i, (c, w) in enumerate(zip(row, width, strict=True))
        )
        for row in rows
    )


def draw_advice(advices: Sequence[Advice], window_s: float, path: Path) -> None:
    """Load and capacity, and latency, over time. Errors: no matplotlib."""
    plt = pyplot(InputError("picture", str(path), "matplotlib", "pip install 'laneshift[plot]'."))
    figure, (upper, lower) = plt.subplots(2, 1, figsize=(9, 6), sharex=True)
    time = np.arange(1, advices[0].series["offered"].size + 1) * window_s
    upper.plot(time, advices[0].series["offered"], color="black", label="offered")
    for a in advices:
        upper.step(time, a.series["capacity"], where="post", label=a.policy, alpha=0.8)
        lower.plot(time, a.series["latency_s"], label=a.policy, alpha=0.8)
    upper.set(ylabel="rows/s", title="offered load and capacity")
    lower.set(xlabel="time (s)", ylabel="mean latency (s)", yscale="log")
    upper.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)


def demo_trace() -> list[ClusterLoad]:
    """A small bursty trace from the simulator: 4 nodes x 4 cores, 4 partitions, 3 minutes."""
    op = Operator("orders", partitions=4, shards=64, state_bytes=256 * 1024.0)
    keys = StockKeys(400, 0.4, burst=4.0, seed=7)
    load = Levels(((3000, 40), (7000, 20), (4500, 30), (9000, 10), (2000, 30)))
    scene = Scenario(Cluster(4, 4), (op,), keys, load, 180.0)
    run = Simulation(scene, policy("static"))
    run.record = True
    run.run()
    return run.recorded
