"""QMMP, "quickly make migration plan": planning time (O1) only, keys are split freely.

Source: Data Distribution, 2017, Algorithms 2 and 3; cursors and the net plan are [E].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from laneshift.inputcheck import FloatArray, IntArray
from laneshift.partitioning.holdings import DUST
from laneshift.partitioning.limits import Limits
from laneshift.partitioning.model import (
    KeyIndex,
    Loads,
    Move,
    MovePlan,
    Routing,
    TargetId,
    check_request,
    splits_of,
    verdict,
)


@dataclass(frozen=True)
class Qmmp:
    """Cut every overloaded target at exactly UL, fill low targets up to the mean.

    Keys are taken in id order, no choice. O(K + N) with two cursors [E] (the source: O(K)).
    Properties [E][C]: every overloaded target ends at UL; the volume moved is the minimum of any
    valid plan, sum max(0, L - UL); always feasible; never merges or returns keys on purpose.
    integer: loads are whole tuples and stay whole (cap and fill level rounded, see ``Limits``).
    """

    name: ClassVar[str] = "qmmp"

    integer: bool = False

    def plan(self, loads: Loads, routing: Routing, tolerance: float) -> MovePlan:
        """Plan for tau_max = ``tolerance``; see :class:`Partitioner`."""
        tau = check_request(loads, routing, tolerance)
        limits = Limits.of(loads, routing, tau, self.integer)
        held = _leave_removed(loads, routing)
        amount = loads.load[held.key] * held.share
        load = held.target_load(loads)
        rows, taken = _unload(held, amount, load, limits)
        load -= np.bincount(held.target[rows], weights=taken, minlength=held.n_targets)
        piece, target, part = _load(taken, load, held, limits)
        left = amount.copy()
        left[rows] -= taken
        after = _rebuild(loads, held, left, held.key[rows[piece]], target, part)
        moves = _idle_moves(routing, held) + [
            Move(KeyIndex(k), x, TargetId(s), TargetId(t))
            for k, x, s, t in zip(
                held.key[rows[piece]].tolist(), part.tolist(), held.target[rows[piece]].tolist(),
                target.tolist(), strict=True,
            )
        ]  # fmt: skip
        feasible, reason = verdict(loads, after, tau, "rounding left a piece without room")
        return MovePlan(self.name, tuple(moves), splits_of(after), after, feasible, reason)


def _leave_removed(loads: Loads, routing: Routing) -> Routing:
    """[E] keys without load have no excess to unload: off a removed target they go home whole."""
    idle = (loads.load[routing.key] == 0.0) & ~routing.active[routing.target]
    if not idle.any():
        return routing
    spare = int(np.flatnonzero(routing.active)[0])
    homes = np.where(routing.active[routing.home], routing.home, spare)
    target = np.where(idle, homes[routing.key], routing.target)
    pair = routing.key * routing.n_targets + target
    unique, where = np.unique(pair, return_inverse=True)
    share = np.bincount(where, weights=routing.share).astype(np.float64)
    return Routing(
        routing.home, unique // routing.n_targets, unique % routing.n_targets, share, routing.active
    )


def _idle_moves(before: Routing, after: Routing) -> list[Move]:
    if before is after:
        return []
    gone = np.flatnonzero(~before.active[before.target])
    rows = [(int(before.key[i]), TargetId(int(before.target[i]))) for i in gone]
    return [
        Move(KeyIndex(k), 0.0, t, next(iter(after.places(k))))
        for k, t in rows
        if t not in after.places(k)
    ]


def _unload(
    held: Routing, amount: FloatArray, load: FloatArray, limits: Limits
) -> tuple[IntArray, FloatArray]:
    """(rows, amounts) of the pool: per overloaded target, keys in id order up to the excess."""
    order = np.argsort(held.target, kind="stable")
    excess = load - np.asarray(limits.cap)
    excess[excess <= limits.eps] = 0.0
    upto = np.cumsum(amount[order])
    first = np.searchsorted(held.target[order], np.arange(held.n_targets))
    base = np.where(first > 0, upto[np.maximum(first - 1, 0)], 0.0)
    mine = amount[order]
    before = upto - mine - base[held.target[order]]
    taken = np.clip(excess[held.target[order]] - before, 0.0, mine)
    taken[mine - taken <= limits.eps * 1e-3] = mine[mine - taken <= limits.eps * 1e-3]
    taken[excess[held.target[order]] <= 0.0] = 0.0
    chosen = taken > limits.eps * 1e-3
    return order[chosen], taken[chosen]


def _load(
    taken: FloatArray, load: FloatArray, held: Routing, limits: Limits
) -> tuple[IntArray, IntArray, FloatArray]:
    """(piece, target, amount): two cursors, over the pool and over targets below the mean."""
    room = np.where(held.active, np.maximum(limits.fill - load, 0.0), 0.0)
    room[room <= limits.eps] = 0.0
    low = np.flatnonzero(room)
    if taken.size == 0 or low.size == 0:
        none = np.zeros(0, dtype=np.int64)
        return none, none, np.zeros(0)
    pool_end, room_end = np.cumsum(taken), np.cumsum(room[low])
    ends = np.unique(np.concatenate([pool_end, room_end[room_end < pool_end[-1]]]))
    part = np.diff(np.concatenate([[0.0], ends]))
    middle = ends - part / 2
    piece = np.minimum(np.searchsorted(pool_end, middle), taken.size - 1)
    target = low[np.minimum(np.searchsorted(room_end, middle), low.size - 1)]
    real = part > limits.eps * 1e-3
    return piece[real], target[real], part[real]


def _rebuild(
    loads: Loads, held: Routing, left: FloatArray, key: IntArray, target: IntArray, part: FloatArray
) -> Routing:
    """Fragments from what is left plus what was loaded; shares are amounts over the key's load."""
    load = loads.load[held.key]
    stay = (left > DUST * load) | (load == 0.0)
    share = np.where(load > 0, left / np.where(load > 0, load, 1.0), held.share)
    pair = np.concatenate(
        [(held.key * held.n_targets + held.target)[stay], key * held.n_targets + target]
    )
    added = part / np.where(loads.load[key] > 0, loads.load[key], 1.0)
    unique, where = np.unique(pair, return_inverse=True)
    shares = np.bincount(where, weights=np.concatenate([share[stay], added]))
    keys = unique // held.n_targets
    total = np.bincount(keys, weights=shares, minlength=held.home.size)
    return Routing(held.home, keys, unique % held.n_targets, shares / total[keys], held.active)
