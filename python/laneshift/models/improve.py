"""Better placements by swapping pairs of cores (ours [D]).

Algorithm 1 takes one core at a time and never looks back: in most cases it is optimal, but a few
placements move many times the state that they need to. And it leaves remote cores of
data-intensive partitions where they are. Both are repaired by exchanges: partition j gives its
core on node r for a core on node h of partition j' (or for a free one). An exchange pays if

    payback_s * (remote traffic saved, bytes/s)  >  extra state moved, bytes

where a remote core costs its partition's data intensity d_j in traffic between nodes.
"""

from __future__ import annotations

import numpy as np

from laneshift.inputcheck import FloatArray, IntArray, number, whole
from laneshift.models.assignment import Demand


def improve(
    demand: Demand, placement: IntArray, payback_s: float = 60.0, most_swaps: int = 64
) -> IntArray:
    """``placement``, int (m, n), after the exchanges that pay, best first; counts stay the same.

    Args:
        demand: what the placement was made for; its ``placement`` is X~.
        placement: X, a valid answer.
        payback_s: time in which saved traffic must outweigh moved state (s, >= 0); 0 looks at
            state only.
        most_swaps: exchanges at most (>= 0).
    """
    horizon = number("payback_s", payback_s, low=0, unit="s")
    limit = whole("most_swaps", most_swaps, low=0)
    work = _Swaps(demand, placement, horizon)
    for _ in range(limit):
        if not work.best_swap():
            break
    return work.held[1:]


AT_ONCE = 1 << 16
"""Costs that are looked up in one go: as many as fit the processor's caches (ours)."""


class _Swaps:
    """Row 0 is FREE; rows as in `laneshift.models.assignment`."""

    def __init__(self, demand: Demand, placement: IntArray, horizon: float) -> None:
        free = demand.node_cores - placement.sum(axis=0)
        self.held = np.vstack([free[None, :], placement])
        old = demand.placement
        before = np.maximum(old.sum(axis=1), 1)[:, None]
        self._share = np.vstack([np.zeros((1, old.shape[1])), old / before])
        self._state = np.concatenate([[0.0], demand.state_bytes])
        self._total = np.maximum(self.held.sum(axis=1), 1)
        remote = np.ones(self.held.shape)
        remote[np.arange(1, len(self.held)), demand.homes] = 0.0
        # What a core of each row costs on each node while the horizon lasts.
        self._rent = remote * np.concatenate([[0.0], demand.data_intensity])[:, None] * horizon
        assert demand.kept is not None and demand.bound is not None
        self._kept = np.zeros_like(self.held)
        self._kept[np.arange(1, len(self.held)), demand.homes] = demand.kept
        # Where a row may have cores at all.
        self._open = np.ones(self.held.shape, dtype=bool)
        self._open[1:][demand.bound] = False
        self._open[np.arange(1, len(self.held)), demand.homes] = True
        self._lose = np.zeros(self.held.shape)
        self._gain = np.zeros(self.held.shape)
        self._refresh(np.arange(len(self.held)))
        self._tolerance = 1e-9 * max(1.0, float(self._state.sum()))
        # Only partitions that change or have remote traffic can start an exchange that pays.
        changed = (placement != old).any(axis=1)
        abroad = ((self.held[1:] > 0) & (self._rent[1:] > 0)).any(axis=1)
        self._start = np.flatnonzero(changed | abroad).astype(np.int32) + np.int32(1)
        # Best partner for an exchange of node r against node h, its cost, and the next best cost.
        nodes = old.shape[1]
        self._partner = np.empty((nodes, nodes), dtype=np.int32)
        self._first, self._second = np.empty((nodes, nodes)), np.empty((nodes, nodes))
        several = max(1, AT_ONCE // self.held.size)
        for start in range(0, nodes, several):
            some = np.arange(start, min(start + several, nodes))
            pairs = self._lose[:, None, :] + self._gain[:, some, None]
            found = _best_partners(pairs, some)
            self._partner[some], self._first[some], self._second[some] = found

    def best_swap(self) -> bool:
        """Make the exchange that saves most; False if none saves anything.

        Partition j on node r and partner p on node h cost lose[j,r] + gain[j,h] + lose[p,h] +
        gain[p,r]. The best partner for (r, h) is the same for all j.
        """
        away, at = np.nonzero(self.held[self._start].T > 0)
        if not away.size:
            return False
        rows = self._start[at]
        # No partition is its own partner: then the second best one is.
        delta = self._first.take(away, axis=0)
        own = self._partner.take(away, axis=0) == rows[:, None]
        np.copyto(delta, self._second.take(away, axis=0), where=own)
        delta += self._gain.take(rows, axis=0)
        delta += self._lose[rows, away][:, None]
        cell, node = divmod(int(delta.argmin()), delta.shape[1])
        if not delta[cell, node] < -self._tolerance:
            return False
        self._swap(int(rows[cell]), int(away[cell]), node)
        return True

    def _swap(self, row: int, away: int, node: int) -> None:
        partners = self._lose[:, node] + self._gain[:, away]
        partners[row] = np.inf
        other = int(partners.argmin())
        self.held[row, away] -= 1
        self.held[row, node] += 1
        self.held[other, node] -= 1
        self.held[other, away] += 1
        self._refresh(np.array([row, other]))
        self._look_up(np.array([away, node]))  # the costs of all other nodes are what they were

    def _look_up(self, nodes: IntArray) -> None:
        """Best partners for exchanges of ``nodes`` against all nodes, and of all against these."""
        count = nodes.size
        pairs = np.empty((self.held.shape[0], 2 * count, self.held.shape[1]))
        np.add(self._lose[:, None, :], self._gain[:, nodes, None], out=pairs[:, :count])
        np.add(self._gain[:, None, :], self._lose[:, nodes, None], out=pairs[:, count:])
        partner, first, second = _best_partners(pairs, np.tile(nodes, 2))
        self._partner[nodes], self._partner[:, nodes] = partner[:count], partner[count:].T
        self._first[nodes], self._first[:, nodes] = first[:count], first[count:].T
        self._second[nodes], self._second[:, nodes] = second[:count], second[count:].T

    def _refresh(self, rows: IntArray) -> None:
        """Cost of one core less / more on each node, the totals of ``rows`` unchanged."""
        held, total = self.held[rows], self._total[rows, None]
        state, share, rent = self._state[rows, None], self._share[rows], self._rent[rows]
        now = _leaving(share, held, total)
        less = _leaving(share, held - 1, total) - now
        more = _leaving(share, held + 1, total) - now
        self._lose[rows] = np.where(held > self._kept[rows], state * less - rent, np.inf)
        self._gain[rows] = np.where(self._open[rows], state * more + rent, np.inf)


def _best_partners(pairs: FloatArray, away: IntArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Of costs (m + 1, A, n), for ``away``, (A,), against all nodes: (partner, cost, next best)."""
    partner = pairs.argmin(axis=0)
    at = np.arange(away.size)
    cell = (partner, at[:, None], np.arange(pairs.shape[2]))
    first = pairs[cell]
    pairs[cell] = np.inf
    second = pairs.min(axis=0)
    first[at, away] = second[at, away] = np.inf  # no core is exchanged for one of the same node
    return partner, first, second


def _leaving(share: FloatArray, held: IntArray, total: IntArray) -> FloatArray:
    return np.maximum(0.0, share - held / total)
