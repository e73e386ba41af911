"""Symmetric join over split keys: naive, and exact under any delivery order.

[E] of Data Distribution, 2017, condition 1: number the tuples, store first, pair a stored
tuple with a probing one only where stored.seq < probing.seq, and probe only once all lower numbers
have arrived (a micro-batch or epoch barrier).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Pair = tuple[int, int]


@dataclass(frozen=True)
class Item:
    """One tuple at one target: seq number, stream side 0 or 1, key, and whether it is kept here."""

    seq: int
    side: int
    key: int
    keep: bool


@dataclass
class NaiveTarget:
    """Probe, then store, in arrival order: loses or repeats pairs when targets differ in order."""

    joins: Callable[[int, int], bool]
    stored: list[Item] = field(default_factory=list)

    def run(self, arrivals: Sequence[Item]) -> Counter[Pair]:
        """Pairs (lower seq, higher seq) emitted here."""
        out: Counter[Pair] = Counter()
        for item in arrivals:
            for other in self.stored:
                if other.side != item.side and self.joins(other.key, item.key):
                    out[min(other.seq, item.seq), max(other.seq, item.seq)] += 1
            if item.keep:
                self.stored.append(item)
        return out


@dataclass
class OrderedTarget:
    """Store on arrival; probe per epoch, against lower numbers only."""

    joins: Callable[[int, int], bool]
    stored: list[Item] = field(default_factory=list)

    def run(self, epoch: Sequence[Item]) -> Counter[Pair]:
        """All of this target's arrivals of one epoch, any order; earlier epochs are complete."""
        self.stored += [item for item in epoch if item.keep]
        out: Counter[Pair] = Counter()
        for item in epoch:
            for other in self.stored:
                if (
                    other.seq < item.seq
                    and other.side != item.side
                    and self.joins(other.key, item.key)
                ):
                    out[other.seq, item.seq] += 1
        return out


def reference(items: Sequence[Item], joins: Callable[[int, int], bool]) -> Counter[Pair]:
    """All joining pairs of the unsplit stream, each once."""
    out: Counter[Pair] = Counter()
    for i, a in enumerate(items):
        for b in items[i + 1 :]:
            if a.side != b.side and joins(a.key, b.key):
                out[min(a.seq, b.seq), max(a.seq, b.seq)] += 1
    return out
