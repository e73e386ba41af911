"""The costs O1..O4 of Data Distribution, 2017, measured as its [E] column says."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from laneshift.partitioning.model import Loads, MovePlan, Routing, moved

__all__ = ["Costs", "costs", "receive_volume", "routing_costs"]


@dataclass(frozen=True)
class Costs:
    """table: |Y|, keys listed. records: (key, non-home target) pairs in Y. split: split keys.

    moved: sum of the moved amounts, load units. migration: sum of MC over the moves, bytes (O3).
    broadcast: sum (n_k - 1) * L(k), load units (O4). O1, the planning time, is for the caller.
    """

    table: int
    records: int
    split: int
    moved: float
    migration: float
    broadcast: float


def routing_costs(loads: Loads, routing: Routing) -> tuple[int, int, int, float]:
    """(table, records, split, broadcast) of a routing: what it costs after the plan (O2, O4)."""
    fragments = np.diff(routing.start)
    away_records = int((routing.target != routing.home[routing.key]).sum())
    broadcast = float(((fragments - 1) * loads.load).sum())
    return int(routing.away.sum()), away_records, int((fragments > 1).sum()), broadcast


def costs(loads: Loads, plan: MovePlan) -> Costs:
    """O2, O3 and O4 of a plan for the loads that it was made for.

    >>> from laneshift_lab.partitioning import partitioner
    >>> loads, home = Loads.of([6.0, 2.0]), Routing.at_home([0, 1], 2)
    >>> costs(loads, partitioner("qmmp").plan(loads, home, 0.0)).broadcast
    6.0
    """
    table, records, split, broadcast = routing_costs(loads, plan.routing)
    migration = 0.0
    for m in plan.moves:
        load = float(loads.load[m.key])
        share = m.amount / load if load > 0 else 1.0
        migration += float(loads.state[m.key]) * share
    return Costs(table, records, split, moved(plan.moves), migration, broadcast)


def receive_volume(loads: Loads, routing: Routing) -> float:
    """Mean load received per active target, equi-join: Lbar * (1 + O4 / total) [E]."""
    fragments = np.diff(routing.start)
    return float((fragments * loads.load).sum()) / int(routing.active.sum())
