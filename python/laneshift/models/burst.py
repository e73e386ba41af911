"""A forecaster that knows steps, slopes, cycles and its own error (ours [D]).

Three simple experts look at the last `KEEP` windows; the one that was closest lately speaks:

* last: the next window is like this one;
* slope: the mean of the last three differences goes on;
* cycle: what came after the same phase of the last cycle comes again. A cycle of p windows counts
  if repeating it was at most half as wrong as repeating the last window; until a whole further
  cycle confirmed it, it may only raise a forecast, never lower it.

Two numbers come out: ``forecast``, the expected rate, and ``upper``, a rate that is exceeded about
as often as the expert was too low lately. No noise model, no tuning per load.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from laneshift.models.checks import number

KEEP = 256
"""Windows remembered: the longest cycle that can be confirmed is half of it."""

RECENT = 32
"""Windows over which experts are compared."""

_LEAST_MATCH = 4
_SEARCH_EVERY = 4

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BurstForecast:
    """One stream of rates.

    Attributes:
        quantile: share of recent windows that ``upper`` would have covered, in [0, 1).
        seen: windows observed in all.
        rates: the last `KEEP` of them (rows/s).
        cycle: length of the cycle found (windows), 0 for none.
        expert: name of the expert that speaks.
        margin: what ``upper`` adds (rows/s).
    """

    quantile: float = 0.9
    seen: int = 0
    rates: tuple[float, ...] = ()
    cycle: int = 0
    expert: str = "last"
    margin: float = 0.0

    def __post_init__(self) -> None:
        number("quantile", self.quantile, low=0, high=1, high_open=True)

    def observe(self, rate: float) -> BurstForecast:
        """The forecaster after one more window."""
        z = number("rate", rate, low=0, unit="rows/s")
        rates = (*self.rates[-(KEEP - 1) :], z)
        x = np.array(rates)
        cycle = self.cycle
        if cycle and not _repeats(x, cycle):
            cycle = 0
        if not cycle and self.seen % _SEARCH_EVERY == 0:
            cycle = _find_cycle(x)
        expert, errors = _best_expert(x, cycle)
        margin = max(0.0, float(np.quantile(errors, self.quantile))) if errors.size else 0.0
        return replace(
            self, seen=self.seen + 1, rates=rates, cycle=cycle, expert=expert, margin=margin
        )

    @property
    def confirmed(self) -> bool:
        """Whether the cycle speaks and has repeated in full, so that it may lower a forecast."""
        return self.expert == "cycle" and len(self.rates) >= 2 * self.cycle

    def forecast(self, windows: int = 1) -> float:
        """Expected rate ``windows`` ahead (rows/s, >= 0); 0 before the first observation."""
        if not self.rates:
            return 0.0
        last = self.rates[-1]
        ahead = last
        if self.expert == "slope":
            steps = self.rates[-4:]
            ahead = max(0.0, last + windows * (last - steps[0]) / max(1, len(steps) - 1))
        if self.cycle:
            again = self.rates[-self.cycle + (windows - 1) % self.cycle]
            if self.confirmed:
                return again
            ahead = max(ahead, again)
        return ahead

    def upper(self, windows: int = 1) -> float:
        """Rate to provide for, ``windows`` ahead (rows/s)."""
        return self.forecast(windows) + self.margin


def _repeats(x: FloatArray, cycle: int) -> bool:
    """Whether repeating the last cycle was at most half as wrong as repeating the last window."""
    count = min(x.size - cycle, max(RECENT, 2 * cycle))
    if count < max(_LEAST_MATCH, cycle // 4):
        return False
    again = float(np.abs(x[-count:] - x[-count - cycle : -cycle]).mean())
    persist = float(np.abs(x[-count:] - x[-count - 1 : -1]).mean())
    return again < 0.5 * persist


def _find_cycle(x: FloatArray) -> int:
    """The cycle that repeats best (shortest on ties), 0 if there is none."""
    moves = np.abs(np.diff(x[-2 * RECENT :]))
    if x.size < 2 * _LEAST_MATCH or moves.mean() <= 0.02 * x.mean():
        return 0
    best, found = 0.5, 0
    for cycle in range(2, x.size - _LEAST_MATCH + 1):
        if not _repeats(x, cycle):
            continue
        count = min(x.size - cycle, max(RECENT, 2 * cycle))
        again = float(np.abs(x[-count:] - x[-count - cycle : -cycle]).mean())
        persist = float(np.abs(x[-count:] - x[-count - 1 : -1]).mean())
        if again / persist < best - 0.02:
            best, found = again / persist, cycle
    return found


def _best_expert(x: FloatArray, cycle: int) -> tuple[str, FloatArray]:
    """(expert, its recent errors: rate - forecast); a simpler one wins unless clearly worse."""
    if x.size < 3:
        return "last", np.zeros(0)
    count = min(RECENT, x.size - 1)
    best, name = np.diff(x)[-count:], "last"
    if x.size > RECENT // 2:
        span = x[3:-1] - x[:-4]
        slope = (x[4:] - (x[3:-1] + span / 3.0))[-count:]
        if np.abs(slope).mean() < 0.8 * np.abs(best[-slope.size :]).mean():
            best, name = slope, "slope"
    if cycle:
        count = min(count, x.size - cycle)
        again = x[-count:] - x[-count - cycle : x.size - cycle]
        if np.abs(again).mean() < 0.8 * np.abs(best[-count:]).mean():
            best, name = again, "cycle"
    return name, np.asarray(best)
