"""Scalar Kalman filters that forecast a rate (CRAA, 2018).

The paper cites Kalman 1960 and gives neither model nor noise; both models here are assumptions [A].
Only the ratio q/r matters for the gain. A filter is an immutable value: ``observe`` returns the
next one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, Self

from laneshift.inputcheck import number


class RateFilter(Protocol):
    """What a policy needs from a filter."""

    def observe(self, rate: float) -> Self:
        """The filter after it has seen ``rate`` (rows/s, >= 0)."""

    def forecast(self, windows: int = 1) -> float:
        """Rate ``windows`` ahead (rows/s, >= 0); 0 before the first observation."""


@dataclass(frozen=True, slots=True)
class LevelFilter:
    """Random walk: x' = x, p' = p + q; K = p'/(p' + r); x += K*(z - x'); p = (1 - K)*p'.

    Attributes:
        process_noise, observation_noise: q and r, variances, > 0 (defaults 1 and 0.1 [A]: the gain
            settles at about 0.92).
        level, variance: x and p; ``level`` is None before the first observation.
    """

    process_noise: float = 1.0
    observation_noise: float = 0.1
    level: float | None = None
    variance: float = 0.0

    def __post_init__(self) -> None:
        number("process_noise", self.process_noise, low=0, low_open=True)
        number("observation_noise", self.observation_noise, low=0, low_open=True)

    @property
    def gain(self) -> float:
        """K of the next update."""
        predicted = self.variance + self.process_noise
        return predicted / (predicted + self.observation_noise)

    def observe(self, rate: float) -> LevelFilter:
        """See `RateFilter.observe`. The first rate is taken as it is."""
        z = number("rate", rate, low=0, unit="rows/s")
        if self.level is None:
            return replace(self, level=z)
        gain = self.gain
        return replace(
            self,
            level=self.level + gain * (z - self.level),
            variance=(1.0 - gain) * (self.variance + self.process_noise),
        )

    def forecast(self, windows: int = 1) -> float:
        """The level, whatever the horizon, clipped at 0."""
        return 0.0 if self.level is None else max(0.0, self.level)


@dataclass(frozen=True, slots=True)
class SlopeFilter:
    """Level and slope: F = [[1, 1], [0, 1]], H = [1, 0], Q = diag(q_level, q_slope), R = r.

    Attributes:
        level_noise, slope_noise, observation_noise: ql, qs, r, variances, > 0 (0.1 each [A]).
        level, slope: l (None before the first observation) and v, per window.
        covariance: (p_ll, p_lv, p_vv).
    """

    level_noise: float = 0.1
    slope_noise: float = 0.1
    observation_noise: float = 0.1
    level: float | None = None
    slope: float = 0.0
    covariance: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        for name in ("level_noise", "slope_noise", "observation_noise"):
            number(name, getattr(self, name), low=0, low_open=True)

    def observe(self, rate: float) -> SlopeFilter:
        """See `RateFilter.observe`. The first rate sets the level, the slope starts at 0."""
        z = number("rate", rate, low=0, unit="rows/s")
        if self.level is None:
            return replace(self, level=z)
        p_ll, p_lv, p_vv = self.covariance
        level = self.level + self.slope
        q_ll = p_ll + 2.0 * p_lv + p_vv + self.level_noise
        q_lv = p_lv + p_vv
        q_vv = p_vv + self.slope_noise
        total = q_ll + self.observation_noise
        gain_l, gain_v = q_ll / total, q_lv / total
        error = z - level
        return replace(
            self,
            level=level + gain_l * error,
            slope=self.slope + gain_v * error,
            covariance=((1 - gain_l) * q_ll, (1 - gain_l) * q_lv, q_vv - gain_v * q_lv),
        )

    def forecast(self, windows: int = 1) -> float:
        """Level + ``windows`` * slope, clipped at 0."""
        return 0.0 if self.level is None else max(0.0, self.level + windows * self.slope)
