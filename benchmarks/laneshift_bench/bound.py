"""What throughput C cores could reach at best on skewed keys, and what hash partitioning can.

A unit of time is one row's cost. A key runs on one core at a time, so a period whose most frequent
key has the share p gives at most min(C, 1/p) rows a unit. Under hash partitioning one core serves a
fixed part of the keys, and back pressure slows all others down to the slowest: 1 / (largest part).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def zipf_shares(keys: int, skew: float) -> FloatArray:
    """Shares of the keys, most frequent first, float64 (keys,): 1/r^skew, summing up to 1."""
    weights = np.arange(1, keys + 1, dtype=np.float64) ** -skew
    shares: FloatArray = weights / weights.sum()
    return shares


def elastic_bound(cores: int, shares: FloatArray) -> float:
    """Rows a unit of time with any placement of keys that may change at any time."""
    return min(float(cores), 1.0 / float(shares.max()))


def hashed(cores: int, shares: FloatArray, owner: IntArray, shuffles: int, seed: int) -> float:
    """Rows a unit of time under hash partitioning, mean over random shuffles of the shares.

    ``owner`` is the partition of each key, int64 (keys,).
    """
    rng = np.random.default_rng(seed)
    rates = []
    for _ in range(shuffles):
        parts = np.bincount(owner, weights=rng.permutation(shares), minlength=cores)
        rates.append(1.0 / float(parts.max()))
    return float(np.mean(rates))
