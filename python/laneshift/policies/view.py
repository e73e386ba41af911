"""A cluster load as arrays: partitions are rows, nodes are columns, both in cluster load order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.plan import CoreChange, PlacementChange
from laneshift.inputcheck import FloatArray, IntArray
from laneshift.models.assignment import Demand

__all__ = ["View"]

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class View:
    """Arrays of a cluster load with m partitions and n nodes.

    Attributes:
        cluster load: where they come from.
        placement: cores held, int (m, n).
        cores: cores held per partition, int (m,).
        node_cores: int (n,).
        homes: node index of each partition's home, int (m,).
        offered, service: rows/s and rows/s per core, float (m,).
        state_bytes: float (m,).
        data_intensity: (bytes in + out per second) / cores held now, float (m,); 0 without cores.
        limits: most cores per partition, int (m,); a large number where there is no limit.
        kept: cores at home that a partition never gives up, int (m,).
        bound: whether all of its cores are at home, bool (m,).
    """

    cluster: ClusterLoad
    placement: IntArray
    cores: IntArray
    node_cores: IntArray
    homes: IntArray
    offered: FloatArray
    service: FloatArray
    state_bytes: FloatArray
    data_intensity: FloatArray
    limits: IntArray
    kept: IntArray
    bound: BoolArray

    @classmethod
    def of(cls, cluster: ClusterLoad) -> View:
        """Read a cluster load; O(m*n)."""
        parts = cluster.partitions
        column = {node.node: i for i, node in enumerate(cluster.nodes)}
        placement = np.zeros((len(parts), len(column)), dtype=np.int64)
        for j, part in enumerate(parts):
            for held in part.placement:
                placement[j, column[held.node]] = held.cores
        cores = placement.sum(axis=1)
        traffic = np.array([p.input_bytes_per_s + p.output_bytes_per_s for p in parts], dtype=float)
        return cls(
            cluster=cluster,
            placement=placement,
            cores=cores,
            node_cores=np.array([node.cores for node in cluster.nodes], dtype=np.int64),
            homes=np.array([column[p.home] for p in parts], dtype=np.int64),
            offered=np.array([p.offered_rate for p in parts], dtype=np.float64),
            service=np.array([p.service_rate_per_core for p in parts], dtype=np.float64),
            state_bytes=np.array([p.state_bytes for p in parts], dtype=np.float64),
            data_intensity=np.where(cores > 0, traffic / np.maximum(cores, 1), 0.0),
            limits=np.array(
                [2**31 if p.max_cores is None else p.max_cores for p in parts], dtype=np.int64
            ),
            kept=np.array([p.kept_at_home for p in parts], dtype=np.int64),
            bound=np.array([p.stays_home for p in parts], dtype=bool),
        )

    def demand(self, targets: IntArray, *, costs: bool = True) -> Demand:
        """Input of Algorithm 1; without ``costs`` state and data intensity count as 0 [XP]."""
        zero = np.zeros(len(targets))
        return Demand(
            placement=self.placement,
            targets=targets,
            node_cores=self.node_cores,
            state_bytes=self.state_bytes if costs else zero,
            homes=self.homes,
            data_intensity=self.data_intensity if costs else zero,
            kept=self.kept,
            bound=self.bound,
        )

    def changes(
        self, after: IntArray
    ) -> tuple[tuple[CoreChange, ...], tuple[PlacementChange, ...]]:
        """What turns the placement held into ``after``, int (m, n), as the parts of a plan."""
        parts, nodes = self.cluster.partitions, self.cluster.nodes
        total = after.sum(axis=1)
        counts = tuple(
            CoreChange(parts[j].partition, int(self.cores[j]), int(total[j]))
            for j in np.flatnonzero(total != self.cores).tolist()
        )
        cells = tuple(
            PlacementChange(
                parts[j].partition,
                nodes[i].node,
                int(self.placement[j, i]),
                int(after[j, i]),
            )
            for j, i in np.argwhere(after != self.placement).tolist()
        )
        return counts, cells
