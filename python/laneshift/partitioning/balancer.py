"""The intra-executor balancer: shards over the lanes of one elastic partition.

Source: Elasticutor, 2019, 3.2. The paper's text names no metric, threshold or algorithm; the metric
delta = max lane load / mean and theta = 1.2 are [XK], the loop is [D], draining is [XP, D].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from laneshift import inputcheck
from laneshift.errors import InputError
from laneshift.inputcheck import FloatArray, IntArray
from laneshift.partitioning.balance_core import balance_batch
from laneshift.partitioning.holdings import whole_key_plan
from laneshift.partitioning.model import Loads, MovePlan, Routing, check_request


@dataclass(frozen=True)
class Balancer:
    """Whole shards only, few moves; a key of ``Loads`` is a shard, a target is a lane.

    tolerance = theta - 1 (0.2 for theta 1.2). Lanes that are not ``active`` are drained first.
    min_gain, hot_shard_guard: see :func:`balance_batch`; the guard is our answer to a
    caveat (a hot shard is moved for nothing). ``hot_shard_guard=False`` is the literal loop.
    """

    name: ClassVar[str] = "balancer"

    min_gain: float = 0.0
    hot_shard_guard: bool = True

    def __post_init__(self) -> None:
        inputcheck.number("min_gain", self.min_gain, "Use a share such as 0.01.", low=0.0)

    def plan(self, loads: Loads, routing: Routing, tolerance: float) -> MovePlan:
        """Plan; infeasible (with the reason) when one shard is heavier than the limit."""
        tau = check_request(loads, routing, tolerance)
        if routing.key.size != loads.n_keys:
            raise InputError(
                "routing", "a shard on several lanes", "every shard whole on one lane",
                "Use qmmp or mnrt for split keys.",
            )  # fmt: skip
        alive = np.flatnonzero(routing.active)
        where = drain(loads.load, routing.target, routing.active)
        rank = np.zeros(routing.n_targets, dtype=np.int64)
        rank[alive] = np.arange(alive.size)
        result = balance_batch(
            loads.load[None, :],
            rank[where][None, :],
            np.array([alive.size]),
            1.0 + tau,
            min_gain=self.min_gain,
            hot_shard_guard=self.hot_shard_guard,
        )
        goal = alive[result.lane[0]].tolist()
        mean = float(loads.load.sum()) / alive.size
        heaviest = int(np.argmax(loads.load)) if loads.n_keys else 0
        why = "no single shard move lowers it; raise the tolerance or use more shards"
        if loads.n_keys and loads.load[heaviest] > (1 + tau) * mean:
            why = f"shard {heaviest} alone has load {loads.load[heaviest]:.6g}; split its hot key"
        return whole_key_plan(self.name, loads, routing, goal, tau, why)


def drain(load: FloatArray, lane: IntArray, active: np.ndarray) -> IntArray:
    """Empty the inactive lanes: heaviest shard first, each to the then least loaded active lane.

    load, lane: (S,); active: (L,) flags. Returns (S,) lanes after draining (Elasticutor, 2019, 3.2,
    "core REMOVED" [XP, D]). Ties to the lowest id.
    """
    where = lane.copy()
    leaving = np.flatnonzero(~np.asarray(active, dtype=bool)[lane])
    if leaving.size == 0:
        return where
    total = np.bincount(lane, weights=load, minlength=active.size)
    total[~np.asarray(active, dtype=bool)] = np.inf
    for shard in leaving[np.argsort(-load[leaving], kind="stable")].tolist():
        goal = int(total.argmin())
        where[shard] = goal
        total[goal] += load[shard]
    return where
