"""Candidate targets by independent hashes, and least-loaded sending (shared by pkg, w-choices)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from laneshift.inputcheck import FloatArray, IntArray
from laneshift.partitioning.model import (
    KeyIndex,
    Loads,
    Move,
    MovePlan,
    Routing,
    TargetId,
    splits_of,
    verdict,
)

#: Rounds of the fluid approximation: each key sends 1/ROUNDS of its load per round.
ROUNDS = 64


def mix64(values: IntArray, seed: int) -> IntArray:
    """splitmix64 finaliser of ``values``, as non-negative int64; independent for each seed."""
    x = values.astype(np.uint64) + np.uint64((seed * 0x9E3779B97F4A7C15) % 2**64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: IntArray = ((x ^ (x >> np.uint64(31))) >> np.uint64(1)).astype(np.int64)
    return mixed


def second_choice(routing: Routing) -> IntArray:
    """(K,) a second active target per key, different from the first choice where N > 1."""
    alive = np.flatnonzero(routing.active)
    first = first_choice(routing)
    if alive.size == 1:
        return first
    rank = np.zeros(routing.n_targets, dtype=np.int64)
    rank[alive] = np.arange(alive.size)
    step = 1 + mix64(np.arange(first.size), 2) % (alive.size - 1)
    second: IntArray = alive[(rank[first] + step) % alive.size]
    return second


def first_choice(routing: Routing) -> IntArray:
    """(K,) home if it is active, else a hashed active target."""
    alive = np.flatnonzero(routing.active)
    other = alive[mix64(np.arange(routing.home.size), 1) % alive.size]
    return np.where(routing.active[routing.home], routing.home, other)


def fluid_shares(loads: Loads, first: IntArray, second: IntArray, free: IntArray, n: int,
                 alive: IntArray) -> FloatArray:  # fmt: skip
    """(K, N) shares when every tuple goes to the less loaded candidate; approximates a long stream.

    ``free``: keys that may use every active target. Keys send in ROUNDS rounds, largest first.
    """
    got = np.zeros((loads.n_keys, n))
    total = np.zeros(n)
    order = np.argsort(-loads.load, kind="stable")
    open_keys = set(free.tolist())
    part = (loads.load / ROUNDS).tolist()
    a, b = first.tolist(), second.tolist()
    big = [k for k in order.tolist() if k in open_keys]
    tail = order[~np.isin(order, free)]
    heavy, light = tail[:512].tolist(), tail[512:]
    for _ in range(ROUNDS):
        for k in big:
            t = int(alive[np.argmin(total[alive])])
            got[k, t] += 1
            total[t] += part[k]
        for k in heavy:
            t = a[k] if total[a[k]] <= total[b[k]] else b[k]
            got[k, t] += 1
            total[t] += part[k]
        for chunk in np.array_split(light, 8) if light.size else []:
            goal = np.where(
                total[first[chunk]] <= total[second[chunk]], first[chunk], second[chunk]
            )
            got[chunk, goal] += 1
            total += np.bincount(goal, weights=loads.load[chunk] / ROUNDS, minlength=n)
    return got / ROUNDS


def scatter_plan(
    partitioner: str, loads: Loads, routing: Routing, shares: FloatArray, tolerance: float, why: str
) -> MovePlan:
    """Plan without migration: shares apply to tuples that arrive from now on.

    Only keys on removed targets move (to their largest new holder).
    """
    key, target = np.nonzero(shares > 0)
    after = Routing(routing.home, key, target, shares[key, target], routing.active)
    gone = np.flatnonzero(~routing.active[routing.target])
    moves = []
    for row in gone.tolist():
        k = int(routing.key[row])
        amount = float(loads.load[k] * routing.share[row])
        goal = int(np.argmax(shares[k]))
        moves.append(_move(k, amount, int(routing.target[row]), goal))
    feasible, reason = verdict(loads, after, tolerance, why)
    return MovePlan(partitioner, tuple(moves), splits_of(after), after, feasible, reason)


def _move(key: int, amount: float, source: int, target: int) -> Move:
    return Move(KeyIndex(key), amount, TargetId(source), TargetId(target))


@dataclass
class TupleRouter:
    """Exact least-loaded sending of a stream, tuple by tuple: the reference for the fluid shares.

    first, second: (K,) candidates; free: keys that may use all of ``alive``; sent: (N,) counts.
    """

    first: IntArray
    second: IntArray
    free: frozenset[int]
    alive: IntArray
    sent: FloatArray

    def route(self, key: int) -> int:
        """Target of the next tuple of key (ties: first choice, then lowest id)."""
        if key in self.free:
            t = int(self.alive[np.argmin(self.sent[self.alive])])
        else:
            a, b = int(self.first[key]), int(self.second[key])
            t = a if self.sent[a] <= self.sent[b] else b
        self.sent[t] += 1
        return t
