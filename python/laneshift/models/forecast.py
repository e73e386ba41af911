"""A forecast without a model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LastRate:
    """The next window is like the last one."""

    rate: float = 0.0

    def observe(self, rate: float) -> LastRate:
        """See `RateFilter.observe`."""
        return LastRate(rate)

    def forecast(self, windows: int = 1) -> float:
        """The last rate seen (rows/s)."""
        del windows
        return self.rate
