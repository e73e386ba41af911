"""The words of the scheduler, in one place: ids, cluster load and plan.

A policy is a pure function of a :class:`ClusterLoad` and its own state that answers with a
:class:`Plan`. The same types drive a live cluster, the simulator and recorded traces.
"""

from laneshift.scheduler.cluster_load import ClusterLoad, Edge, Node, SourceLoad
from laneshift.scheduler.ids import (
    KeyId,
    LaneId,
    LaneRef,
    NodeId,
    OperatorId,
    PartitionId,
    QueryId,
    ShardId,
    SourceId,
)
from laneshift.scheduler.partition_load import HotKey, LaneLoad, NodeCores, PartitionLoad
from laneshift.scheduler.plan import (
    CoreChange,
    KeySplit,
    MoveScope,
    PartitionsChange,
    PlacementChange,
    Plan,
    Reason,
    ShardMove,
    Shortfall,
    Throttle,
)
from laneshift.scheduler.shard_table import ShardTable
from laneshift.scheduler.store_load import StoreLoad

__all__ = [
    "ClusterLoad",
    "CoreChange",
    "Edge",
    "HotKey",
    "KeyId",
    "KeySplit",
    "LaneId",
    "LaneLoad",
    "LaneRef",
    "MoveScope",
    "Node",
    "NodeCores",
    "NodeId",
    "OperatorId",
    "PartitionId",
    "PartitionLoad",
    "PartitionsChange",
    "PlacementChange",
    "Plan",
    "QueryId",
    "Reason",
    "ShardId",
    "ShardMove",
    "ShardTable",
    "Shortfall",
    "SourceId",
    "SourceLoad",
    "StoreLoad",
    "Throttle",
]
