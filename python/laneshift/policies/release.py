"""When lanes that are not needed go: after a while, for load that goes may come back (ours [D])."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from laneshift.contract.partition_load import PartitionLoad
from laneshift.inputcheck import IntArray

RELEASE_AFTER_S = 10.0
"""Default of ``release_after_s`` (s): ten turns of the loop (ours)."""

RELEASE_BATCHES = 2
"""Of a micro-batch query, so many batches are long enough (ours): load that comes back is seen in
the next one."""

Name = TypeVar("Name", bound=str)


@dataclass(frozen=True, slots=True)
class Surplus:
    """Since when less was wanted than held (s, cluster load time), and the most wanted since."""

    since_s: float
    peak: int


def hold_back(
    names: Sequence[Name],
    wanted: IntArray,
    held: IntArray,
    known: Mapping[Name, Surplus],
    time_s: float,
    after_s: Sequence[float],
) -> tuple[IntArray, dict[Name, Surplus]]:
    """(counts, what to remember): what is held stays until less was wanted for ``after_s`` (s).

    Then it goes down to the most that was wanted meanwhile. All of them: (m,).
    """
    counts = wanted.copy()
    after: dict[Name, Surplus] = {}
    for j in np.flatnonzero(wanted < held).tolist():
        name, less = names[j], int(wanted[j])
        surplus = known.get(name, Surplus(time_s, less))
        surplus = Surplus(surplus.since_s, max(surplus.peak, less))
        if time_s - surplus.since_s >= after_s[j]:
            counts[j] = min(surplus.peak, int(held[j]))
        else:
            counts[j], after[name] = held[j], surplus
    return counts, after


def patience_s(part: PartitionLoad, after_s: float) -> float:
    """For how long fewer cores must have been enough for a partition (s), ``after_s`` at most."""
    if part.batch is None or not part.batch.paced:
        return after_s
    return min(after_s, RELEASE_BATCHES * part.batch.period_s)
