"""Dynamic: the matrix join. R goes along rows, S along columns, each tuple replicated over one.

Source: Data Distribution, 2017. Insensitive to skew and predicate; receive volume per node of
an a x b matrix is r/a + s/b [E]. The number of nodes is a power of two; growing turns 1 into 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from laneshift import inputcheck
from laneshift.errors import InputError
from laneshift.partitioning.join_schemes import Volumes, scheme_plan, spread
from laneshift.partitioning.model import Loads, MovePlan, Routing, check_request


@dataclass(frozen=True)
class Matrix:
    """rows x cols cells; an R tuple picks a row, an S tuple a column, both uniformly."""

    rows: int
    cols: int

    def cells(self, side: int, u: float) -> list[int]:
        """Cells (row * cols + col) that a tuple of ``side`` reaches, for a draw u in [0, 1)."""
        inputcheck.number("u", u, "Draw uniformly from [0, 1).", low=0.0, high=1.0 - 2**-53)
        if side == 0:
            row = int(u * self.rows)
            return [row * self.cols + c for c in range(self.cols)]
        col = int(u * self.cols)
        return [r * self.cols + col for r in range(self.rows)]

    def receive(self, volumes: Volumes) -> float:
        """Expected volume received per cell: r/rows + s/cols."""
        return volumes.r / self.rows + volumes.s / self.cols


def best_matrix(volumes: Volumes, nodes: int) -> Matrix:
    """Power-of-two rows x cols <= nodes with the least volume per cell; ties: more even sides."""
    power = int(np.log2(nodes))
    shapes = [Matrix(2**i, 2 ** (power - i)) for i in range(power + 1)]
    return min(shapes, key=lambda m: (m.receive(volumes), abs(m.rows - m.cols)))


@dataclass(frozen=True)
class Dynamic:
    """Uses the largest power of two of targets.

    capacity: load that one node can store; None: no limit. With a capacity the matrix grows from 1
    node by factors of 4 until a cell fits, as the source describes, and may leave nodes unused.
    """

    name: ClassVar[str] = "dynamic"

    capacity: float | None = None

    def __post_init__(self) -> None:
        if self.capacity is not None:
            inputcheck.number("capacity", self.capacity, "Load units.", low=0.0, low_open=True)

    def plan(self, loads: Loads, routing: Routing, tolerance: float) -> MovePlan:
        """Matrix and receive volume; no key moves. Errors: capacity that N nodes cannot offer."""
        tau = check_request(loads, routing, tolerance)
        volumes = Volumes.of(self.name, loads)
        available = int(routing.active.sum())
        nodes = 2 ** int(np.log2(available))
        if self.capacity is not None:
            nodes = self.nodes_needed(volumes, available)
        matrix = best_matrix(volumes, nodes)
        receive = spread(routing.active, [matrix.receive(volumes)] * nodes)
        notes = {"rows": float(matrix.rows), "cols": float(matrix.cols)}
        return scheme_plan(self.name, routing, receive, tau, nodes, notes)

    def nodes_needed(self, volumes: Volumes, available: int) -> int:
        """1, 4, 16, ... until r/rows + s/cols fits the capacity."""
        assert self.capacity is not None  # the caller checks
        nodes = 1
        while best_matrix(volumes, nodes).receive(volumes) > self.capacity:
            nodes *= 4
            if nodes > available:
                raise InputError(
                    "capacity", self.capacity, f"room for the join on {available} nodes",
                    f"The matrix would need at least {nodes} nodes: add some or shrink the window.",
                )  # fmt: skip
        return nodes
