"""Latency of a fluid: a log-spaced histogram of sojourn times.

A fluid has no waiting below saturation, so the mean wait of an M/G/1 lane (Pollaczek-Khinchine) is
added from the lane's utilisation rho; a row waits with probability rho, and then for a time that
is approximated as exponential [A]. Validated against
the event simulator in the tests.
"""

from __future__ import annotations

import numpy as np

from laneshift.inputcheck import FloatArray

BINS = 400
LOW, HIGH = 1e-6, 1e4
_EDGES = np.geomspace(LOW, HIGH, BINS + 1)
_SCALE = BINS / np.log(HIGH / LOW)
_CUTS = np.array([0.0, 0.5, 0.75, 0.9, 0.97, 0.985, 0.995, 1.0])
_TAIL = 1.0 - _CUTS[:-1]
_NEXT = 1.0 - _CUTS[1:]
#: An exponential of mean 1 in seven slices: the mass of each, and the mean inside it.
SLICE_MASS = np.diff(_CUTS)
with np.errstate(divide="ignore", invalid="ignore"):
    _UPPER = np.where(_NEXT > 0, _NEXT * (1.0 - np.log(np.maximum(_NEXT, 1e-300))), 0.0)
SLICE_MEAN = (_TAIL * (1.0 - np.log(_TAIL)) - _UPPER) / SLICE_MASS
MAX_RHO = 0.98


class LatencyHistogram:
    """Row-weighted sojourn times; ``add`` many, read mean and quantiles."""

    def __init__(self) -> None:
        self.count = np.zeros(BINS)
        self.total = 0.0
        self.rows = 0.0

    def add(self, seconds: FloatArray, rows: FloatArray) -> None:
        """Add sojourn times (s) with weights (rows), same shape."""
        weight = rows.ravel()
        times = seconds.ravel()
        at = (np.log(np.maximum(times, LOW) / LOW) * _SCALE).astype(np.int64)
        self.count += np.bincount(np.minimum(at, BINS - 1), weights=weight, minlength=BINS)
        self.total += float(times @ weight)
        self.rows += float(weight.sum())

    @property
    def mean(self) -> float:
        """Mean (s), 0 without rows."""
        return self.total / self.rows if self.rows > 0 else 0.0

    def quantile(self, q: float) -> float:
        """Upper edge of the bin that holds the q-quantile (s), about 6% wide; 0 without rows."""
        if self.rows <= 0:
            return 0.0
        at = int(np.searchsorted(np.cumsum(self.count), q * self.count.sum()))
        return float(_EDGES[min(at + 1, BINS)])


def random_wait(rho: FloatArray, cost_s: FloatArray, cv2: FloatArray) -> FloatArray:
    """Mean M/G/1 wait (s): rho / (1 - rho) * cost * (1 + cv^2) / 2, rho capped at 0.98."""
    r = np.minimum(rho, MAX_RHO)
    wait: FloatArray = r / (1.0 - r) * cost_s * (1.0 + cv2) / 2.0
    return wait


def spread(
    base: FloatArray, wait: FloatArray, rho: FloatArray, rows: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """(times, weights), both (8, L): no wait with mass 1 - rho, else seven exponential slices.

    base: s without waiting; wait: mean wait (s); rho: chance of waiting, in (0, 1]; all (L,).
    """
    chance = np.clip(rho, 1e-9, 1.0)
    times = np.concatenate([base[None], base + SLICE_MEAN[:, None] * (wait / chance)])
    weight = np.concatenate([((1 - chance) * rows)[None], SLICE_MASS[:, None] * (chance * rows)])
    return times, weight
