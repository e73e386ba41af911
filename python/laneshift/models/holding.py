"""How many cores to hold, and for how long: lot sizing for a partition (ours [D]).

A change of the number of cores costs something by itself (shards move, caches are cold), so a
count is worth most if it can be held. As in the Silver-Meal rule for lot sizes, the choice is the
count whose cost per window, over the windows for which it can be held, is least.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from laneshift.inputcheck import FloatArray, IntArray

MOST_TRIED = 32
"""Counts that are tried between the fewest and the most that can be right."""

_NEAR = 1e-9
_NEVER = 2**62


@dataclass(frozen=True)
class Prices:
    """What a change costs, in windows of idle cores.

    Attributes:
        change: for any change, as a share of the partition's cores (windows, >= 0).
        per_core: for each core more or less (windows, >= 0).
    """

    change: float
    per_core: float


@dataclass(frozen=True)
class Stretch:
    """A count and how it goes on.

    Attributes:
        cores: the count, >= 1.
        served: rows served per second in each window of the horizon, (2, H): with this count while
            it can be held, as much as arrives after that; expected and upper.
    """

    cores: int
    served: FloatArray


@dataclass(frozen=True)
class Load:
    """What a partition will have to serve.

    Attributes:
        rates: rows/s in the next H windows, (2, H): expected, and with a margin (upper).
        blur: how far off they may be (rows/s), (H,). Where that is more than half a core, counts
            are rounded to the nearest: rounding up would be no better than the forecast.
        queue_rows: rows waiting now.
        unit_rate: rows/s of a core, > 0.
        window_s: length of a window (s).
        room: (rows, rows per core): how long the queue should be at most at the end of a window.
        full: how long it can be (rows), inf if unbounded.
        drain_s: a queue that is longer than it should be may be until it is drained, steadily, in
            this time (s); 0: within a window.
    """

    rates: FloatArray
    blur: FloatArray
    queue_rows: float
    unit_rate: float
    window_s: float
    room: tuple[float, float]
    full: float
    drain_s: float = 0.0


def choose(load: Load, held: int, least: int, most: int, prices: Prices) -> Stretch:
    """The count that costs least per window while it can be held.

    A count can be held as long as the queue at the end of each window has room: a new one for the
    upper rates, the one held for the expected ones, and it may also ride out a burst. It costs the
    cores that idle at the expected rates, and the price of the change if it is not the one held.

    Args:
        load: what comes.
        held: cores held now, >= 1.
        least, most: bounds of a new count.
        prices: of a change.
    """
    return choose_all([load], [held], [least], [most], prices)[0]


def choose_all(
    loads: Sequence[Load],
    held: Sequence[int],
    least: Sequence[int],
    most: Sequence[int],
    prices: Prices,
) -> list[Stretch]:
    """`choose` for many partitions at once, each as if alone; windows and horizons are equal."""
    if not loads:
        return []
    dt = loads[0].window_s
    unit = np.array([load.unit_rate for load in loads])[:, None]
    waiting = np.array([load.queue_rows for load in loads])[:, None]
    full = np.array([load.full for load in loads])[:, None]
    fixed, per_core = np.array([load.room for load in loads]).T[:, :, None]
    coming = np.array([load.rates for load in loads])
    blur = np.array([load.blur for load in loads])
    now = np.array(held, dtype=np.int64)[:, None]
    left = _left(loads, coming.shape[2])
    rates = np.stack([coming[:, 0], _rounded(coming[:, 1], blur, unit)], axis=1)
    counts = _candidates(
        rates[:, 1], dt, unit, waiting, (fixed, per_core), left, now,
        np.array(least, dtype=np.int64)[:, None], np.array(most, dtype=np.int64)[:, None],
    )  # fmt: skip
    kept = counts == now
    work = unit * dt * counts
    room = (fixed + per_core * counts) * (1.0 + _NEAR) + _NEAR
    level = np.repeat(waiting[:, None], 2, axis=1) + np.zeros(counts.shape[1])
    spans = rates.shape[2]
    queue = np.empty((spans, *counts.shape))
    idle = np.empty((spans, *counts.shape))
    served = np.empty((spans, *level.shape))
    for t in range(spans):
        rows = level + rates[:, :, t, None] * dt
        done = np.minimum(work[:, None], rows)
        level = rows - done
        queue[t] = np.where(kept, level[:, 0], level[:, 1])
        idle[t] = (work - done[:, 0]) / (unit * dt)
        served[t] = done / dt
    good = (queue <= room) | (queue <= left.T[:, :, None] * (1.0 + _NEAR))
    # What is held rides out a burst that fits the buffer and is over a window later.
    heals = np.append(good[1:], np.zeros((1, *counts.shape), dtype=bool), axis=0)
    fits = np.logical_and.accumulate(good | (kept & heals & (queue <= full)), axis=0)
    price = np.where(
        kept,
        0.0,
        prices.change * np.maximum(counts, now) + prices.per_core * np.abs(counts - now),
    )
    cost = (price + np.cumsum(idle, axis=0)) / np.arange(1, spans + 1)[:, None, None]
    best = np.where(fits, cost, np.inf).min(axis=0)
    cheapest = best.min(axis=1, keepdims=True)
    # Of equally cheap ones what is held, then the smallest; if none can be held, the largest.
    rank = np.where(kept, 0, counts)
    rank = np.where(np.isfinite(cheapest), np.where(best == cheapest, rank, _NEVER), -counts)
    found = []
    for p, at in enumerate(rank.argmin(axis=1).tolist()):
        going = np.where(fits[:, p, at], served[:, p, :, at].T, rates[p])
        found.append(Stretch(int(counts[p, at]), going))
    return found


def _left(loads: Sequence[Load], spans: int) -> FloatArray:
    """Rows of what waits now that may still wait at the end of each window, (P, H)."""
    after_s = loads[0].window_s * np.arange(1, spans + 1)
    return np.array(
        [
            load.queue_rows * np.maximum(0.0, 1.0 - after_s / load.drain_s)
            if load.drain_s > 0
            else np.zeros(spans)
            for load in loads
        ]
    )


def _rounded(upper: FloatArray, blur: FloatArray, unit: FloatArray) -> FloatArray:
    """Upper rates, less half a core where they are not that exact, (P, H)."""
    half = 0.5 * unit
    return np.maximum(upper - np.where(blur > half, half, 0.0), 0.0)


def _candidates(
    rates: FloatArray,
    dt: float,
    unit: FloatArray,
    waiting: FloatArray,
    room: tuple[FloatArray, FloatArray],
    left: FloatArray,
    held: IntArray,
    least: IntArray,
    most: IntArray,
) -> IntArray:
    """What is held, the fewest cores for each window and number of windows, and counts between.

    All counts between if they are few, else `MOST_TRIED` of them; (P, C), some of them twice.
    """
    work = unit * dt * np.arange(1, rates.shape[1] + 1)
    rows = waiting + np.cumsum(rates, axis=1) * dt
    # A count fits a stretch if it fits every shorter one.
    needed = np.minimum((rows - room[0]) / (work + room[1]), (rows - left) / work)
    whole = np.maximum.accumulate(needed, axis=1)
    some = np.concatenate([rates / unit, rows / work, whole], axis=1)
    counts = np.ceil(np.maximum(some, 1.0) * (1.0 - _NEAR)).astype(np.int64)
    counts = np.minimum(np.maximum(counts, least), most)
    low, high = counts.min(axis=1, keepdims=True), counts.max(axis=1, keepdims=True)
    steps = (high - low) / (MOST_TRIED - 1)
    between = (np.arange(MOST_TRIED) * steps + low).astype(np.int64)
    return np.concatenate([counts, between, high, np.minimum(held, most)], axis=1)
