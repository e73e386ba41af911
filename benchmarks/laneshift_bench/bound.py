"""What throughput C cores could reach at best on skewed keys, and what hash partitioning can.

A unit of time is one row's cost. A key runs on one core at a time, so a period whose most frequent
key has the share p gives at most min(C, 1/p) rows a unit. Under hash partitioning one core serves a
fixed part of the keys, and back pressure slows all others down to the slowest: 1 / (largest part).
With lanes it is so for a partition's lanes together.
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


def partitioned(
    lanes: int, partitions: int, shares: FloatArray, owner: IntArray, shuffles: int, seed: int
) -> float:
    """Rows a unit of time when keys may move between a partition's lanes, but not out of it.

    Mean over random shuffles of the shares. ``lanes`` is each partition's number of cores (1: hash
    partitioning), perfectly even inside but for the hottest key; ``owner`` is the partition of
    each key, int64 (keys,).
    """
    rng = np.random.default_rng(seed)
    rates = []
    for _ in range(shuffles):
        shuffled = rng.permutation(shares)
        parts = np.bincount(owner, weights=shuffled, minlength=partitions) / lanes
        rates.append(1.0 / max(float(parts.max()), float(shares.max())))
    return float(np.mean(rates))


def divided(
    cores: int, partitions: int, shares: FloatArray, owner: IntArray, shuffles: int, seed: int
) -> float:
    """As :func:`partitioned`, where cores move between partitions: the best whole numbers each.

    Mean over random shuffles; each partition has one core at least.
    """
    rng = np.random.default_rng(seed)
    rates = []
    for _ in range(shuffles):
        shuffled = rng.permutation(shares)
        load = np.bincount(owner, weights=shuffled, minlength=partitions)
        held = np.ones(partitions)
        for _ in range(cores - partitions):
            held[np.argmax(load / held)] += 1
        rates.append(1.0 / max(float((load / held).max()), float(shares.max())))
    return float(np.mean(rates))
