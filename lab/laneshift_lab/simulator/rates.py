"""Source rates over time (rows/s): constant, saturating, sine, stage, random, step, jitter, trace.

The shapes are those of CRAA, 2018; ``mean(t0, t1)`` is the exact mean over an interval.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from laneshift import inputcheck
from laneshift.errors import InputError

__all__ = [
    "Constant",
    "Levels",
    "Rate",
    "Sine",
    "diurnal",
    "jitter",
    "random_levels",
    "stage",
    "step",
    "trace",
]


class Rate(Protocol):
    """Rows per second over time."""

    def mean(self, start_s: float, end_s: float) -> float:
        """Mean rate over [start, end), rows/s, >= 0."""


@dataclass(frozen=True)
class Constant:
    """The same rate for ever; ``math.inf``: saturating, as fast as back-pressure allows."""

    rate: float

    def __post_init__(self) -> None:
        if math.isnan(self.rate) or self.rate < 0:
            raise InputError("rate", self.rate, "a number >= 0, or inf", "Rows per second.")

    def mean(self, start_s: float, end_s: float) -> float:
        """The rate."""
        del start_s, end_s
        return self.rate


@dataclass(frozen=True)
class Sine:
    """I(t) = base + amplitude * sin(2 pi t / period); default 5000 + 2500 sin(2 pi t / 500) [P]."""

    base: float = 5000.0
    amplitude: float = 2500.0
    period_s: float = 500.0

    def __post_init__(self) -> None:
        inputcheck.number("base", self.base, "Rows per second.", low=0.0)
        inputcheck.number("amplitude", self.amplitude, "At most the base.", low=0.0, high=self.base)
        inputcheck.number("period_s", self.period_s, "Seconds.", low=0.0, low_open=True)

    def mean(self, start_s: float, end_s: float) -> float:
        """Integral over the interval, divided by its length."""
        w = 2 * math.pi / self.period_s
        area = (math.cos(w * start_s) - math.cos(w * end_s)) / w
        return self.base + self.amplitude * area / (end_s - start_s)


@dataclass(frozen=True)
class Levels:
    """(rate, seconds) pieces, repeated for ever.

    pieces: at least one, each rate >= 0 rows/s and each duration > 0 s.
    """

    pieces: tuple[tuple[float, float], ...]
    _ends: tuple[float, ...] = field(init=False, repr=False, compare=False)
    _areas: tuple[float, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.pieces:
            raise InputError("pieces", 0, "at least one (rate, seconds)", "Add a level.")
        ends, areas = [0.0], [0.0]
        for i, (rate, seconds) in enumerate(self.pieces):
            inputcheck.number(f"pieces[{i}] rate", rate, "Rows per second.", low=0.0)
            inputcheck.number(f"pieces[{i}] s", seconds, "Seconds.", low=0.0, low_open=True)
            ends.append(ends[-1] + seconds)
            areas.append(areas[-1] + rate * seconds)
        object.__setattr__(self, "_ends", tuple(ends))
        object.__setattr__(self, "_areas", tuple(areas))

    def _area(self, t: float) -> float:
        cycle = self._ends[-1]
        full = math.floor(t / cycle)
        rest = t - full * cycle
        i = min(bisect_right(self._ends, rest) - 1, len(self.pieces) - 1)
        inside = self._areas[i] + (rest - self._ends[i]) * self.pieces[i][0]
        return full * self._areas[-1] + inside

    def mean(self, start_s: float, end_s: float) -> float:
        """Exact mean over the interval."""
        return (self._area(end_s) - self._area(start_s)) / (end_s - start_s)


def stage(third_s: float = 100.0) -> Levels:
    """5000 for 250 s, 10000 for 100 s, 2000 for T3 [P]; T3 = 100 s [A]."""
    return Levels(((5000, 250), (10000, 100), (2000, third_s)))


def step() -> Levels:
    """1000, 2000, 5000, 6000, 5000, 2000, each 5 s [P]."""
    return Levels(tuple((r, 5.0) for r in (1000, 2000, 5000, 6000, 5000, 2000)))


def jitter() -> Levels:
    """3000 for 50 s, 6000 for 5 s, 3000 for 100 s, 1000 for 5 s [P]."""
    return Levels(((3000, 50), (6000, 5), (3000, 100), (1000, 5)))


def random_levels(
    seed: int, *, low: float = 1000.0, high: float = 50_000.0, hold_s: float = 5.0, n: int = 120
) -> Levels:
    """Uniform in [low, high] [P], a new value every ``hold_s`` [A]; ``n`` values, then repeated."""
    inputcheck.number("low", low, "Rows per second.", low=0.0, high=high)
    values = np.random.default_rng(seed).uniform(low, high, n)
    return Levels(tuple((float(v), hold_s) for v in values))


def trace(rates: Sequence[float], hold_s: float) -> Levels:
    """Measured rates (rows/s), each valid for ``hold_s`` seconds."""
    return Levels(tuple((float(v), hold_s) for v in rates))


def diurnal(seed: int, peak: float = 1800.0, n: int = 42, hold_s: float = 600.0) -> Levels:
    """OERA's trace stand-in [A]: sin^2 hump from 0.35 to 1.0 of peak, times 1 + 10% noise."""
    rng = np.random.default_rng(seed)
    hump = 0.35 + 0.65 * np.sin(np.pi * (np.arange(n) + 0.5) / n) ** 2
    values = peak * hump * (1 + 0.1 * rng.normal(0, 1, n))
    return trace(np.maximum(values, 0.0).tolist(), hold_s)
