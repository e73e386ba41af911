"""Remote lanes and NICs: how much of the lanes' potential the links let through.

Every row for a remote lane leaves its partition's home and enters the lane's node; its output comes
back. Links are full duplex, shared in proportion to demand (a fluid approximation of TCP fairness).
Executor-centric only: resource-centric and static upstreams send straight to the right node [S].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from laneshift.inputcheck import FloatArray, IntArray, sums


@dataclass(frozen=True)
class Remote:
    """The remote lanes of a layout: slots, their home and own nodes, bytes per row in and out."""

    slots: IntArray
    home: IntArray
    node: IntArray
    bytes_in: FloatArray
    bytes_out: FloatArray

    def admit(
        self, rows: FloatArray, out_used: FloatArray, in_used: FloatArray, budget: float
    ) -> tuple[FloatArray, float]:
        """Scale down ``rows`` (M,) of remote lanes to what the links carry in this step.

        out_used, in_used: (N,) bytes per node already taken, updated in place; budget: bytes per
        node and direction. Returns the scaled rows and the remote bytes (both hops).
        """
        if self.slots.size == 0:
            return rows, 0.0
        mine = rows[self.slots]
        forth, back = mine * self.bytes_in, mine * self.bytes_out
        n = out_used.size
        demand_out = sums(self.home, forth, n)
        demand_out += sums(self.node, back, n)
        demand_in = sums(self.node, forth, n)
        demand_in += sums(self.home, back, n)
        out_ok = _share(budget - out_used, demand_out)
        in_ok = _share(budget - in_used, demand_in)
        factor = np.minimum(
            np.minimum(out_ok[self.home], in_ok[self.node]),
            np.minimum(out_ok[self.node], in_ok[self.home]),
        )
        rows = rows.copy()
        rows[self.slots] = mine * factor
        out_used += sums(self.home, forth * factor, n)
        out_used += sums(self.node, back * factor, n)
        in_used += sums(self.node, forth * factor, n)
        in_used += sums(self.home, back * factor, n)
        return rows, float(((forth + back) * factor).sum())


def _share(room: FloatArray, demand: FloatArray) -> FloatArray:
    left = np.maximum(room, 0.0)
    ones = np.ones_like(demand)
    share: FloatArray = np.divide(left, demand, out=ones, where=demand > left)
    return share
