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

from laneshift.models.assignment import Demand
from laneshift.models.checks import integer, number
from laneshift.models.migration import FloatArray, IntArray


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
    limit = integer("most_swaps", most_swaps, low=0)
    work = _Swaps(demand, placement, horizon)
    for _ in range(limit):
        if not work.best_swap():
            break
    return work.held[1:]


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
        self._lose = np.zeros(self.held.shape)
        self._gain = np.zeros(self.held.shape)
        for row in range(len(self.held)):
            self._refresh(row)
        self._tolerance = 1e-9 * max(1.0, float(self._state.sum()))
        # Only partitions that change or have remote traffic can start an exchange that pays.
        changed = (placement != old).any(axis=1)
        abroad = ((self.held[1:] > 0) & (self._rent[1:] > 0)).any(axis=1)
        self._start = [int(j) + 1 for j in np.flatnonzero(changed | abroad)]

    def best_swap(self) -> bool:
        """Make the exchange that saves most; False if none saves anything.

        Partition j on node r and partner p on node h cost lose[j,r] + gain[j,h] + lose[p,h] +
        gain[p,r]. The best partner for (r, h) is the same for all j, so it is looked up once per r.
        """
        best, chosen = -self._tolerance, None
        start = np.array(self._start, dtype=np.int64)
        for away in np.flatnonzero((self.held[start] > 0).any(axis=0)).tolist():
            rows = start[self.held[start, away] > 0]
            pairs = self._lose + self._gain[:, away : away + 1]
            pairs[:, away] = np.inf
            partner = pairs.argmin(axis=0)
            # No partition is its own partner: then the second best one is.
            first, second = np.partition(pairs, 1, axis=0)[:2]
            cost = np.where(partner[None, :] == rows[:, None], second, first)
            delta = self._gain[rows] + cost + self._lose[rows, away : away + 1]
            where = int(delta.argmin())
            value = float(delta.flat[where])
            if value < best:
                at, node = divmod(where, delta.shape[1])
                row = int(rows[at])
                candidates = pairs[:, node].copy()
                candidates[row] = np.inf
                best, chosen = value, (row, away, int(candidates.argmin()), node)
        if chosen is None:
            return False
        row, away, other, node = chosen
        self.held[row, away] -= 1
        self.held[row, node] += 1
        self.held[other, node] -= 1
        self.held[other, away] += 1
        self._refresh(row)
        self._refresh(other)
        return True

    def _refresh(self, row: int) -> None:
        """Cost of one core less / more on each node, the total of the row unchanged."""
        held, total = self.held[row], float(self._total[row])
        state, share = float(self._state[row]), self._share[row]
        now = _leaving(share, held, total)
        less = _leaving(share, held - 1, total) - now
        more = _leaving(share, held + 1, total) - now
        self._lose[row] = np.where(held > 0, state * less - self._rent[row], np.inf)
        self._gain[row] = state * more + self._rent[row]


def _leaving(share: FloatArray, held: IntArray, total: float) -> FloatArray:
    return np.maximum(0.0, share - held / total)
