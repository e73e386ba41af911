"""What would have happened to a recorded load under other policies: ``laneshift-lab simulate``.

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

from laneshift.contract.cluster_load import ClusterLoad, Node
from laneshift.contract.partition_load import NodeCores
from laneshift.contract.policy import Policy
from laneshift.errors import InputError
from laneshift.inputcheck import FloatArray, IntArray
from laneshift.models.migration import migration_bytes
from laneshift.models.queueing import sojourn_time
from laneshift.plotting import pyplot
from laneshift.policies.registry import policy
from laneshift_lab.simulator import Cluster, Operator, Scenario, Simulation
from laneshift_lab.simulator.rates import Levels
from laneshift_lab.simulator.workload import StockKeys

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
    series: per window, by name: time_s of its end, offered rows/s, capacity rows/s, cores,
        latency_s, backlog rows.
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
    if cores is None:
        return list(recorded)
    firsts: dict[str, ClusterLoad] = {}
    for cluster in recorded:
        firsts.setdefault(cluster.island, cluster)
    names = list(dict.fromkeys(n.node for first in firsts.values() for n in first.nodes))
    share = {name: cores // len(names) + (i < cores % len(names)) for i, name in enumerate(names)}
    for first in firsts.values():
        given = sum(share[n.node] for n in first.nodes)
        if given < len(first.partitions):
            of = f" of executor {first.island}" if first.island else ""
            raise InputError(
                "cores" + of, given, f"at least {len(first.partitions)}, one per partition",
                "Give more.",
            )  # fmt: skip
    nodes = {i: tuple(replace(n, cores=share[n.node]) for n in f.nodes) for i, f in firsts.items()}
    placed = {i: _spread(first, nodes[i]) for i, first in firsts.items()}
    return [_dress(s, nodes[s.island], placed[s.island]) for s in recorded]


def _spread(first: ClusterLoad, nodes: Sequence[Node]) -> IntArray:
    """(P, N) one core per partition at home or next to it, then the rest round robin."""
    names = [n.node for n in nodes]
    free = np.array([n.cores for n in nodes], dtype=np.int64)
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
    """Run ``chosen`` over the trace, on each of its islands apart: one time is one window.

    Errors: partitions of an island that come and go.
    """
    islands: dict[str, _Island] = {}
    windows: list[tuple[float, ...]] = []
    for w, recorded in enumerate(trace):
        if recorded.island not in islands:
            islands[recorded.island] = _Island(chosen, recorded)
        islands[recorded.island].go_on(recorded, w)
        if w + 1 == len(trace) or trace[w + 1].time_s > recorded.time_s:
            windows.append((recorded.time_s, *_together([i.last for i in islands.values()])))
        if progress is not None:
            progress((w + 1) / len(trace))
    series = {k: np.array(v) for k, v in zip(_SERIES, zip(*windows, strict=True), strict=True)}
    weight = np.maximum(series["offered"], 1e-9)
    mean = float(series["latency_s"] @ weight / weight.sum())
    lost, arrived, adjustments, moved, shortfalls = np.sum(
        [(i.lost, i.arrived, i.adjustments, i.moved, i.shortfalls) for i in islands.values()], 0
    )
    return Advice(
        name, mean, float(np.quantile(series["latency_s"], 0.99)),
        100 * float(lost / arrived) if arrived > 0 else 0.0, float(series["backlog"].mean()),
        float(series["cores"].mean()), int(adjustments), float(moved), int(shortfalls), series,
    )  # fmt: skip


class _Island:
    """Partitions that share cores, under a policy. ``last``: its newest window, as in `_SERIES`,
    without the time.
    """

    def __init__(self, chosen: Policy[Any], first: ClusterLoad) -> None:
        self._chosen = chosen
        self._state = chosen.start()
        self._first = first
        self._ids = [p.partition for p in first.partitions]
        self._nodes = [n.node for n in first.nodes]
        self._placement = np.zeros((len(self._ids), len(self._nodes)), dtype=np.int64)
        for p, part in enumerate(first.partitions):
            for held in part.placement:
                self._placement[p, self._nodes.index(held.node)] = held.cores
        self._queue = np.array([p.queue_rows for p in first.partitions])
        self.last: tuple[float, ...] = ()
        self.lost = self.moved = self.arrived = 0.0
        self.adjustments = self.shortfalls = 0

    def go_on(self, recorded: ClusterLoad, w: int) -> None:
        """The window that ``recorded``, number ``w`` of the trace, is of."""
        if [p.partition for p in recorded.partitions] != self._ids:
            where = f" on executor {recorded.island}" if recorded.island else ""
            raise InputError(
                f"partitions of cluster load {w}{where}", len(recorded.partitions),
                "the same ones as in the first", "Cut the trace where the query changes.",
            )  # fmt: skip
        seconds = recorded.window_s
        rate = np.array([p.offered_rate for p in recorded.partitions])
        unit = np.array([p.service_rate_per_core for p in recorded.partitions])
        cores = self._placement.sum(axis=1)
        rows = self._queue + rate * seconds
        served = np.minimum(rows, unit * cores * seconds)
        bound = np.array([_bound(p.queue_capacity_rows) for p in recorded.partitions])
        left = rows - served
        over = np.maximum(left - bound, 0.0)
        self._queue, before = left - over, self._queue
        self.lost += float(over.sum())
        self.arrived += float(rate.sum() * seconds)
        latency = _latency(rate, unit, cores, (before + self._queue) / 2, recorded)
        self.last = (
            float(rate.sum()), float((unit * cores).sum()), float(cores.sum()), latency,
            float(self._queue.sum()),
        )  # fmt: skip
        seen = _dress(recorded, self._first.nodes, self._placement)
        parts = tuple(
            replace(p, queue_rows=float(q), rows_lost=float(o), saturated=False)
            for p, q, o in zip(seen.partitions, self._queue, over, strict=True)
        )
        plan, self._state = self._chosen.answer(replace(seen, partitions=parts), self._state)
        self.shortfalls += not plan.feasible
        after = self._placement.copy()
        for change in plan.placement_changes:
            after[self._ids.index(change.partition), self._nodes.index(change.node)] = change.after
        sizes = np.array([p.state_bytes for p in recorded.partitions])
        if (after != self._placement).any():
            self.moved += migration_bytes(self._placement, after, sizes)
        self.adjustments += int((after.sum(axis=1) != cores).sum())
        self._placement = after


_SERIES = ("time_s", "offered", "capacity", "cores", "latency_s", "backlog")


def _together(windows: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
    """Islands as one: sums, and the mean latency of their rows."""
    offered, capacity, cores, latency, backlog = np.array(windows).T
    weight = np.maximum(offered, 1e-9)
    return (
        float(offered.sum()), float(capacity.sum()), float(cores.sum()),
        float(latency @ weight / weight.sum()), float(backlog.sum()),
    )  # fmt: skip


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


def draw_advice(advices: Sequence[Advice], path: Path) -> None:
    """Load and capacity, and latency, over time. Errors: no matplotlib."""
    plt = pyplot(InputError("picture", str(path), "matplotlib", "pip install matplotlib."))
    figure, (upper, lower) = plt.subplots(2, 1, figsize=(9, 6), sharex=True)
    time = advices[0].series["time_s"] - advices[0].series["time_s"][0]
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
