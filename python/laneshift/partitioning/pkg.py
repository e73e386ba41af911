"""PKG, partial key grouping: two fixed targets per key, each tuple to the less loaded of the two.

Source: Data Distribution, 2017. No migration, hence no planning time; aggregations only, no
joins. The second hash and the fluid shares are ours [A].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from laneshift.partitioning.choices import (
    TupleRouter,
    first_choice,
    fluid_shares,
    scatter_plan,
    second_choice,
)
from laneshift.partitioning.model import Loads, MovePlan, Routing, check_request


@dataclass(frozen=True)
class Pkg:
    """Split every key over two targets (home and a second hash); the shares are a long-run mean."""

    name: ClassVar[str] = "pkg"

    def plan(self, loads: Loads, routing: Routing, tolerance: float) -> MovePlan:
        """Long-run shares; infeasible when the two choices of hot keys cannot carry them."""
        tau = check_request(loads, routing, tolerance)
        alive = np.flatnonzero(routing.active)
        none = np.zeros(0, dtype=np.int64)
        first, second = first_choice(routing), second_choice(routing)
        shares = fluid_shares(loads, first, second, none, routing.n_targets, alive)
        why = "two targets per key are too few for the hottest keys; use w-choices, qmmp or mnrt"
        return scatter_plan(self.name, loads, routing, shares, tau, why)

    def router(self, routing: Routing) -> TupleRouter:
        """Exact tuple-by-tuple router over the same candidates."""
        alive = np.flatnonzero(routing.active)
        sent = np.zeros(routing.n_targets)
        return TupleRouter(first_choice(routing), second_choice(routing), frozenset(), alive, sent)
