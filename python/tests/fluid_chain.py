"""A window-fluid chain of operators, after CRAA, 2018, and OERA, 2023: just enough to
test that a policy decides what earlier simulations of ours decided. Not the simulator.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.partition_load import PartitionLoad
from laneshift.contract.policy import Policy
from laneshift_lab.samples import cluster, partition

CRAA_CHAIN = ((50.0, 500.0), (500.0, 400.0), (1000.0, 300.0), (2000.0, 200.0), (5000.0, 100.0))
"""Table 2 of CRAA, 2018: (BS, P_unit) of O1 to O5."""


@dataclass(frozen=True)
class Run:
    """Per operator: lost and arrived rows, used share RS, adjustments AC; per window: cores."""

    lost: tuple[float, ...]
    arrived: tuple[float, ...]
    used: tuple[float, ...]
    adjustments: tuple[int, ...]
    cores: tuple[tuple[int, ...], ...]
    notes: dict[str, float]

    @property
    def loss_percent(self) -> list[float]:
        return [100 * a / b if b else 0.0 for a, b in zip(self.lost, self.arrived, strict=True)]


def rates(name: str, seconds: int, dt: float = 5.0, seed: int = 0) -> list[float]:
    """Loads of CRAA, 2018, as one mean rate per window."""
    loads: dict[str, Callable[[float], float]] = {
        "step": lambda t: (1000, 2000, 5000, 6000, 5000, 2000)[int(t % 30 // 5)],
        "jitter": lambda t: (
            3000 if (m := t % 160) < 50 else 6000 if m < 55 else 3000 if m < 155 else 1000
        ),
        "stage": lambda t: 5000 if (m := t % 450) < 250 else 10000 if m < 350 else 2000,
    }
    windows = int(seconds / dt)
    if name == "random":
        drawn = np.random.default_rng(seed).uniform(1000, 50000, windows)
        return [float(rate) for rate in drawn]
    if name == "sine":
        w = 2 * math.pi / 500
        return [
            5000 + 2500 * (math.cos(w * i * dt) - math.cos(w * (i + 1) * dt)) / (w * dt)
            for i in range(windows)
        ]
    return [float(loads[name](i * dt)) for i in range(windows)]


def simulate(
    policy: Policy[Any],
    load: Sequence[float],
    chain: Sequence[tuple[float, float]] = CRAA_CHAIN,
    *,
    dt: float = 5.0,
    cores: Sequence[int] | None = None,
    limit: int | None = None,
    late: bool = False,
) -> Run:
    """Decide at the end of every window, in force from the next (``late``: the one after)."""
    count = len(chain)
    held = list(cores or [1] * count)
    level, inflow, throttle = [0.0] * count, [0.0] * count, [math.inf] * count
    lost, arrived, done, paid = ([0.0] * count for _ in range(4))
    adjustments, history = [0] * count, [tuple(held)]
    notes: dict[str, float] = {}
    state = policy.start()
    for window, head in enumerate(load):
        inflow[0] = head
        parts: list[PartitionLoad] = []
        following = list(inflow)
        for i, (full, unit) in enumerate(chain):
            rate = min(unit * (history[-1] if late else held)[i], throttle[i])
            processed = min(rate * dt, level[i] + inflow[i] * dt)
            over = max(0.0, level[i] + inflow[i] * dt - processed - full)
            level[i] = level[i] + inflow[i] * dt - processed - over
            lost[i] += over
            arrived[i] += inflow[i] * dt
            done[i] += processed
            paid[i] += unit * (history[-1] if late else held)[i] * dt
            if i + 1 < count:
                following[i + 1] = processed / dt
            made = partition(
                f"O{i + 1}",
                {"n": held[i]},
                offered_rate=inflow[i],
                service_rate=unit,
                queue_rows=level[i],
                queue_capacity_rows=full,
                max_cores=limit,
            )
            parts.append(replace(made, output_rate=processed / dt, rows_lost=over))
        history.append(tuple(held))
        snap = chain_cluster(parts, window, dt)
        plan, state = policy.decide(snap, state)
        for name, value in plan.notes:
            notes[name] = notes.get(name, 0.0) + value
        for change in plan.core_changes:
            i = int(change.partition[1:]) - 1
            held[i] = change.after
            adjustments[i] += 1
        throttle = [math.inf] * count
        for slow in plan.throttles:
            throttle[int(slow.target[1:]) - 1] = slow.rate
        inflow = following
    used = tuple(a / b for a, b in zip(done, paid, strict=True))
    return Run(tuple(lost), tuple(arrived), used, tuple(adjustments), tuple(history[1:]), notes)


def chain_cluster(parts: Sequence[PartitionLoad], window: int, dt: float) -> ClusterLoad:
    edges = [(a.partition, b.partition) for a, b in itertools.pairwise(parts)]
    return cluster({"n": 10_000}, parts, edges=edges, time_s=(window + 1) * dt, window_s=dt)
