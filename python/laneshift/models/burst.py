"""A forecaster that knows steps, slopes, cycles and its own error (ours [D]).

Five simple experts look at the last `KEEP` windows; the one that was closest lately speaks:

* last: the next window is like this one;
* slope: the mean of the last three differences goes on, believed less with every window;
* mean: the next windows are like the mean of the last `MEAN`, for noise around a level;
* trend: the line through the last `TREND` goes on, for noise around a slope;
* cycle: what came after the same phase of the last cycle comes again. A cycle of p windows counts
  if repeating it was at most half as wrong as repeating the last window; until a whole further
  cycle confirmed it, it may only raise a forecast, never lower it.

Two numbers come out: ``forecast``, the expected rate, and ``upper``, a rate that is exceeded about
as often as the expert was too low lately. No noise model, no tuning per load.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from laneshift.inputcheck import FloatArray, IntArray, number

KEEP = 256
"""Windows remembered: the longest cycle that can be confirmed is half of it."""

RECENT = 32
"""Windows over which experts are compared."""

MEAN = 16
"""Windows that expert "mean" averages."""

TREND = 8
"""Windows through which expert "trend" draws its line."""

DAMP = 0.9
"""Share of a slope that is believed one window further on."""

_LEAST_MATCH = 4
_SEARCH_EVERY = 4


@dataclass(frozen=True, slots=True)
class BurstForecast:
    """One stream of rates.

    Attributes:
        quantile: share of recent windows that ``upper`` would have covered, in [0, 1).
        seen: windows observed in all.
        rates: the last `KEEP` of them (rows/s).
        cycle: length of the cycle found (windows), 0 for none.
        expert: name of the expert that speaks.
        errors: the expert's recent errors, rate - forecast (rows/s).
    """

    quantile: float = 0.9
    seen: int = 0
    rates: tuple[float, ...] = ()
    cycle: int = 0
    expert: str = "last"
    errors: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        number("quantile", self.quantile, low=0, high=1, high_open=True)

    def observe(self, rate: float) -> BurstForecast:
        """The forecaster after one more window."""
        z = number("rate", rate, low=0, unit="rows/s")
        rates = (*self.rates[-(KEEP - 1) :], z)
        x = np.array(rates)
        cycle = self.cycle
        if cycle and _repeats(x, np.array([cycle]))[0] >= 0.5:
            cycle = 0
        if not cycle and self.seen % _SEARCH_EVERY == 0:
            cycle = _find_cycle(x)
        expert, errors = _best_expert(x, cycle)
        return replace(
            self,
            seen=self.seen + 1,
            rates=rates,
            cycle=cycle,
            expert=expert,
            errors=tuple(errors.tolist()),
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
            # A slope is believed less with every window.
            far = (1.0 - DAMP**windows) / (1.0 - DAMP)
            ahead = max(0.0, last + far * (last - steps[0]) / max(1, len(steps) - 1))
        elif self.expert == "mean":
            ahead = float(np.mean(self.rates[-MEAN:]))
        elif self.expert == "trend":
            ahead = max(0.0, _trend(np.array(self.rates[-TREND:]), windows))
        if self.cycle:
            again = self.rates[-self.cycle + (windows - 1) % self.cycle]
            if self.confirmed:
                return again
            ahead = max(ahead, again)
        return ahead

    @property
    def blur(self) -> float:
        """Median size of the recent errors (rows/s)."""
        return median(map(abs, self.errors)) if self.errors else 0.0

    def margin(self, windows: int = 1) -> float:
        """What is added so that ``windows`` windows in a row are covered as often (rows/s, >= 0).

        With independent errors each must be covered with probability quantile^(1/windows).
        """
        return self._margins([windows])[0]

    def _margins(self, windows: Iterable[int]) -> list[float]:
        if not self.errors:
            return [0.0 for _ in windows]
        rising = sorted(self.errors)
        return [max(0.0, _quantile(rising, self.quantile ** (1.0 / h))) for h in windows]

    def path(self, windows: int) -> FloatArray:
        """Rates of the next ``windows`` windows, (2, windows): expected, and with the margin."""
        ahead = range(1, windows + 1)
        expected = np.array([self.forecast(h) for h in ahead])
        return np.stack([expected, expected + self._margins(ahead)])

    def upper(self, windows: int = 1) -> float:
        """Rate to provide for, ``windows`` ahead (rows/s)."""
        return self.forecast(windows) + self.margin(windows)


def _quantile(rising: Sequence[float], share: float) -> float:
    """As `numpy.quantile` of sorted values, to the last bit, in a tenth of its time for a few."""
    at = (len(rising) - 1) * share
    low = int(at)
    part, a, b = at - low, rising[low], rising[min(low + 1, len(rising) - 1)]
    return b - (b - a) * (1.0 - part) if part >= 0.5 else a + (b - a) * part


def _size(errors: FloatArray) -> float:
    """Mean size."""
    return float(np.abs(errors).sum()) / errors.size


def _repeats(x: FloatArray, cycles: IntArray) -> FloatArray:
    """How wrong repeating the last cycle was, over how wrong repeating the last window was.

    One number per cycle, (C,) for (C,); infinite if it is not known yet, or if nothing moved in the
    pass before: then nothing repeated.
    """
    n = x.size
    count = np.minimum(n - cycles, np.maximum(RECENT, 2 * cycles))
    moved = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(x)))])  # until each window
    persist = moved[-1] - moved[n - 1 - count]
    before = moved[n - 1 - cycles] - moved[np.maximum(0, n - 1 - count - cycles)]
    at = np.arange(n)
    ago = np.abs(x - x[np.maximum(0, at - cycles[:, None])])
    again = np.where(at >= n - count[:, None], ago, 0.0).sum(axis=1)
    least = np.minimum(persist, before)
    known = (count >= np.maximum(_LEAST_MATCH, cycles // 4)) & (least > 0.0)
    return np.where(known, again / np.where(known, least, 1.0), np.inf)


def _find_cycle(x: FloatArray) -> int:
    """The cycle that repeats best (shortest on ties), 0 if there is none."""
    if x.size < 2 * _LEAST_MATCH:
        return 0
    moves = np.abs(np.diff(x[-2 * RECENT :]))
    if moves.mean() <= 0.02 * x.mean():
        return 0
    best, found = 0.5, 0
    cycles = np.arange(2, x.size - _LEAST_MATCH + 1)
    for cycle, wrong in zip(cycles.tolist(), _repeats(x, cycles).tolist(), strict=True):
        if wrong < best - 0.02:
            best, found = wrong, cycle
    return found


def _weights(n: int, ahead: int) -> FloatArray:
    """Weights of the last n rates in the line through them, ``ahead`` windows on."""
    t = np.arange(n) - (n - 1) / 2
    return np.asarray(1.0 / n + t * ((n - 1) / 2 + ahead) / float(t @ t), dtype=np.float64)


def _trend(x: FloatArray, ahead: int) -> float:
    if x.size < 2:
        return float(x[-1])
    return float(_weights(x.size, ahead) @ x)


def _best_expert(x: FloatArray, cycle: int) -> tuple[str, FloatArray]:
    """(expert, its recent errors: rate - forecast); a simpler one wins unless clearly worse."""
    if x.size < 3:
        return "last", np.zeros(0)
    count = min(RECENT, x.size - 1)
    best, name = np.diff(x)[-count:], "last"
    if x.size > RECENT // 2:
        span = x[3:-1] - x[:-4]
        slope = (x[4:] - (x[3:-1] + span / 3.0))[-count:]
        if _size(slope) < 0.8 * _size(best[-slope.size :]):
            best, name = slope, "slope"
    for kind, weights in (("mean", np.full(MEAN, 1.0 / MEAN)), ("trend", _weights(TREND, 1))):
        if x.size > weights.size + _LEAST_MATCH:
            said = np.convolve(x[:-1], weights[::-1], "valid")
            error: FloatArray = np.asarray((x[weights.size :] - said)[-count:])
            if _size(error) < 0.9 * _size(best[-error.size :]):
                best, name = error, kind
    if cycle:
        count = min(count, x.size - cycle)
        again = x[-count:] - x[-count - cycle : x.size - cycle]
        if _size(again) < 0.8 * _size(best[-count:]):
            best, name = again, "cycle"
    return name, np.asarray(best)
