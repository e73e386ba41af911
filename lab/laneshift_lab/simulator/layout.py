"""The arrays of a run: shards and lanes of all operators, concatenated.

Lane slots are reused; a slot is free when its partition is -1. Within a partition, lanes carry the
ids that ``laneshift_lab.apply.apply_plan`` would give them: the lowest unused, node by node.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from laneshift.inputcheck import BoolArray, FloatArray, IntArray
from laneshift.partitioning.balancer import drain
from laneshift_lab.simulator.spec import Cluster, Operator


@dataclass
class Layout:
    """S shards, P partitions, M lane slots.

    Shards: shard_op, queue (rows with the lane), hold (rows behind a label), lane, paused,
    state_bytes. A part of a split key is a shard, too; a free slot for one is on ``spare``, a lane
    that no partition has.
    Partitions: part_op, part_home (node), part_name. Lanes: lane_part, lane_node, lane_id, leaving.
    """

    cluster: Cluster
    operators: tuple[Operator, ...]
    shard_start: list[int]
    part_start: list[int]
    part_op: IntArray
    part_home: IntArray
    part_name: list[str]
    shard_op: IntArray
    lane: IntArray
    queue: FloatArray
    hold: FloatArray
    paused: BoolArray
    state_bytes: FloatArray
    lane_part: IntArray
    lane_node: IntArray
    lane_id: IntArray
    leaving: BoolArray
    node_cores: IntArray
    version: int = 0

    @classmethod
    def start(cls, cluster: Cluster, operators: tuple[Operator, ...], cores: list[int]) -> Layout:
        """Homes round robin over the nodes [S]; ``cores``: lanes per partition at the start.

        Lanes go to the home node while it has free cores, else to the node with most free cores;
        shards go round robin over their partition's lanes.
        """
        parts = [(o, i) for o, op in enumerate(operators) for i in range(op.partitions)]
        shards = [op.partitions * op.slots for op in operators]
        start = np.concatenate([[0], np.cumsum(shards)]).tolist()
        pstart = np.concatenate([[0], np.cumsum([op.partitions for op in operators])]).tolist()
        total = start[-1]
        slots = 2 * cluster.nodes * cluster.cores + 2 * len(parts) + 1
        out = cls(
            cluster,
            operators,
            start,
            pstart,
            np.array([o for o, _ in parts], dtype=np.int64),
            np.arange(len(parts), dtype=np.int64) % cluster.nodes,
            [f"{operators[o].name}-{i}" for o, i in parts],
            np.repeat(np.arange(len(operators)), shards),
            np.full(total, slots - 1, dtype=np.int64),
            np.zeros(total),
            np.zeros(total),
            np.zeros(total, dtype=bool),
            np.zeros(total),
            np.full(slots, -1, dtype=np.int64),
            np.zeros(slots, dtype=np.int64),
            np.zeros(slots, dtype=np.int64),
            np.zeros(slots, dtype=bool),
            np.full(cluster.nodes, cluster.cores, dtype=np.int64),
        )
        free = np.full(cluster.nodes, cluster.cores, dtype=np.int64)
        wanted = [np.zeros(cluster.nodes, dtype=np.int64) for _ in parts]
        for turn in range(max(cores, default=1)):
            for p in range(len(parts)):
                if turn < cores[p]:
                    home = int(out.part_home[p])
                    node = home if free[home] > 0 else int(free.argmax())
                    free[node] -= 1
                    wanted[p][node] += 1
        for p, per_node in enumerate(wanted):
            out.add_lanes(p, per_node)
            mine = out.lanes_of(p)
            op, first = operators[int(out.part_op[p])], out.shards_of(p).start
            own = slice(first, first + op.shards)
            out.lane[own] = mine[np.arange(op.shards) % mine.size]
            out.state_bytes[own] = op.state_bytes
        return out

    @property
    def spare(self) -> int:
        """The lane slot of free places for parts of keys; it has no partition and no core."""
        return int(self.lane_part.size) - 1

    def lanes_of(self, partition: int) -> IntArray:
        """Slots of a partition's lanes, leaving ones included, by lane id."""
        mine = np.flatnonzero(self.lane_part == partition)
        by_id: IntArray = mine[np.argsort(self.lane_id[mine])]
        return by_id

    def shards_of(self, partition: int) -> slice:
        """The partition's own z shards (executor-centric: for life), then its slots for parts."""
        op = int(self.part_op[partition])
        z = self.operators[op].slots
        first = self.shard_start[op] + (partition - self.part_start[op]) * z
        return slice(first, first + z)

    def add_lanes(self, partition: int, per_node: IntArray) -> None:
        """Start lanes, ``per_node[i]`` on node i, with the lowest unused ids, node by node."""
        used = set(self.lane_id[self.lane_part == partition].tolist())
        free = iter(np.flatnonzero(self.lane_part[: self.spare] < 0).tolist())
        for node in np.flatnonzero(per_node).tolist():
            for _ in range(int(per_node[node])):
                slot = next(free)
                name = next(i for i in range(len(used) + 1) if i not in used)
                used.add(name)
                self.lane_part[slot], self.lane_node[slot] = partition, node
                self.lane_id[slot], self.leaving[slot] = name, False
        self.version += 1

    def placement(self) -> IntArray:
        """(P, N) lanes held, leaving ones excluded."""
        out = np.zeros((len(self.part_name), self.cluster.nodes), dtype=np.int64)
        live = np.flatnonzero((self.lane_part >= 0) & ~self.leaving)
        np.add.at(out, (self.lane_part[live], self.lane_node[live]), 1)
        return out

    def free_empty_lanes(self, busy: IntArray) -> None:
        """Free the slots of leaving lanes that own no shard; ``busy``: slots still in a handoff."""
        if not self.leaving.any():
            return
        owners = np.zeros(self.leaving.size, dtype=bool)
        owners[self.lane] = True
        owners[busy] = True
        done = self.leaving & ~owners
        if done.any():
            self.lane_part[done] = -1
            self.leaving[done] = False
            self.version += 1

    def drained(self, partition: int, load: FloatArray) -> IntArray:
        """(z,) lanes of the partition's slots once the leaving lanes are emptied (XP, D)."""
        own, mine = self.shards_of(partition), self.lanes_of(partition)
        rank = np.zeros(self.leaving.size, dtype=np.int64)
        rank[mine] = np.arange(mine.size)
        where = drain(load, rank[self.lane[own]], ~self.leaving[mine])
        goal: IntArray = np.where(self.lane[own] == self.spare, self.spare, mine[where])
        return goal
