"""What back-pressure hides.

A full queue slows its upstreams and, through them, all their other downstreams: the rates that are
measured keep their proportions but are too low, so they must be raised together. Raising only
the saturated partition's would take cores from its peers and make them the next bottleneck.
"""

from __future__ import annotations

from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.ids import PartitionId
from laneshift.policies.hot_keys import waits_for_a_key


def hidden_growth(cluster: ClusterLoad, growth: float) -> list[float]:
    """Factor per partition: ``growth`` for all that is coupled to a saturated one, else 1 [D].

    Coupled: of one operator, or joined by edges, directly or not. One whose rows wait for the lane
    of a hot key hides nothing that cores could bring.
    """
    parts = cluster.partitions
    pressed = [part for part in parts if part.saturated and not waits_for_a_key(part)]
    if not pressed:
        return [1.0] * len(parts)
    group = {part.partition: part.partition for part in parts}

    def root(p: PartitionId) -> PartitionId:
        while group[p] != p:
            group[p] = group[group[p]]
            p = group[p]
        return p

    first: dict[str, PartitionId] = {}
    for part in parts:
        group[root(part.partition)] = root(first.setdefault(part.operator, part.partition))
    for edge in cluster.edges:
        # An operator's partitions are together already.
        up, down = (parts[cluster.at(end)[0]].partition for end in (edge.upstream, edge.downstream))
        group[root(up)] = root(down)
    full = {root(part.partition) for part in pressed}
    return [growth if root(part.partition) in full else 1.0 for part in parts]
