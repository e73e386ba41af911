"""Conditions under which split keys keep results exact ([E] of Data Distribution, 2017).

Each function returns the violations it finds as sentences; an empty list means "holds".
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np

from laneshift.partitioning.model import REL_EPS, Loads, Move, MovePlan, Routing
from laneshift_lab.partitioning.tuple_routing import Predicate, TupleRouting

__all__ = [
    "apply_moves",
    "join_violations",
    "merge_violations",
    "order_violations",
    "plan_violations",
    "table_violations",
]

T = TypeVar("T")


def table_violations(routing: Routing) -> list[str]:
    """Y invariants (ours): shares sum to 1, holders listed once, removed targets empty."""
    found = []
    total = np.bincount(routing.key, weights=routing.share, minlength=routing.home.size)
    for k in np.flatnonzero(np.abs(total - 1.0) > REL_EPS).tolist():
        found.append(f"key {k}: shares sum to {total[k]:.12g}, not 1")
    pairs = routing.key * routing.n_targets + routing.target
    if np.unique(pairs).size != pairs.size:
        found.append("a target is listed twice for one key")
    if (routing.share < 0).any():
        found.append("a share is negative")
    for k in np.unique(routing.key[~routing.active[routing.target]]).tolist():
        found.append(f"key {k} is on a removed target")
    return found


def join_violations(
    routing: TupleRouting, keys: Sequence[int], predicate: Predicate | None = None
) -> list[str]:
    """Every pair must meet: the operation targets of k cover all storage targets of each partner.

    predicate None: equi-join. Stored once (storage picks one) plus covered everywhere means each
    pair meets at exactly one target, where the earlier tuple is stored.
    """
    found = []
    for k in keys:
        partners = [k] if predicate is None else [j for j in keys if predicate(k, j)]
        seen = (
            routing.operation(k)
            if predicate is None
            else routing.operation_theta(k, predicate, keys)
        )
        for j in partners:
            missed = routing.operation(j) - seen
            if missed:
                found.append(f"tuples of key {k} do not reach key {j} on targets {sorted(missed)}")
    return found


def order_violations(arrivals: Iterable[tuple[int, Sequence[int]]]) -> list[str]:
    """Condition 1: each target probes in sequence order. ``arrivals``: (target, sequence numbers).

    A violation means that naive "probe then store" may lose or duplicate pairs; use
    ``ordered_join`` (store first, pair only with lower numbers, epoch barrier).
    """
    found = []
    for target, numbers in arrivals:
        for a, b in itertools.pairwise(numbers):
            if b < a:
                found.append(f"target {target}: number {b} arrives after {a}")
                break
    return found


def merge_violations(
    merge: Callable[[T, T], T], zero: T, samples: Sequence[T], same: Callable[[T, T], bool]
) -> list[str]:
    """A split key's partial aggregates need an associative, commutative merge with a zero.

    Tests all pairs and triples of ``samples``; a counter-example means the key must not be split.
    """
    found = []
    for a in samples:
        if not (same(merge(a, zero), a) and same(merge(zero, a), a)):
            found.append(f"zero is not neutral for {a!r}")
        for b in samples:
            if not same(merge(a, b), merge(b, a)):
                found.append(f"not commutative for {a!r}, {b!r}")
            for c in samples:
                if not same(merge(merge(a, b), c), merge(a, merge(b, c))):
                    found.append(f"not associative for {a!r}, {b!r}, {c!r}")
    return found


def apply_moves(
    loads: Loads, routing: Routing, moves: Iterable[Move]
) -> dict[tuple[int, int], float]:
    """{(key, target): amount} after the moves; condition 3: state and load move together."""
    rows = zip(
        routing.key.tolist(), routing.target.tolist(),
        (loads.load[routing.key] * routing.share).tolist(), strict=True,
    )  # fmt: skip
    held = {(k, t): x for k, t, x in rows}
    for m in moves:
        held[m.key, m.source] = held.get((m.key, m.source), 0.0) - m.amount
        held[m.key, m.target] = held.get((m.key, m.target), 0.0) + m.amount
    return held


def plan_violations(loads: Loads, before: Routing, plan: MovePlan) -> list[str]:
    """The moves are a diff: they turn ``before`` into the plan's routing, and nothing else."""
    after = apply_moves(loads, before, plan.moves)
    wanted = apply_moves(loads, plan.routing, ())
    found = table_violations(plan.routing)
    for place in after.keys() | wanted.keys():
        a, b = after.get(place, 0.0), wanted.get(place, 0.0)
        if abs(a - b) > REL_EPS * max(float(loads.load[place[0]]), 1e-300):
            found.append(
                f"key {place[0]} on target {place[1]}: moves give {a:.9g}, routing {b:.9g}"
            )
    return found
