"""Readj: move or swap only the heavy keys, pair by pair; light keys go back to their hash target.

Source: Data Distribution, 2017. Not given there, ours [A]: the heavy-key threshold, the
pairing order (most loaded with each lighter target, lightest first) and the stop rule.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from laneshift import inputcheck
from laneshift.inputcheck import FloatArray, IntArray
from laneshift.partitioning.balancer import drain
from laneshift.partitioning.holdings import whole_key_plan
from laneshift.partitioning.model import REL_EPS, Loads, MovePlan, Routing, check_request


@dataclass(frozen=True)
class Readj:
    """Keys are indivisible, so a key heavier than UL makes the tolerance unreachable.

    heavy_share: a key is heavy when its load exceeds this share of the mean target load [A].
    halvings:    how often the threshold is halved when the tolerance is not reached [A].
    """

    name: ClassVar[str] = "readj"

    heavy_share: float = 0.05
    halvings: int = 6

    def __post_init__(self) -> None:
        inputcheck.number("heavy_share", self.heavy_share, "Try 0.05.", low=0.0, high=1.0)
        inputcheck.whole("halvings", self.halvings, "Try 6.", low=0, high=60)

    def plan(self, loads: Loads, routing: Routing, tolerance: float) -> MovePlan:
        """Plan for the tolerance; split keys are first gathered on their largest holder.

        The note ``considered`` counts the moves and swaps that the brute force looked at.
        """
        tau = check_request(loads, routing, tolerance)
        mean = float(loads.load.sum()) / int(routing.active.sum())
        start = drain(loads.load, _gathered(routing), routing.active)
        limit = (1.0 + tau) * mean + REL_EPS * mean
        share = self.heavy_share
        best, considered = start, 0
        for attempt in range(self.halvings + 1):
            heavy = loads.load > share * mean
            where = drain(loads.load, np.where(heavy, start, routing.home), routing.active)
            total = _totals(loads, where, routing)
            where, pairs = _improve(loads.load, where, total, heavy, routing.active, limit)
            considered += pairs
            if attempt == 0 or _peak(loads, where, routing) < _peak(loads, best, routing):
                best = where
            if _peak(loads, best, routing) <= limit:
                break
            share /= 2.0
        why = "keys are indivisible here; use mnrt or qmmp, or raise the tolerance"
        plan = whole_key_plan(self.name, loads, routing, best.tolist(), tau, why)
        return replace(plan, notes={"considered": float(considered)})


def _gathered(routing: Routing) -> IntArray:
    order = np.lexsort((routing.target, -routing.share, routing.key))
    return routing.target[order][routing.start[:-1]]


def _totals(loads: Loads, where: IntArray, routing: Routing) -> FloatArray:
    total = np.bincount(where, weights=loads.load, minlength=routing.n_targets)
    return total.astype(np.float64)


def _peak(loads: Loads, where: IntArray, routing: Routing) -> float:
    return float(_totals(loads, where, routing).max())


def _improve(
    load: FloatArray,
    where: IntArray,
    total: FloatArray,
    heavy: np.ndarray,
    active: np.ndarray,
    limit: float,
) -> tuple[IntArray, int]:
    """Best move or swap between the most loaded target and a lighter one, until none helps.

    Returns where the keys are then, and how many moves and swaps were considered.
    """
    alive, considered = np.flatnonzero(active), 0
    while True:
        hi = int(alive[np.argmax(total[alive])])
        if total[hi] <= limit:
            return where, considered
        mine = np.flatnonzero(heavy & (where == hi))
        for lo in alive[np.argsort(total[alive], kind="stable")].tolist():
            if lo == hi:
                continue
            theirs = np.flatnonzero(heavy & (where == lo))
            considered += mine.size * (1 + theirs.size)
            if _best_exchange(load, where, total, mine, theirs, hi, lo):
                break
        else:
            return where, considered


def _best_exchange(
    load: FloatArray,
    where: IntArray,
    total: FloatArray,
    mine: IntArray,
    theirs: IntArray,
    hi: int,
    lo: int,
) -> bool:
    """Brute force over moves (swap with nothing) and swaps; apply the best that lowers the peak."""
    if mine.size == 0:
        return False
    back = np.concatenate([[0.0], load[theirs]])
    shift = load[mine][:, None] - back[None, :]
    peak = np.maximum(total[hi] - shift, total[lo] + shift)
    i, j = np.unravel_index(int(np.argmin(peak)), peak.shape)
    if peak[i, j] >= total[hi] * (1 - REL_EPS):
        return False
    where[mine[i]] = lo
    if j > 0:
        where[theirs[j - 1]] = hi
    total[hi] -= shift[i, j]
    total[lo] += shift[i, j]
    return True
