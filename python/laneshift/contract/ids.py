"""Ids are types, never bare strings or ints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

NodeId = NewType("NodeId", str)
"""A machine, or the Spark executor that stands for its cores."""

QueryId = NewType("QueryId", str)
"""A streaming query: what its rows pass has one latency target."""

OperatorId = NewType("OperatorId", str)
"""An elastic operator of a query plan."""

PartitionId = NewType("PartitionId", str)
"""An elastic partition: one state partition of an elastic operator (paper: elastic executor)."""

SourceId = NewType("SourceId", str)
"""A stream that enters the topology."""

KeyId = NewType("KeyId", str)
"""A grouping key, as the JVM side prints it."""

LaneId = NewType("LaneId", int)
"""A lane of one partition (paper: task); unique within its partition only."""

ShardId = NewType("ShardId", int)
"""A slice of the key subspace (paper: shard, key group); unique within its partition at least."""


@dataclass(frozen=True, slots=True, order=True)
class LaneRef:
    """A lane, named across partitions."""

    partition: PartitionId
    lane: LaneId
