"""Forecasters other than Kalman filters."""

from __future__ import annotations

from dataclasses import dataclass, replace

from laneshift.inputcheck import vector, whole


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


@dataclass(frozen=True, slots=True)
class KnownRates:
    """Full knowledge: the oracle of experiments.

    Attributes:
        rates: true rate of every window, in order (rows/s, >= 0); the last one holds for ever.
        seen: windows observed so far.
    """

    rates: tuple[float, ...]
    seen: int = 0

    def __post_init__(self) -> None:
        vector("rates", self.rates, low=0, unit="rows/s")
        whole("length of rates", len(self.rates), low=1)
        whole("seen", self.seen, low=0)

    def observe(self, rate: float) -> KnownRates:
        """Go one window on; the rate itself is known already."""
        del rate
        return replace(self, seen=self.seen + 1)

    def forecast(self, windows: int = 1) -> float:
        """The true rate ``windows`` ahead of the last one seen (rows/s)."""
        return self.rates[min(max(0, self.seen + windows - 1), len(self.rates) - 1)]
