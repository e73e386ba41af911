"""Storage and operation routing: Data Distribution, 2017, Algorithm 1; every sender runs it.

Storage routing picks the ONE target that keeps a tuple; operation routing gives ALL that must see
it. Weighted picking by q and the union of both result sets for non-equi predicates are [R].
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from laneshift import inputcheck
from laneshift.partitioning.model import KeyIndex, Routing, TargetId

__all__ = ["Delivery", "TupleRouting"]

#: p(k, k'): whether tuples of k and k' may join.
Predicate = Callable[[int, int], bool]


@dataclass(frozen=True)
class Delivery:
    """Where one tuple goes: every target in ``see``; only ``keep`` stores it."""

    keep: TargetId
    see: frozenset[TargetId]


class TupleRouting:
    """Routes tuples by F and Y; immutable, so a plan is applied by swapping the whole object."""

    def __init__(self, routing: Routing) -> None:
        self._home: list[int] = routing.home.tolist()
        self._table = routing.table()

    @property
    def table(self) -> dict[KeyIndex, dict[TargetId, float]]:
        """Y."""
        return self._table

    def storage(self, key: int, u: float) -> TargetId:
        """The target that stores a tuple of key, for a uniform draw u in [0, 1)."""
        inputcheck.whole("key", key, "Known keys only.", low=0, high=len(self._home) - 1)
        inputcheck.number("u", u, "Draw uniformly from [0, 1).", low=0.0, high=1.0)
        places = self._table.get(KeyIndex(key))
        if places is None:
            return TargetId(self._home[key])
        last = TargetId(self._home[key])
        for last, share in places.items():
            u -= share
            if u < 0:
                return last
        return last

    def operation(self, key: int) -> frozenset[TargetId]:
        """Equi predicate: every target that holds part of key."""
        places = self._table.get(KeyIndex(key))
        return frozenset(places) if places is not None else frozenset({TargetId(self._home[key])})

    def operation_theta(
        self, key: int, predicate: Predicate, keys: Iterable[int], *, tight: bool = False
    ) -> frozenset[TargetId]:
        """Any predicate: targets of every key in ``keys`` that may join with ``key``.

        tight [E]: skip the homes of keys that Y lists; the source sends there too (extra traffic).
        """
        seen: set[TargetId] = set()
        for other in keys:
            if predicate(key, other):
                places = self._table.get(KeyIndex(other))
                seen.update(places or ())
                if places is None or not tight:
                    seen.add(TargetId(self._home[other]))
        return frozenset(seen)

    def deliver(self, key: int, u: float) -> Delivery:
        """Equi-join: send to operation + storage, keep only on the storage target."""
        keep = self.storage(key, u)
        return Delivery(keep, self.operation(key) | {keep})

    def deliver_theta(
        self, key: int, u: float, predicate: Predicate, keys: Iterable[int]
    ) -> Delivery:
        """Non-equi join: as :meth:`deliver` with the predicate's operation routing."""
        keep = self.storage(key, u)
        return Delivery(keep, self.operation_theta(key, predicate, keys) | {keep})
