"""What hot keys allow: the lanes a partition can use, and those a split key takes (ours [D])."""

from __future__ import annotations

import math
from collections.abc import Sequence

from laneshift.contract.partition_load import HotKey, PartitionLoad
from laneshift.contract.plan import KeySplit


def ways(hot: HotKey, split_above: float | None) -> int:
    """Lanes that should process a key: its parts take half to all of ``split_above`` (cores, > 0).

    The ways it has stay as long as they do that; None leaves every key as it is.
    """
    if split_above is None:
        return hot.ways
    fewest, most = (max(1, math.ceil(n * hot.load_cores / split_above)) for n in (1, 2))
    return min(max(hot.ways, fewest), most)


FULL = 0.9
"""A lane is full from so much of its core on, where rows have to wait (ours)."""


def _hottest(part: PartitionLoad, split_above: float | None) -> tuple[float, int, float]:
    """How much of a lane the hottest part of a key takes, the lanes of that key, and what all other
    keys take (cores).
    """
    parts = [(hot, ways(hot, split_above)) for hot in part.hot_keys]
    hottest, lanes = max(parts, key=lambda p: p[0].load_cores / p[1], default=(None, 1))
    if hottest is None:
        return 0.0, 1, part.offered_load
    rest = max(0.0, part.offered_load - hottest.load_cores)
    return hottest.load_cores / lanes, lanes, rest


def waits_for_a_key(part: PartitionLoad, split_above: float | None = None) -> bool:
    """Whether rows wait for the lane of their key only: there is room for all others."""
    fill, lanes, rest = _hottest(part, split_above)
    return part.saturated and fill >= FULL and rest <= FULL * (part.cores - lanes)


def useful_cores(part: PartitionLoad, split_above: float | None = None) -> int:
    """Most cores that a partition can use: its own limit, and that of its hottest part of a key.

    A part of a key runs on one lane. If the hottest one fills it, the other keys use at most their
    own load, which is known only as long as none of theirs has to wait.
    """
    limit = 2**31 if part.max_cores is None else part.max_cores
    fill, lanes, rest = _hottest(part, split_above)
    if waits_for_a_key(part, split_above):
        return min(limit, lanes + math.ceil(rest / FULL))
    if fill >= 1.0 and not part.saturated:
        return min(limit, lanes + math.ceil(rest))
    return limit


def splits(
    parts: Sequence[PartitionLoad], cores: Sequence[int], split_above: float | None
) -> tuple[KeySplit, ...]:
    """Keys to split or merge where the partitions get ``cores``: at most one part per lane."""
    wanted = [
        KeySplit(part.partition, hot.key, min(ways(hot, split_above), max(1, count)))
        for part, count in zip(parts, cores, strict=True)
        for hot in part.hot_keys
    ]
    held = [hot.ways for part in parts for hot in part.hot_keys]
    return tuple(s for s, now in zip(wanted, held, strict=True) if s.ways != now)
