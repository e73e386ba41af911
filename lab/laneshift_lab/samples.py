"""Small cluster loads to try a policy on: for the documentation, doctests and tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from laneshift.contract.cluster_load import ClusterLoad, Edge, Node
from laneshift.contract.ids import LaneId, NodeId, OperatorId, PartitionId, QueryId
from laneshift.contract.partition_load import LaneLoad, NodeCores, PartitionLoad
from laneshift.contract.shard_table import ShardTable

__all__ = ["cluster", "partition", "with_shards"]


def partition(
    name: str,
    placement: Mapping[str, int],
    *,
    offered_rate: float = 0.0,
    service_rate: float = 1000.0,
    home: str | None = None,
    operator: str = "op",
    query: str = "",
    state_bytes: float = 0.0,
    data_bytes_per_s: float = 0.0,
    queue_rows: float = 0.0,
    queue_capacity_rows: float | None = None,
    selectivity: float = 1.0,
    max_cores: int | None = None,
    saturated: bool = False,
) -> PartitionLoad:
    """A partition without lanes and shards; ``home`` defaults to the first node it is placed on.

    Half of ``data_bytes_per_s`` counts as input, half as output.

    >>> partition("p0", {"node-a": 2}, offered_rate=1500).offered_load
    1.5
    """
    return PartitionLoad(
        partition=PartitionId(name),
        operator=OperatorId(operator),
        query=QueryId(query),
        home=NodeId(next(iter(placement)) if home is None else home),
        placement=tuple(NodeCores(NodeId(n), count) for n, count in placement.items() if count),
        offered_rate=offered_rate,
        service_rate_per_core=service_rate,
        saturated=saturated,
        queue_rows=queue_rows,
        queue_capacity_rows=queue_capacity_rows,
        selectivity=selectivity,
        state_bytes=state_bytes,
        input_bytes_per_s=data_bytes_per_s / 2,
        output_bytes_per_s=data_bytes_per_s / 2,
        max_cores=max_cores,
    )


def with_shards(
    part: PartitionLoad,
    load_cores: Sequence[float],
    lane: Sequence[int] | None = None,
    *,
    first_shard: int = 0,
) -> PartitionLoad:
    """``part`` with one lane per held core and one shard per entry of ``load_cores``.

    Shards go round robin over the lanes unless ``lane`` says where; state is spread evenly.
    """
    nodes = [held.node for held in part.placement for _ in range(held.cores)]
    lanes = tuple(LaneLoad(LaneId(i), node) for i, node in enumerate(nodes))
    count = len(load_cores)
    table = ShardTable(
        shard=np.arange(first_shard, first_shard + count),
        lane=np.arange(count) % max(1, len(lanes)) if lane is None else np.asarray(lane),
        load_cores=np.asarray(load_cores, dtype=np.float64),
        state_bytes=np.full(count, part.state_bytes / max(1, count)),
    )
    values = {name: getattr(part, name) for name in part.__dataclass_fields__}
    return PartitionLoad(**{**values, "lanes": lanes, "shards": table})


def cluster(
    nodes: Mapping[str, int],
    partitions: Sequence[PartitionLoad],
    *,
    edges: Sequence[tuple[str, str] | tuple[str, str, float]] = (),
    time_s: float = 0.0,
    window_s: float = 5.0,
) -> ClusterLoad:
    """A cluster load of ``nodes`` (name -> cores), ``partitions`` and edges (from, to[, ratio])."""
    return ClusterLoad(
        time_s=time_s,
        window_s=window_s,
        nodes=tuple(Node(NodeId(name), cores) for name, cores in nodes.items()),
        partitions=tuple(partitions),
        edges=tuple(
            Edge(PartitionId(e[0]), PartitionId(e[1]), e[2] if len(e) == 3 else 1.0) for e in edges
        ),
    )
