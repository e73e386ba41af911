"""Adding and removing targets (Data Distribution, 2017; details [E])."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from laneshift import inputcheck
from laneshift.errors import InputError
from laneshift.inputcheck import IntArray
from laneshift.partitioning.choices import mix64
from laneshift.partitioning.model import Routing

__all__ = ["add_targets", "jump_hash", "remove_target"]


def add_targets(routing: Routing, count: int, new_home: ArrayLike) -> Routing:
    """The routing right after growing by ``count`` blank targets under a new base function.

    new_home: (K,) homes under F'. Nothing has moved yet: keys whose home changed get Y entries at
    once, so that storage routing finds their state; a partitioner then brings them home.
    """
    more = inputcheck.whole("count", count, "Add at least one target.", low=1)
    n = routing.n_targets + more
    homes = inputcheck.indices(
        "new_home", new_home, f"Homes are targets 0..{n - 1}.", below=n, size=routing.home.size
    )
    active = np.concatenate([routing.active, np.ones(more, dtype=bool)])
    return Routing(homes, routing.key, routing.target, routing.share, active)


def remove_target(routing: Routing, target: int, new_home: ArrayLike) -> Routing:
    """The routing with ``target`` marked for removal (UL = 0) and homes under F' without it.

    Target ids stay, so plans and tables need no renumbering. Errors: the last active target, an
    inactive one, a new home that is not active.
    """
    t = inputcheck.whole("target", target, "Give a target id.", low=0, high=routing.n_targets - 1)
    active = routing.active.copy()
    if not active[t]:
        raise InputError("target", t, "an active target", "It is being removed already.")
    active[t] = False
    if not active.any():
        raise InputError("target", t, "not the last active target", "Add another one first.")
    homes = inputcheck.indices(
        "new_home", new_home, "Rehash.", below=routing.n_targets, size=routing.home.size
    )
    wrong = np.flatnonzero(~active[homes])
    if wrong.size:
        k = int(wrong[0])
        raise InputError(f"new_home[{k}]", int(homes[k]), "an active target", "Rehash this key.")
    return Routing(homes, routing.key, routing.target, routing.share, active)


def jump_hash(keys: IntArray, n_targets: int) -> IntArray:
    """(K,) consistent homes in [0, n): growing n by one moves about 1/(n+1) of the keys.

    Jump consistent hash [XK] over a mixed key id; the paper asks for a consistent base function,
    since with modulo almost every key changes home.

    >>> keys = np.arange(10_000)
    >>> float((jump_hash(keys, 9) != jump_hash(keys, 10)).mean().round(2))
    0.1
    """
    n = inputcheck.whole("n_targets", n_targets, "Give at least one target.", low=1)
    state = mix64(np.asarray(keys, dtype=np.int64), 11).astype(np.uint64)
    home = np.zeros(state.size, dtype=np.int64)
    jump = np.zeros(state.size, dtype=np.int64)
    alive = np.arange(state.size)
    while alive.size:
        home[alive] = jump[alive]
        state[alive] = state[alive] * np.uint64(2862933555777941757) + np.uint64(1)
        draw = ((state[alive] >> np.uint64(33)) + np.uint64(1)).astype(np.float64)
        jump[alive] = ((home[alive] + 1) * (2.0**31 / draw)).astype(np.int64)
        alive = alive[jump[alive] < n]
    return home
