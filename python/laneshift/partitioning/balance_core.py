"""The intra-executor balancing loop, for many elastic partitions at once (numpy).

Elasticutor, 2019, 3.2; the algorithm is [D] (metric and theta are [XK], the move rule
[XP]). Every round makes one move in every partition that still needs one, so that the cost is that
of the partition with the most moves, not the sum.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass

import numpy as np

from laneshift import inputcheck
from laneshift.errors import InputError
from laneshift.inputcheck import FloatArray, IntArray

NOISE = 1e-9
"""A gap that is smaller by this share of the mean lane load is the same gap (ours): lanes' sums
are rounded, and two with equal shards would give each other one for ever.
"""


@dataclass(frozen=True, eq=False)
class BatchMoves:
    """Moves of all partitions, in the order made: M entries each, and the lanes afterwards.

    partition, shard, source, target: (M,) ints. lane: (P, S) owner after the moves.
    delta: (P,) max / mean lane load afterwards, 1.0 for idle partitions.
    """

    partition: IntArray
    shard: IntArray
    source: IntArray
    target: IntArray
    lane: IntArray
    delta: FloatArray


def check_batch(load: FloatArray, lane: IntArray, lanes: IntArray) -> None:
    """Errors: ``InputError`` for shapes that differ, bad loads, lanes out of range."""
    if load.ndim != 2 or load.shape != lane.shape:
        raise InputError(
            "load", f"shapes {load.shape} and {lane.shape}", "two equal (P, S) shapes",
            "Give one load and one lane per shard of every partition.",
        )  # fmt: skip
    bad = ~np.isfinite(load) | (load < 0)
    if bad.any():
        p, s = (int(i) for i in np.argwhere(bad)[0])
        raise InputError(
            f"load[{p},{s}]", float(load[p, s]), "a finite number >= 0", "Check the metric."
        )
    if lanes.shape != (load.shape[0],) or (lanes < 1).any():
        raise InputError("lanes", lanes.tolist(), "one count >= 1 per partition", "Give 1 or more.")
    if ((lane < 0) | (lane >= lanes[:, None])).any():
        raise InputError(
            "lane", "a lane out of range", "0 <= lane < lanes[partition]", "Drain removed lanes."
        )


def balance_batch(
    load: FloatArray,
    lane: IntArray,
    lanes: IntArray,
    theta: float,
    *,
    min_gain: float = 0.0,
    hot_shard_guard: bool = True,
    max_moves: int = 1_000_000,
) -> BatchMoves:
    """Even out each partition's lanes until max / mean <= theta or no move helps.

    load: (P, S) load per shard, any one unit; lane: (P, S) owner; lanes: (P,) lanes per partition.
    theta: allowed max / mean lane load, >= 1. Repeats: from the most loaded lane to the least
    loaded, the heaviest shard with 0 < load < gap; ties to the lowest id.
    min_gain: a move must lower the pair's maximum by at least this share of the mean lane load.
    hot_shard_guard [D]: a shard heavier than the mean lane stays when it is its lane's only one
    (its neighbours leave instead), and a lane that nothing can help is set aside, not the end.
    max_moves: most moves per partition.
    """
    check_batch(load, lane, lanes)
    inputcheck.number("theta", theta, "1.2 is the usual threshold.", low=1.0)
    inputcheck.number("min_gain", min_gain, "Use a small share such as 0.01.", low=0.0)
    if load.shape[0] == 1:
        return _balance_one(
            load[0], lane[0], int(lanes[0]), theta, min_gain, hot_shard_guard, max_moves
        )
    n, width = load.shape[0], int(lanes.max(initial=1))
    lane = lane.astype(np.int64)
    flat = (np.arange(n)[:, None] * width + lane).ravel()
    total = np.bincount(flat, weights=load.ravel(), minlength=n * width).astype(np.float64)
    total = total.reshape(n, width)
    missing = np.arange(width)[None, :] >= lanes[:, None]
    mean = load.sum(axis=1) / lanes
    hot = load > mean[:, None]
    hot_count = np.bincount(flat, weights=hot.ravel(), minlength=n * width).reshape(n, width)
    upper = np.where(missing, -np.inf, total)  # set-aside lanes become -inf here
    lower = np.where(missing, np.inf, total)
    active = np.flatnonzero(upper.max(axis=1) > theta * mean)
    # Heaviest first, so that the heaviest candidate is the first True of a row.
    ids = np.argsort(-load[active], axis=1, kind="stable")
    a_load = np.take_along_axis(load[active], ids, axis=1)
    a_lane = np.take_along_axis(lane[active], ids, axis=1).astype(
        np.int16 if width < 2**15 else int
    )
    a_hot = np.take_along_axis(hot[active], ids, axis=1)
    made: list[tuple[IntArray, IntArray, IntArray, IntArray]] = []
    live = np.ones(active.size, dtype=bool)  # finished rows stay until enough of them can go
    rounds = 0
    while active.size and rounds < max_moves:
        rows = np.arange(active.size)
        source, target = upper[active].argmax(axis=1), lower[active].argmin(axis=1)
        gap = total[active, source] - total[active, target]
        least = min_gain * mean[active]
        able = a_lane == source[:, None].astype(a_lane.dtype)
        able &= a_load < (gap - np.maximum(least, NOISE * mean[active]))[:, None]
        if min_gain > 0:
            able &= a_load >= least[:, None]
        if hot_shard_guard:
            lonely = np.flatnonzero(hot_count[active, source] == 1)
            able[lonely] &= ~a_hot[lonely]
        at = able.argmax(axis=1)
        amount = a_load[rows, at]
        ok = live & able[rows, at] & (amount > 0)
        go, src, dst, col = active[ok], source[ok], target[ok], at[ok]
        _apply(total, upper, lower, go, src, dst, amount[ok])
        moved_hot = a_hot[ok, col]
        hot_count[go[moved_hot], src[moved_hot]] -= 1
        hot_count[go[moved_hot], dst[moved_hot]] += 1
        a_lane[rows[ok], col] = dst
        shard = ids[rows[ok], col]
        lane[go, shard] = dst
        made.append((go, shard, src, dst))
        rounds += 1
        upper[active[~ok], source[~ok]] = -np.inf
        live &= upper[active].max(axis=1) > theta * mean[active]
        if not hot_shard_guard:
            live &= ok
        if live.sum() < 0.8 * live.size or not live.any():
            active, ids, a_load = active[live], ids[live], a_load[live]
            a_lane, a_hot, live = a_lane[live], a_hot[live], live[live]
    peak = np.where(missing, 0.0, total).max(axis=1)
    delta = np.divide(peak, mean, out=np.ones(n), where=mean > 0)
    empty = np.zeros(0, dtype=np.int64)
    parts = [np.concatenate([m[i] for m in made]) if made else empty for i in range(4)]
    return BatchMoves(parts[0], parts[1], parts[2], parts[3], lane, delta)


def _apply(
    total: FloatArray,
    upper: FloatArray,
    lower: FloatArray,
    rows: IntArray,
    source: IntArray,
    target: IntArray,
    amount: FloatArray,
) -> None:
    total[rows, source] -= amount
    total[rows, target] += amount
    upper[rows, source] = total[rows, source]
    lower[rows, source] = total[rows, source]
    lower[rows, target] = total[rows, target]
    set_aside = np.isneginf(upper[rows, target])
    upper[rows, target] = np.where(set_aside, -np.inf, total[rows, target])


def _balance_one(
    load: FloatArray,
    lane: IntArray,
    lanes: int,
    theta: float,
    min_gain: float,
    hot_shard_guard: bool,
    max_moves: int,
) -> BatchMoves:
    """The same moves for one partition: a round looks at its two lanes, not at all shards."""
    mean = float(load.sum(axis=0)) / lanes
    total = np.bincount(lane, weights=load, minlength=lanes).astype(np.float64)
    upper, lower = total.copy(), total.copy()  # lanes set aside become -inf in upper
    order = np.argsort(-load, kind="stable")
    heaviest_first = load[order].tolist()
    falling = (-load[order]).tolist()
    hot = int((load > mean).sum())  # they are the first of the order
    held: list[list[int]] = [[] for _ in range(lanes)]
    for rank, owner in enumerate(lane[order].tolist()):
        held[owner].append(rank)
    moves: list[tuple[int, int, int]] = []
    least = min_gain * mean
    below = max(least, NOISE * mean)
    for _ in range(max_moves):
        if not upper.max() > theta * mean:
            break
        source, target = int(upper.argmax()), int(lower.argmin())
        here = held[source]
        # The heaviest shard below the gap; a lonely hot one stays.
        first = bisect_right(falling, -(float(total[source] - total[target]) - below))
        if hot_shard_guard and bisect_left(here, hot) == 1:
            first = max(first, hot)
        at = bisect_left(here, first)
        amount = heaviest_first[here[at]] if at < len(here) else 0.0
        if amount <= 0 or (min_gain > 0 and amount < least):
            upper[source] = -np.inf
            if not hot_shard_guard:
                break
            continue
        rank = here.pop(at)
        insort(held[target], rank)
        moves.append((int(order[rank]), source, target))
        total[source] -= amount
        total[target] += amount
        upper[source] = lower[source] = total[source]
        lower[target] = total[target]
        if upper[target] != -np.inf:
            upper[target] = total[target]
    after = lane.astype(np.int64)
    for shard, _, target in moves:
        after[shard] = target
    made = np.array(moves, dtype=np.int64).reshape(-1, 3)
    delta = np.array([total.max() / mean if mean > 0 else 1.0])
    return BatchMoves(
        np.zeros(len(moves), dtype=np.int64), made[:, 0], made[:, 1], made[:, 2], after[None], delta
    )
