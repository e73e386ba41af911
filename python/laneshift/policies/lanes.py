"""How lanes of a partition that gets cores are numbered, so that a plan can name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.ids import LaneId, NodeId
from laneshift.contract.measured import changed
from laneshift.contract.partition_load import LaneLoad, NodeCores, PartitionLoad


def with_lanes(
    cluster: ClusterLoad, part: PartitionLoad, cells: Mapping[NodeId, int]
) -> PartitionLoad:
    """``part`` with so many cores on those nodes, and a lane for each that comes, if lanes are
    known. New ones get the lowest unused ids, node by node in the order of ``cluster.nodes``; those
    that are to go are still there, since their shards have to move first.
    """
    held = {entry.node: entry.cores for entry in part.placement} | dict(cells)
    placement = tuple(
        NodeCores(node.node, held[node.node])
        for node in cluster.nodes
        if held.get(node.node, 0) > 0
    )
    looks_inside = part.lanes or (part.cores == 0 and part.shards is not None)
    if not looks_inside:
        return replace(part, placement=placement)
    lanes = list(part.lanes)
    for entry in placement:
        have = sum(lane.node == entry.node for lane in lanes)
        for _ in range(entry.cores - have):
            lanes.append(LaneLoad(_lowest_unused(lanes), entry.node))
    # There may be more lanes than cores, so skip the check.
    return changed(part, placement=placement, lanes=tuple(lanes))


def _lowest_unused(lanes: Sequence[LaneLoad]) -> LaneId:
    used = {lane.lane for lane in lanes}
    return next(LaneId(i) for i in range(len(used) + 1) if i not in used)
