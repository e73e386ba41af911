"""What throughput C cores could reach at best on skewed keys, and what hash partitioning can.

A unit of time is one row's cost. A key runs on one core at a time, so a period whose most frequent
key has the share p gives at most min(C, 1/p) rows a unit. Under hash partitioning one core serves a
fixed part of the keys, and back pressure slows all others down to the slowest: 1 / (largest part).
With lanes it is so for a partition's lanes together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
STEP_S = 0.01


def zipf_shares(keys: int, skew: float) -> FloatArray:
    """Shares of the keys, most frequent first, float64 (keys,): 1/r^skew, summing up to 1."""
    weights = np.arange(1, keys + 1, dtype=np.float64) ** -skew
    shares: FloatArray = weights / weights.sum()
    return shares


def elastic_bound(cores: int, shares: FloatArray) -> float:
    """Rows a unit of time with any placement of keys that may change at any time."""
    return min(float(cores), 1.0 / float(shares.max()))


def random_shuffles(shares: FloatArray, count: int, seed: int) -> Iterator[FloatArray]:
    """Shares by key, float64 (keys,), of so many random shuffles."""
    rng = np.random.default_rng(seed)
    return (rng.permutation(shares) for _ in range(count))


def partitioned(
    lanes: int, partitions: int, shuffled: Iterable[FloatArray], owner: IntArray
) -> FloatArray:
    """Rows a unit of time when keys may move between a partition's lanes, but not out of it.

    float64 (shuffles,). ``lanes`` is each partition's number of cores (1: hash partitioning),
    perfectly even inside but for the hottest key; ``owner`` is the partition of each key, int64
    (keys,).
    """
    rates = []
    for shares in shuffled:
        parts = np.bincount(owner, weights=shares, minlength=partitions) / lanes
        rates.append(1.0 / max(float(parts.max()), float(shares.max())))
    return np.array(rates)


def divided(
    cores: int, partitions: int, shuffled: Iterable[FloatArray], owner: IntArray
) -> FloatArray:
    """As :func:`partitioned`, where cores move between partitions: the best whole numbers each.

    Each partition has one core at least.
    """
    rates = []
    for shares in shuffled:
        load = np.bincount(owner, weights=shares, minlength=partitions)
        held = np.ones(partitions)
        for _ in range(cores - partitions):
            held[np.argmax(load / held)] += 1
        rates.append(1.0 / max(float((load / held).max()), float(shares.max())))
    return np.array(rates)


def taken(
    due: Callable[[float], float], most: FloatArray, period_s: float, begin_s: float, end_s: float
) -> float:
    """Rows a second from ``begin_s`` to ``end_s`` of who takes rows in their order, late or not.

    Args:
        due: rows due until a time (s), from 0 on.
        most: rows/s that it takes of each period's rows, float64 (periods,).
        period_s: length of a period of the schedule (s).
    """
    times = np.arange(round(end_s / STEP_S) + 1) * STEP_S
    rows = np.array([due(float(t)) for t in times])
    gone = np.zeros(len(times))
    for step in range(1, len(times)):
        schedule_s = np.interp(gone[step - 1], rows, times)
        rate = most[min(int(schedule_s / period_s), len(most) - 1)]
        gone[step] = min(gone[step - 1] + rate * STEP_S, rows[step])
    return float(np.interp(end_s, times, gone) - np.interp(begin_s, times, gone)) / (
        end_s - begin_s
    )
