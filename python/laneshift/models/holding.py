"""How many cores to hold, and for how long: lot sizing for a partition (ours [D]).

A change of the number of cores costs something by itself (shards move, caches are cold), so a
count is worth most if it can be held. As in the Silver-Meal rule for lot sizes, the choice is the
count whose cost per window, over the windows for which it can be held, is least.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from laneshift.inputcheck import FloatArray, IntArray

MOST_TRIED = 32
"""Counts that are tried between the fewest and the most that can be right."""

_NEAR = 1e-9


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
    """

    rates: FloatArray
    blur: FloatArray
    queue_rows: float
    unit_rate: float
    window_s: float
    room: tuple[float, float]
    full: float


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
    dt, unit = load.window_s, load.unit_rate
    rates = np.stack([load.rates[0], _rounded(load)])
    counts = _candidates(load, rates[1], held, least, most)
    work = unit * dt * counts
    room = (load.room[0] + load.room[1] * counts) * (1.0 + _NEAR) + _NEAR
    level = np.full((2, counts.size), load.queue_rows)
    path, column = np.where(counts == held, 0, 1), np.arange(counts.size)
    spans = rates.shape[1]
    queue, idle = np.empty((spans, counts.size)), np.empty((spans, counts.size))
    served = np.empty((2, spans, counts.size))
    for t, rate in enumerate(rates.T):
        rows = level + rate[:, None] * dt
        done = np.minimum(work, rows)
        level = rows - done
        queue[t], idle[t] = level[path, column], (work - done[0]) / (unit * dt)
        served[:, t] = done / dt
    good = queue <= room
    # What is held rides out a burst that fits the buffer and is over a window later.
    heals = np.append(good[1:], np.zeros((1, counts.size), dtype=bool), axis=0)
    fits = np.logical_and.accumulate(
        good | ((counts == held) & heals & (queue <= load.full)), axis=0
    )
    price = np.where(
        counts == held,
        0.0,
        prices.change * np.maximum(counts, held) + prices.per_core * np.abs(counts - held),
    )
    cost = (price + np.cumsum(idle, axis=0)) / np.arange(1, spans + 1)[:, None]
    best = np.where(fits, cost, np.inf).min(axis=0)
    at = int(np.lexsort((counts, counts != held, best))[0])
    if not np.isfinite(best[at]):
        at = int(counts.argmax())
    return Stretch(int(counts[at]), np.where(fits[:, at], served[:, :, at], rates))


def _rounded(load: Load) -> FloatArray:
    """Upper rates, less half a core where they are not that exact, (H,)."""
    half = 0.5 * load.unit_rate
    exact: FloatArray = load.rates[1] - np.where(load.blur > half, half, 0.0)
    return np.maximum(exact, 0.0)


def _candidates(load: Load, rates: FloatArray, held: int, least: int, most: int) -> IntArray:
    """What is held, the fewest cores for each window and number of windows, and counts between.

    All counts between if they are few, else `MOST_TRIED` of them.
    """
    dt = load.window_s
    work = load.unit_rate * dt * np.arange(1, rates.size + 1)
    rows = load.queue_rows + np.cumsum(rates) * dt
    # A count fits a stretch if it fits every shorter one.
    whole = np.maximum.accumulate((rows - load.room[0]) / (work + load.room[1]))
    some = np.concatenate([rates / load.unit_rate, rows / work, whole])
    counts = np.ceil(np.maximum(some, 1.0) * (1.0 - _NEAR)).astype(np.int64)
    counts = np.minimum(np.maximum(counts, least), most)
    between = np.linspace(counts.min(), counts.max(), MOST_TRIED).astype(np.int64)
    return np.unique(np.concatenate([counts, between, [min(held, most)]]))
