"""What is offered to a micro-batch query over time, and the fewest lanes that keep up: arithmetic.

The oracle knows the load: for every batch, of the rows that came in the interval before it, it has
the fewest whole lanes of each partition with which the batch takes its share of the interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from laneshift import inputcheck

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Stages = tuple[tuple[float, float], ...]
"""(rows/s, s), one after the other."""
BURST = 4.0
DAY_STEPS = 24
DAY_SWING = 0.75


def constant(rate: float, seconds: float) -> Stages:
    """The same all the time."""
    return ((rate, seconds),)


def burst(rate: float, seconds: float) -> Stages:
    """Four times the rate for a fifth of the time, from two fifths on."""
    return ((rate, 0.4 * seconds), (BURST * rate, 0.2 * seconds), (rate, 0.4 * seconds))


def day(rate: float, seconds: float) -> Stages:
    """A day from night to night in hours as steps: a quarter of the rate to seven quarters."""
    hours = (np.arange(DAY_STEPS) + 0.5) / DAY_STEPS
    rates = rate * (1 - DAY_SWING * np.cos(2 * np.pi * hours))
    return tuple((float(each), seconds / DAY_STEPS) for each in rates)


SHAPES = {"constant": constant, "burst": burst, "day": day}


def due(stages: Stages, at_s: float) -> float:
    """Rows due until ``at_s``; the last stage goes on."""
    rows, left = 0.0, at_s
    for rate, seconds in stages:
        rows += rate * min(max(left, 0.0), seconds)
        left -= seconds
    return rows + stages[-1][0] * max(left, 0.0)


@dataclass(frozen=True)
class Oracle:
    """The fewest lanes, batch by batch.

    Attributes:
        stages: the load.
        trigger_s: from one batch to the next (s).
        cost_s: of a row on a lane (s).
        shares: each partition's of the rows, summing up to 1.
        cores: that all lanes may have together.
        target: share of the trigger interval that a batch may take.
        fixed_s: of a batch that no lane makes shorter: planning, reading, commit (s).
    """

    stages: Stages
    trigger_s: float
    cost_s: float
    shares: tuple[float, ...]
    cores: int
    target: float
    fixed_s: float

    def __post_init__(self) -> None:
        inputcheck.number("trigger_s", self.trigger_s, "Seconds.", low=0, low_open=True)
        inputcheck.number("cost_s", self.cost_s, "Seconds.", low=0, low_open=True)
        inputcheck.number("target", self.target, "A share.", low=0, low_open=True, high=1)
        inputcheck.number(
            "fixed_s", self.fixed_s, "Less than the target leaves.", low=0,
            high=self.target * self.trigger_s, high_open=True,
        )  # fmt: skip
        inputcheck.whole("cores", self.cores, "At least one.", low=1, high=100_000)

    @property
    def seconds(self) -> float:
        """Length of the load."""
        return sum(seconds for _, seconds in self.stages)

    @property
    def batches(self) -> int:
        """Whole intervals of the load."""
        return max(1, round(self.seconds / self.trigger_s))

    def rows(self) -> FloatArray:
        """Rows of each batch, float64 (batches,)."""
        edges = [due(self.stages, i * self.trigger_s) for i in range(self.batches + 1)]
        rows: FloatArray = np.diff(edges)
        return rows

    def needed(self, rows: float) -> IntArray:
        """Lanes of each partition for a batch of so many rows, int64 (partitions,).

        If there are not so many cores, those there are go one by one to who is latest.
        """
        room_s = self.target * self.trigger_s - self.fixed_s
        work = rows * self.cost_s * np.array(self.shares)
        wanted = np.maximum(np.ceil(work / room_s - 1e-9), 1).astype(np.int64)
        if int(wanted.sum()) <= max(self.cores, len(work)):
            return wanted
        held = np.ones(len(work), dtype=np.int64)
        for _ in range(self.cores - len(work)):
            held[int(np.argmax(work / held))] += 1
        return held

    def lanes(self) -> IntArray:
        """Of all partitions together in each batch, int64 (batches,)."""
        each = [min(int(self.needed(float(rows)).sum()), self.cores) for rows in self.rows()]
        return np.array(each, dtype=np.int64)

    def core_seconds(self) -> float:
        """Lanes times the interval in which they are held, over all batches."""
        return float(self.lanes().sum()) * self.trigger_s

    def at_rate(self, rate: float) -> int:
        """The most lanes that a partition needs under a constant rate (rows/s)."""
        return int(self.needed(rate * self.trigger_s).max())

    @property
    def first(self) -> int:
        """Lanes of each partition that are right for the load's first stage."""
        return self.at_rate(self.stages[0][0])

    @property
    def peak(self) -> int:
        """Lanes of each partition that are right for the load's greatest stage."""
        return self.at_rate(max(rate for rate, _ in self.stages))


def missed(batch_ms: Sequence[float], trigger_s: float) -> int:
    """Triggers that passed while a batch before them still ran."""
    ends = (math.ceil(ms / 1000 / trigger_s - 1e-9) for ms in batch_ms)
    return sum(max(0, whole - 1) for whole in ends)


def held_core_seconds(
    held: Sequence[tuple[float, int]], begin_s: float, end_s: float, most: int
) -> float:
    """Lanes times time from samples (time in s, lanes), which hold until the next one.

    Args:
        most: cores: lanes beyond them are resident and do not run.
    """
    total = 0.0
    for at, (time_s, lanes) in enumerate(held):
        until = held[at + 1][0] if at + 1 < len(held) else end_s
        # What was before the first sample is taken to be as in it.
        since = begin_s if at == 0 else time_s
        total += min(lanes, most) * max(0.0, min(until, end_s) - max(since, begin_s))
    return total


def batches_until(
    batches: Sequence[tuple[float, int]], from_s: float, enough: int, at_most: bool = False
) -> int | None:
    """How many batches after ``from_s`` one had lanes enough (or no more): 1 is the first.

    Args:
        batches: (begin in s, lanes in it).

    None: not in this run.
    """
    after = [lanes for begin_s, lanes in batches if begin_s >= from_s]
    for number, lanes in enumerate(after, 1):
        if (lanes <= enough) if at_most else (lanes >= enough):
            return number
    return None
