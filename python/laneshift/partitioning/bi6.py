"""Bi6: the bipartite join with subgroups per side (6 in the source).

Source: Data Distribution, 2017. The key picks the subgroup (so only equal keys must meet);
inside it storage is random and probing is a broadcast. Starts with one node per subgroup; the node
with the most to store gets the next one [A]. Big keys inside one subgroup are its weakness.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from laneshift import inputcheck
from laneshift.errors import InputError
from laneshift.partitioning.choices import mix64
from laneshift.partitioning.join_schemes import Volumes, scheme_plan, spread
from laneshift.partitioning.model import Loads, MovePlan, Routing, check_request


@dataclass(frozen=True)
class Bi6:
    """groups: subgroups per side, 6 in the source; a key's subgroup is a hash of ``join_key``."""

    name: ClassVar[str] = "bi6"

    groups: int = 6

    def __post_init__(self) -> None:
        inputcheck.whole("groups", self.groups, "The source uses 6.", low=1, high=10_000)

    def plan(self, loads: Loads, routing: Routing, tolerance: float) -> MovePlan:
        """Subgroup sizes and receive volume. Errors: fewer than 2 * groups active targets."""
        tau = check_request(loads, routing, tolerance)
        Volumes.of(self.name, loads)
        assert loads.side is not None  # Volumes.of has checked
        nodes = int(routing.active.sum())
        if nodes < 2 * self.groups:
            raise InputError(
                "targets", nodes, f"at least {2 * self.groups}",
                f"Each side needs one node per subgroup: add nodes or lower groups={self.groups}.",
            )  # fmt: skip
        ids = np.arange(loads.n_keys) if loads.join_key is None else loads.join_key
        group = mix64(ids, 6) % self.groups
        stored = np.zeros((2, self.groups))
        np.add.at(stored, (loads.side, group), loads.load)
        size = np.ones((2, self.groups), dtype=np.int64)
        for _ in range(nodes - 2 * self.groups):
            size.ravel()[int(np.argmax(stored / size))] += 1
        each = []
        for side in (0, 1):
            for g in range(self.groups):
                volume = stored[side, g] / size[side, g] + stored[1 - side, g]
                each += [float(volume)] * int(size[side, g])
        notes = {"groups": float(self.groups), "largest_group": float(size.max())}
        return scheme_plan(self.name, routing, spread(routing.active, each), tau, nodes, notes)
