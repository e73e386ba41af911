"""Bi: the bipartite join. One side of nodes stores R, the other S; probes go to all of the other.

Source: Data Distribution, 2017; receive volume [E]: an R node r/n_R + s, an S node s/n_S + r.
Each side starts with one node; n_R : n_S follows the stored volumes (memory-driven) [A].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from laneshift.errors import InputError
from laneshift.partitioning.join_schemes import Volumes, scheme_plan, spread
from laneshift.partitioning.model import Loads, MovePlan, Routing, check_request


def side_sizes(volumes: Volumes, nodes: int) -> tuple[int, int]:
    """(n_R, n_S), both >= 1, sum ``nodes``, with the least maximum stored volume per node."""
    options = [(n, nodes - n) for n in range(1, nodes)]
    return min(options, key=lambda o: (max(volumes.r / o[0], volumes.s / o[1]), o[0]))


@dataclass(frozen=True)
class Bi:
    """Random storage on the own side, broadcast to the other side for probing."""

    name: ClassVar[str] = "bi"

    def plan(self, loads: Loads, routing: Routing, tolerance: float) -> MovePlan:
        """Sides and receive volume; no key moves. Errors: fewer than two active targets."""
        tau = check_request(loads, routing, tolerance)
        volumes = Volumes.of(self.name, loads)
        nodes = int(routing.active.sum())
        if nodes < 2:
            raise InputError("targets", nodes, "at least 2", "One node per stream is the least.")
        n_r, n_s = side_sizes(volumes, nodes)
        each = [volumes.r / n_r + volumes.s] * n_r + [volumes.s / n_s + volumes.r] * n_s
        notes = {"n_r": float(n_r), "n_s": float(n_s)}
        return scheme_plan(self.name, routing, spread(routing.active, each), tau, nodes, notes)
