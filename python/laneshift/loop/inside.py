"""Shards, lanes and hot keys of partitions, for policies that say where keys go."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from laneshift.loop.rates import lanes_of
from laneshift.loop.seen import Seen, query_name
from laneshift.plugin.partition import PartitionSnapshot
from laneshift.scheduler.ids import KeyId, PartitionId, ShardId
from laneshift.scheduler.measured import changed
from laneshift.scheduler.partition_load import HotKey, PartitionLoad
from laneshift.scheduler.shard_table import ShardTable


def shard_of(key: str, partitions: int, shards: int) -> ShardId:
    """The shard of a key, from the hash that Spark's shuffle takes of it (``ShardOfHash``).

    Args:
        key: that hash, as hexadecimal digits of 32 bits.
        partitions: state partitions of the operator (count).
        shards: of each of them (count).

    >>> shard_of("0badcafe", 2, 8), shard_of("ffffffff", 2, 8)
    (7, 7)
    """
    value = int(key, 16)
    signed = value - (1 << 32) if value >= 1 << 31 else value
    return ShardId(signed % (partitions * shards) // partitions)


def looked_into(load: PartitionLoad, seen: Seen) -> PartitionLoad:
    """``load`` with what is known of the partition's inside.

    In micro-batch lanes and shards are those of the newest batch.
    """
    operator, part = seen.operator, seen.part
    if operator.is_dealt:
        return changed(load, works_above=_below(seen))
    lanes, shards = load.lanes, load.shards
    if load.batch is not None:
        lanes = lanes_of(part)
        held = {cell.node: cell.cores for cell in load.placement}
        if Counter(lane.node for lane in lanes) != held:
            lanes = ()  # some come or go just now
        shards = _shares(part, load.offered_load) if lanes else None
    total = load.offered_load if shards is None else float(shards.load_cores.sum())
    hot = _hot_keys(seen, total)
    return changed(load, lanes=lanes, shards=shards, hot_keys=hot, inputs=operator.inputs)


def with_hot_keys(load: PartitionLoad, seen: Seen) -> PartitionLoad:
    """``load`` with the keys that have much of its work, each of which one lane at a time does."""
    if seen.operator.is_dealt or not seen.part.hot_keys:
        return load
    hot = _hot_keys(seen, load.offered_load)
    if load.batch is None:
        # Which keys have the most was counted over a while: it is no more than their lanes do now.
        lane_of, busy = seen.part.lane_of_shard, seen.part.lane_busy
        hot = tuple(
            replace(key, load_cores=min(key.load_cores, float(busy[lane_of[key.shard]])))
            for key in hot
            if key.shard is not None and lane_of[key.shard] < busy.size
        )
    return changed(load, hot_keys=hot)


def _hot_keys(seen: Seen, work: float) -> tuple[HotKey, ...]:
    """The hot keys of a partition that has so much ``work`` (cores)."""
    count, shards = seen.operator.partition_count, seen.part.shards
    return tuple(
        HotKey(KeyId(key.key), key.share * work, shard=shard_of(key.key, count, shards))
        for key in seen.part.hot_keys
    )


def _shares(part: PartitionSnapshot, work: float) -> ShardTable | None:
    """Shards of a batch: what the batch took is shared as their rows were."""
    if part.lane_of_shard.max(initial=-1) >= part.lanes:
        return None  # shards are to leave a lane that goes
    load = part.shard_load
    total = float(load.sum())
    load = load * (work / total) if total > 0 else load
    return ShardTable(np.arange(part.shards), part.lane_of_shard, load, np.zeros(part.shards))


def _below(seen: Seen) -> PartitionId | None:
    """The partition whose work it does that is apart from it."""
    below = [o for o in seen.query.operators if o.operator_id in seen.operator.upstream]
    if len(below) != 1 or below[0].above != "apart":
        return None
    name = f"{query_name(seen.query)}:{below[0].operator_id}.{seen.part.partition}"
    return PartitionId(name)
