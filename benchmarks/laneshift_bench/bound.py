"""What throughput C cores could reach at best on skewed keys, and what hash partitioning can.

A unit of time is one row's cost. A key runs on one core at a time, so a period whose most frequent
key has the share p gives at most min(C, 1/p) rows a unit. Under hash partitioning one core serves a
fixed part of the keys, and back pressure slows all others down to the slowest: 1 / (largest part).
With lanes it is so for a partition's lanes together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


def partitioned(
    lanes: int, partitions: int, shuffled: Iterable[FloatArray], owner: IntArray
) -> FloatArray:
    """Work per row when keys may move between a partition's lanes, but not out of it.

    float64 (shuffles, cores that differ): a core of each partition, and with several lanes the
    hottest key. All of them work at once, so that the most of a line limits the rate: 1 / it.

    Args:
        lanes: cores of each partition, perfectly even inside (1: hash partitioning).
        owner: the partition of each key, int64 (keys,).
    """
    found = []
    for shares in shuffled:
        parts = np.bincount(owner, weights=shares, minlength=partitions) / lanes
        found.append(np.append(parts, shares.max()) if lanes > 1 else parts)
    return np.array(found)


def divided(
    cores: int, partitions: int, shuffled: Iterable[FloatArray], owner: IntArray
) -> FloatArray:
    """As :func:`partitioned`, where cores move between partitions: the best whole numbers each.

    Each partition has one core at least.
    """
    found = []
    for shares in shuffled:
        load = np.bincount(owner, weights=shares, minlength=partitions)
        held = np.ones(partitions)
        for _ in range(cores - partitions):
            held[np.argmax(load / held)] += 1
        found.append(np.append(load / held, shares.max()))
    return np.array(found)


def rates(work: FloatArray) -> FloatArray:
    """Rows a unit of time in each shuffle, float64 (shuffles,): the busiest core limits them."""
    found: FloatArray = 1.0 / work.max(axis=1)
    return found


def taken(
    due: Callable[[float], float],
    work: FloatArray,
    cost_s: float,
    period_s: float,
    begin_s: float,
    end_s: float,
    room: float = 0.0,
) -> float:
    """Rows a second from ``begin_s`` to ``end_s`` of who takes rows in their order, late or not.

    Args:
        due: rows due until a time (s), from 0 on.
        work: as :func:`partitioned` gives it, a line for each period of the schedule.
        cost_s: of a row (s).
        period_s: length of a period of the schedule (s).
        room: rows that may wait before all cores together; which of them is no matter.
    """
    times = np.arange(round(end_s / STEP_S) + 1) * STEP_S
    rows = np.array([due(float(t)) for t in times])
    gone = np.zeros(len(times))
    waiting, done = np.zeros(work.shape[1]), STEP_S / cost_s
    given = 0.0
    for step in range(1, len(times)):
        period = int(np.interp(given, rows, times) / period_s)
        each = work[min(period, len(work) - 1)]
        low, high = 0.0, float(rows[step] - given)
        if np.maximum(waiting + high * each - done, 0.0).sum() <= room:
            low = high
        while high - low > 1e-6 * high:
            middle = 0.5 * (low + high)
            if np.maximum(waiting + middle * each - done, 0.0).sum() <= room:
                low = middle
            else:
                high = middle
        given += low
        waiting = np.maximum(waiting + low * each - done, 0.0)
        gone[step] = given - waiting.sum()
    return float(np.interp(end_s, times, gone) - np.interp(begin_s, times, gone)) / (
        end_s - begin_s
    )


def owners(spark: SparkSession, partitions: int, keys: int = 10_000) -> IntArray:
    """The partition that Spark's shuffle gives each key to, int64 (keys,)."""
    found = spark.range(keys).selectExpr(f"pmod(hash(id), {partitions}) AS p").collect()
    return np.array([row.p for row in found], dtype=np.int64)
