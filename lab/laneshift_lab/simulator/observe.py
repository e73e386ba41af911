"""From the state of a run to the cluster load that a policy sees."""

from __future__ import annotations

import numpy as np

from laneshift.contract.cluster_load import ClusterLoad, Edge, Node, SourceLoad
from laneshift.contract.ids import LaneId, PartitionId, SourceId
from laneshift.contract.partition_load import LaneLoad, NodeCores, PartitionLoad
from laneshift.contract.shard_table import ShardTable
from laneshift.inputcheck import FloatArray, sums
from laneshift_lab.simulator.fluid import Fluid
from laneshift_lab.simulator.keyloads import KeyLoads


class Observer:
    """Collects what happened since the last cluster load; ``details``: lanes and shards too."""

    def __init__(self, fluid: Fluid, keys: KeyLoads, details: bool) -> None:
        self._fluid, self._keys, self._details = fluid, keys, details
        lay = fluid.layout
        self._rows = np.zeros(lay.queue.size)
        self._blocked = np.zeros(len(lay.operators))
        self._lost = np.zeros(len(lay.operators))
        self._steps = 0
        self._stopped = np.zeros(len(lay.operators))
        self._emitted = 0.0

    def add(self, rows: FloatArray) -> None:
        """Rows that arrived per shard since the last call, (S,)."""
        self._rows += rows

    def cluster(self, time_s: float) -> ClusterLoad:
        """Rates over the steps since the last cluster load, levels now."""
        fluid, lay = self._fluid, self._fluid.layout
        steps = max(fluid.steps - self._steps, 1)
        window = steps * fluid.engine.step_s
        # Free slots for parts of keys have no partition; they hold nothing, so any will do.
        part_of_shard = np.maximum(lay.lane_part[lay.lane], 0)
        n_parts = len(lay.part_name)
        # Rows wait upstream while RC stops an operator: its offered rate is over the other steps.
        running = np.maximum(steps - (fluid.stopped_steps - self._stopped), 1) / steps * window
        rates = sums(part_of_shard, self._rows, n_parts) / running[lay.part_op]
        inside = sums(part_of_shard, lay.queue + lay.hold, n_parts)
        blocked = (fluid.blocked_steps - self._blocked) / steps > 0.1
        lost = fluid.totals.lost - self._lost
        state = sums(part_of_shard, lay.state_bytes, n_parts)
        placement = lay.placement()
        parts = tuple(
            self._partition(p, rates, inside, state, placement, blocked, lost, running)
            for p in range(n_parts)
        )
        shot = ClusterLoad(
            time_s=time_s,
            window_s=window,
            nodes=tuple(
                Node(name, int(cores) if up else 0, lay.cluster.nic_bytes_s)
                for name, cores, up in zip(
                    lay.cluster.names, lay.node_cores.tolist(), fluid.node_up.tolist(), strict=True
                )
            ),
            partitions=parts,
            edges=self._edges(),
            sources=self._sources(window),
        )
        self._rows[:] = 0.0
        self._blocked, self._lost = fluid.blocked_steps.copy(), fluid.totals.lost.copy()
        self._stopped = fluid.stopped_steps.copy()
        self._steps = fluid.steps
        self._emitted = fluid.totals.emitted
        return shot

    def _partition(
        self,
        p: int,
        rates: FloatArray,
        inside: FloatArray,
        state: FloatArray,
        placement: np.ndarray,
        blocked: np.ndarray,
        lost: FloatArray,
        running: FloatArray,
    ) -> PartitionLoad:
        lay = self._fluid.layout
        o = int(lay.part_op[p])
        op, rate = lay.operators[o], float(rates[p])
        names = lay.cluster.names
        lanes: tuple[LaneLoad, ...] = ()
        shards: ShardTable | None = None
        held = [NodeCores(names[i], int(placement[p, i])) for i in np.flatnonzero(placement[p])]
        if self._details:
            slots = [s for s in lay.lanes_of(p).tolist() if not lay.leaving[s]]
            lanes = tuple(
                LaneLoad(LaneId(int(lay.lane_id[s])), names[int(lay.lane_node[s])]) for s in slots
            )
            shards = self._shards(p, o, float(running[o]))
        return PartitionLoad(
            partition=PartitionId(lay.part_name[p]),
            operator=op.id,
            home=names[int(lay.part_home[p])],
            placement=tuple(held),
            offered_rate=rate,
            service_rate_per_core=1.0 / op.cost_s,
            saturated=bool(blocked[o]),
            queue_rows=max(float(inside[p]), 0.0),
            queue_capacity_rows=op.lane_queue_rows * max(int(placement[p].sum()), 1),
            selectivity=op.selectivity,
            state_bytes=float(state[p]),
            input_bytes_per_s=rate * op.row_bytes,
            output_bytes_per_s=rate * op.selectivity * op.out_bytes,
            rows_lost=max(float(lost[o]), 0.0) / op.partitions,
            lanes=lanes,
            shards=shards,
            hot_keys=self._keys.hot(p, float(rates[lay.part_op == o].sum())),
        )

    def _shards(self, p: int, o: int, window: float) -> ShardTable:
        lay = self._fluid.layout
        own = slice(lay.shard_start[o], lay.shard_start[o + 1])
        mine = np.flatnonzero(lay.lane_part[lay.lane[own]] == p)
        op = lay.operators[o]
        return ShardTable(
            shard=mine,
            lane=lay.lane_id[lay.lane[own][mine]],
            load_cores=self._rows[own][mine] / window * op.cost_s,
            state_bytes=lay.state_bytes[own][mine],
        )

    def _edges(self) -> tuple[Edge, ...]:
        lay, fluid = self._fluid.layout, self._fluid
        out = []
        for u, downs in enumerate(fluid.down):
            for d in downs:
                n = lay.operators[d].partitions
                for a in range(lay.part_start[u], lay.part_start[u + 1]):
                    for b in range(lay.part_start[d], lay.part_start[d + 1]):
                        names = PartitionId(lay.part_name[a]), PartitionId(lay.part_name[b])
                        out.append(Edge(*names, 1.0 / n))
        return tuple(out)

    def _sources(self, window: float) -> tuple[SourceLoad, ...]:
        fluid, lay = self._fluid, self._fluid.layout
        feeds = [
            PartitionId(lay.part_name[p])
            for o in fluid.heads
            for p in range(lay.part_start[o], lay.part_start[o + 1])
        ]
        rate = (fluid.totals.emitted - self._emitted) / window
        return (SourceLoad(SourceId("source"), rate, fluid.backlog, None, tuple(feeds)),)
