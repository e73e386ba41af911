"""Ratios of interleaved pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

T = TypeVar("T")


def in_turn(sides: Sequence[T], round_number: int) -> Sequence[T]:
    """The sides of a round, every second one backwards: who comes later finds a warmer JVM.

    >>> in_turn("ab", 1), in_turn("ab", 2)
    ('ab', 'ba')
    """
    return sides if round_number % 2 else sides[::-1]


@dataclass(frozen=True, slots=True)
class Ratio:
    """Ratios elastic / stock of interleaved pairs: one number a pair, and their spread."""

    pairs: tuple[float, ...]

    @staticmethod
    def of(elastic: Sequence[float], stock: Sequence[float]) -> Ratio:
        """The i-th elastic run against the i-th stock run."""
        return Ratio(
            tuple(
                round(e / s, 4) if s else float("nan") for e, s in zip(elastic, stock, strict=True)
            )
        )

    @property
    def median(self) -> float:
        return float(np.median(self.pairs))

    @property
    def low(self) -> float:
        return min(self.pairs)

    @property
    def high(self) -> float:
        return max(self.pairs)

    def __str__(self) -> str:
        return f"{self.median:.3f} ({self.low:.3f} to {self.high:.3f})"

    def data(self) -> dict[str, object]:
        """For JSON."""
        return {
            "pairs": list(self.pairs),
            "min": self.low,
            "median": self.median,
            "max": self.high,
        }


def spread(values: Sequence[float]) -> str:
    """Median with the lowest and highest value."""
    if not values:
        return "-"
    digits = 0 if np.median(values) >= 1000 else 1 if np.median(values) >= 10 else 2
    shown = [f"{v:,.{digits}f}" for v in (float(np.median(values)), min(values), max(values))]
    return f"{shown[0]} ({shown[1]} to {shown[2]})"
