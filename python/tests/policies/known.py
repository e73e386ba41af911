"""A forecast with full knowledge, to compare others with."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class KnownRates:
    """Full knowledge: the oracle of experiments.

    Attributes:
        rates: true rate of every window, in order (rows/s, >= 0); the last one holds for ever.
        seen: windows observed so far.
    """

    rates: tuple[float, ...]
    seen: int = 0

    def observe(self, rate: float) -> KnownRates:
        """Go one window on; the rate itself is known already."""
        del rate
        return replace(self, seen=self.seen + 1)

    def forecast(self, windows: int = 1) -> float:
        """The true rate ``windows`` ahead of the last one seen (rows/s)."""
        return self.rates[min(max(0, self.seen + windows - 1), len(self.rates) - 1)]
