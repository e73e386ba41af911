"""Apply a plan to a cluster load on paper: what is left of a plan's promises is checked so."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.ids import LaneId, LaneRef, NodeId, PartitionId
from laneshift.contract.measured import changed
from laneshift.contract.partition_load import LaneLoad, PartitionLoad
from laneshift.contract.plan import Plan, ShardMove
from laneshift.contract.shard_table import ShardTable
from laneshift.errors import InputError
from laneshift.policies.lanes import with_lanes

_RACE = "Apply a plan to the cluster load it was made from."


def apply_plan(cluster: ClusterLoad, plan: Plan) -> ClusterLoad:
    """The cluster load as it is once ``plan`` is carried out; loads and rates stay as measured.

    New lanes get the lowest unused ids of their partition, node by node in the order of
    ``cluster.nodes``. Lanes that go are, per node, those with the fewest shards left after the
    plan's own moves (ties: highest id); their shards go to the partition's least loaded lane,
    heaviest first (Elasticutor, 2019, 3.2, [XP, D]). Keys that ``hot_keys`` names are as split as
    the plan says. Throttles, rescales and numbers of tasks leave no trace.

    Raises:
        InputError: the plan does not fit the cluster load: a ``before`` that is not so, sums that
            disagree, a node filled beyond its cores, a shard that is not where the plan says.
    """
    parts = {part.partition: part for part in cluster.partitions}
    wanted: dict[PartitionId, dict[NodeId, int]] = {}
    for change in plan.placement_changes:
        part = cluster.partition(change.partition)
        if part.cores_on(change.node) != change.before:
            raise InputError(
                f"before of {change.partition} on {change.node}",
                change.before,
                f"what is held, {part.cores_on(change.node)}",
                _RACE,
            )
        wanted.setdefault(change.partition, {})[change.node] = change.after
    for partition, cells in wanted.items():
        parts[partition] = with_lanes(cluster, parts[partition], cells)
    for core_change in plan.core_changes:
        part = cluster.partition(core_change.partition)
        after = parts[core_change.partition].cores
        if (part.cores, after) != (core_change.before, core_change.after):
            raise InputError(
                f"core change of {core_change.partition}",
                (core_change.before, core_change.after),
                f"what the placement changes add up to, {(part.cores, after)}",
                _RACE,
            )
    _move_shards(parts, plan.shard_moves)
    for split in plan.key_splits:
        part = parts[cluster.partition(split.partition).partition]
        keys = tuple(
            replace(hot, ways=split.ways) if hot.key == split.key else hot for hot in part.hot_keys
        )
        parts[split.partition] = replace(part, hot_keys=keys)
    for partition, part in parts.items():
        if part.lanes:
            parts[partition] = _drop_lanes(part)
    return replace(cluster, partitions=tuple(parts.values()))


def _move_shards(parts: dict[PartitionId, PartitionLoad], moves: tuple[ShardMove, ...]) -> None:
    for move in moves:
        source, target = parts[move.source.partition], parts[move.target.partition]
        if source.shards is None or target.shards is None:
            raise InputError("shard_moves", move, "partitions with shards", _RACE)
        if source.operator != target.operator:
            raise InputError("shard_moves", move, "lanes of one operator", _RACE)
        at = np.flatnonzero(source.shards.shard == move.shard)
        if at.size == 0 or source.shards.lane[at[0]] != move.source.lane:
            raise InputError("shard_moves", move, "a shard that the source lane owns", _RACE)
        if all(lane.lane != move.target.lane for lane in target.lanes):
            raise InputError("shard_moves", move, "a lane of the target partition", _RACE)
        _move_one(parts, int(at[0]), move.source, move.target)


def _move_one(
    parts: dict[PartitionId, PartitionLoad], at: int, source: LaneRef, target: LaneRef
) -> None:
    part = parts[source.partition]
    shards = part.shards
    assert shards is not None
    if source.partition == target.partition:
        lane = shards.lane.copy()
        lane[at] = target.lane
        table = replace(shards, lane=lane)
        parts[source.partition] = changed(part, shards=table)
        return
    other = parts[target.partition]
    assert other.shards is not None
    keep = np.arange(len(shards)) != at
    names = ("shard", "lane", "load_cores", "state_bytes")
    left = ShardTable(*(getattr(shards, name)[keep] for name in names))
    row = [getattr(shards, name)[at] for name in names]
    row[1] = target.lane
    joined = ShardTable(
        *(np.append(getattr(other.shards, n), v) for n, v in zip(names, row, strict=True))
    )
    parts[source.partition] = changed(part, shards=left)
    parts[target.partition] = changed(other, shards=joined)


def _drop_lanes(part: PartitionLoad) -> PartitionLoad:
    held: dict[NodeId, int] = {entry.node: entry.cores for entry in part.placement}
    if Counter(lane.node for lane in part.lanes) == held:  # none goes
        lanes = tuple(sorted(part.lanes, key=lambda lane: lane.lane))
        return part if lanes == part.lanes else changed(part, lanes=lanes)
    owned = {
        lane.lane: 0 if part.shards is None else int(np.sum(part.shards.lane == lane.lane))
        for lane in part.lanes
    }
    stay: list[LaneLoad] = []
    for node in dict.fromkeys(lane.node for lane in part.lanes):
        here = [lane for lane in part.lanes if lane.node == node]
        here.sort(key=lambda lane: (-owned[lane.lane], lane.lane))
        stay += here[: held.get(node, 0)]
    stay.sort(key=lambda lane: lane.lane)
    return replace(
        part, lanes=tuple(stay), shards=_drain(part.shards, [lane.lane for lane in stay])
    )


def _drain(shards: ShardTable | None, stay: list[LaneId]) -> ShardTable | None:
    if shards is None or not stay:
        return shards
    owner = shards.lane.copy()
    load = {lane: float(shards.load_cores[owner == lane].sum()) for lane in stay}
    homeless = np.flatnonzero(~np.isin(owner, np.array(stay, dtype=np.int64)))
    heaviest_first = homeless[np.argsort(-shards.load_cores[homeless], kind="stable")]
    for at in heaviest_first:
        lane = min(stay, key=lambda candidate: (load[candidate], candidate))
        owner[at] = lane
        load[lane] += float(shards.load_cores[at])
    return replace(shards, lane=owner)
