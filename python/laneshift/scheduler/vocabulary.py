"""The words of the scheduler, in one place: ids, snapshot and plan.

A policy is a pure function of a :class:`Snapshot` and its own state that answers with a
:class:`Plan`. The same types drive a live cluster, the simulator and recorded traces.
"""

from laneshift.errors import InputError
from laneshift.scheduler.ids import (
    KeyId,
    LaneId,
    LaneRef,
    NodeId,
    OperatorId,
    PartitionId,
    ShardId,
    SourceId,
)
from laneshift.scheduler.plan import (
    CoreChange,
    KeySplit,
    MoveScope,
    PlacementChange,
    Plan,
    Reason,
    ShardMove,
    Shortfall,
    Throttle,
)
from laneshift.scheduler.snapshot import (
    Edge,
    HotKey,
    LaneSnapshot,
    NodeCores,
    NodeSnapshot,
    PartitionSnapshot,
    ShardTable,
    Snapshot,
    SourceSnapshot,
)

__all__ = [
    "CoreChange",
    "Edge",
    "HotKey",
    "InputError",
    "KeyId",
    "KeySplit",
    "LaneId",
    "LaneRef",
    "LaneSnapshot",
    "MoveScope",
    "NodeCores",
    "NodeId",
    "NodeSnapshot",
    "OperatorId",
    "PartitionId",
    "PartitionSnapshot",
    "PlacementChange",
    "Plan",
    "Reason",
    "ShardId",
    "ShardMove",
    "ShardTable",
    "Shortfall",
    "Snapshot",
    "SourceId",
    "SourceSnapshot",
    "Throttle",
]
