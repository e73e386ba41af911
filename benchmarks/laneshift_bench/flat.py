"""Whether something grows: the slope of what was read of several processes, and its error.

A process that is killed is followed by another one at another level, so each has a level of its
own, and all have the slope together. Readings that follow each other are alike (a collection that
was not complete, a page that was not given back), and a line through all of them would know its
slope much too well: they are put together in blocks first, as long as there are enough.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BLOCKS = 8
"""Of a process's readings, at most."""
FEWEST = 4
"""Blocks that a process must have to count."""
SURE = 0.95
"""Confidence of the interval, both sides."""
FLAT, GROWS, UNKNOWN = "flat", "grows", "not known"


@dataclass(frozen=True, slots=True)
class Slope:
    """How something changes.

    Attributes:
        level: median of all readings that count, in their unit.
        per_hour: of the unit, for each hour.
        error: half the width of the interval that has the slope with a confidence of 95 %; inf
            if there is too little to tell.
        processes: that count.
        hours: of all of these together.
    """

    level: float
    per_hour: float
    error: float
    processes: int
    hours: float

    def verdict(self, allowed_per_hour: float) -> str:
        """Flat if the slope is sure to be no more than allowed; grows if it is sure to be more.

        What falls is flat.
        """
        if self.per_hour + self.error <= allowed_per_hour:
            return FLAT
        if self.per_hour - self.error > allowed_per_hour:
            return GROWS
        return UNKNOWN


NOTHING = Slope(math.nan, math.nan, math.inf, 0, 0.0)


def slope(series: Sequence[tuple[FloatArray, FloatArray]]) -> Slope:
    """One slope of several processes' readings, each process with a level of its own.

    Args:
        series: (hours, values) of each process, float64 (readings,), in the order of time.

    Processes with fewer than ``FEWEST`` readings do not count.
    """
    blocks = [_blocks(hours, values) for hours, values in series if len(hours) >= FEWEST]
    if not blocks:
        return NOTHING
    x = np.concatenate([hours - hours.mean() for hours, _ in blocks])
    y = np.concatenate([values - values.mean() for _, values in blocks])
    level = float(np.median(np.concatenate([values for _, values in blocks])))
    spread = float(x @ x)
    free = len(x) - len(blocks) - 1
    hours_all = float(sum(hours[-1] - hours[0] for hours, _ in series if len(hours) >= FEWEST))
    if spread == 0 or free < 1:
        return Slope(level, math.nan, math.inf, len(blocks), hours_all)
    per_hour = float(x @ y) / spread
    rest = y - per_hour * x
    error = student(free) * math.sqrt(float(rest @ rest) / free / spread)
    return Slope(level, per_hour, error, len(blocks), hours_all)


def _blocks(hours: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means of times and medians of values of up to ``BLOCKS`` parts, one after the other."""
    parts = min(BLOCKS, len(hours))
    when = np.array([part.mean() for part in np.array_split(hours, parts)])
    what = np.array([float(np.median(part)) for part in np.array_split(values, parts)])
    return when, what


def student(free: int, sure: float = SURE) -> float:
    """Student's t for an interval with both sides, to three digits (Hill's series from 3 on).

    >>> round(student(10), 2), round(student(1000), 2)
    (2.23, 1.96)
    """
    if free < 1:
        raise ValueError(f"There are {free} degrees of freedom; at least one is needed.")
    p = (1 + sure) / 2
    if free == 1:
        return math.tan(math.pi * (p - 0.5))
    if free == 2:
        return (2 * p - 1) * math.sqrt(2 / (4 * p * (1 - p)))
    z = NormalDist().inv_cdf(p)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / float(free) ** (power + 1) for power, term in enumerate(terms))
