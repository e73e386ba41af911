"""Carries out plans and balances lanes while the run goes on."""

from __future__ import annotations

import math

import numpy as np

from laneshift.contract.plan import MoveScope, Plan, ShardMove
from laneshift.errors import InputError
from laneshift.inputcheck import FloatArray
from laneshift.partitioning.balance_core import balance_batch
from laneshift_lab.simulator.fluid import Fluid
from laneshift_lab.simulator.keyloads import KeyLoads
from laneshift_lab.simulator.spec import Engine


class Control:
    """The part of laneshift that acts inside the cluster, here on the fluid's layout."""

    def __init__(self, fluid: Fluid, keys: KeyLoads, engine: Engine, seed: int) -> None:
        self._fluid, self._keys, self._engine = fluid, keys, engine
        self._rng = np.random.default_rng(seed + 7919)
        self._parts = {name: p for p, name in enumerate(fluid.layout.part_name)}
        self._nodes: dict[str, int] = {n: i for i, n in enumerate(fluid.layout.cluster.names)}
        self._throttled: dict[str, float] = {}
        self.adjustments = 0

    def apply(self, plan: Plan, now_s: float, window_s: float) -> None:
        """Placement up, shard moves, key splits, placement down, throttles."""
        lay = self._fluid.layout
        down: list[tuple[int, int, int]] = []
        changed = set()
        for change in plan.placement_changes:
            p = self._known(change.partition, self._parts, "placement_changes partition")
            node = self._known(change.node, self._nodes, "placement_changes node")
            changed.add(p)
            delta = change.after - change.before
            if delta > 0:
                per_node = np.zeros(lay.cluster.nodes, dtype=np.int64)
                per_node[node] = delta
                lay.add_lanes(p, per_node)
            else:
                down.append((p, node, -delta))
        self.adjustments += len(changed)
        self._move_shards(plan.shard_moves)
        for split in plan.key_splits:
            p = self._known(split.partition, self._parts, "partition of key " + split.key)
            self._keys.split(p, split.key, split.ways)
        for p, node, count in down:
            self._remove(p, node, count)
        if changed and self._engine.paradigm == "executor-centric":
            self.balance(sorted(changed))
        for throttle in plan.throttles:
            self._throttle(str(throttle.target), throttle.rate, now_s + throttle.windows * window_s)

    @staticmethod
    def _known(name: str, known: dict[str, int], field: str) -> int:
        if name not in known:
            some = ", ".join(list(known)[:3])
            raise InputError(
                field, name, f"one of {len(known)}: {some}, ...", "As in the cluster load."
            )
        return known[name]

    def _throttle(self, target: str, rate: float, until_s: float) -> None:
        if target in self._parts:
            self._fluid.part_limit[self._parts[target]] = rate
            self._fluid.layout.version += 1
        elif target == "source":
            self._fluid.limit = rate
        else:
            known = f"source or one of {len(self._parts)} partitions"
            raise InputError("throttle", target, known, "Name what the cluster load names.")
        self._throttled[target] = until_s

    def expire(self, now_s: float) -> None:
        """End throttles whose windows are over."""
        for target in [t for t, until in self._throttled.items() if now_s >= until - 1e-9]:
            del self._throttled[target]
            if target == "source":
                self._fluid.limit = math.inf
            else:
                self._fluid.part_limit[self._parts[target]] = math.inf
                self._fluid.layout.version += 1

    def _move_shards(self, moves: tuple[ShardMove, ...]) -> None:
        lay = self._fluid.layout
        slot: dict[tuple[int, int], int] = {}
        if moves:
            used = np.flatnonzero(lay.lane_part >= 0)
            slot = {(int(lay.lane_part[s]), int(lay.lane_id[s])): int(s) for s in used}
        global_moves: dict[int, list[tuple[int, int]]] = {}
        for move in moves:
            p = self._parts[move.target.partition]
            o = int(lay.part_op[p])
            shard = lay.shard_start[o] + int(move.shard)
            goal = slot[p, int(move.target.lane)]
            if move.scope is MoveScope.OPERATOR:
                global_moves.setdefault(o, []).append((shard, goal))
            else:
                rows = self._fluid.lane_rows()
                self._fluid.handoffs.begin(np.array([shard]), np.array([goal]), rows)
        for o, pairs in global_moves.items():
            self._fluid.syncs.submit(o, pairs)

    def _remove(self, partition: int, node: int, count: int) -> None:
        """Mark the lanes with the fewest shards as leaving (ties: highest id) and drain them."""
        lay = self._fluid.layout
        mine = lay.lanes_of(partition)
        here = mine[(lay.lane_node[mine] == node) & ~lay.leaving[mine]]
        owned = np.bincount(lay.lane, minlength=lay.lane_part.size)[here]
        order = np.lexsort((-lay.lane_id[here], owned))
        lay.leaving[here[order[:count]]] = True
        lay.version += 1

    def loads(self) -> FloatArray:
        """(S,) measured rows per shard since the last reset, with Poisson noise if asked for."""
        seen = self._fluid.seen
        if self._engine.measure_noise:
            return self._rng.poisson(np.maximum(seen, 0.0)).astype(np.float64)
        return seen.copy()

    def balance(self, partitions: list[int] | None = None) -> None:
        """Balance every partition's shards over its lanes by labelled handoffs."""
        lay, fluid = self._fluid.layout, self._fluid
        load = self.loads()
        rows = fluid.lane_rows()
        flying = fluid.handoffs.per_partition()
        for o, op in enumerate(lay.operators):
            parts = range(lay.part_start[o], lay.part_start[o + 1])
            own = slice(lay.shard_start[o], lay.shard_start[o + 1])
            table = (load[own] * fluid.work[own]).reshape(op.partitions, op.slots)
            lane = lay.lane[own].reshape(op.partitions, op.slots)
            rank = np.zeros(lay.lane_part.size, dtype=np.int64)
            stay: list[np.ndarray] = []
            start = lane.copy()
            for i, p in enumerate(parts):
                mine = lay.lanes_of(p)
                live = mine[~lay.leaving[mine]]
                if live.size < mine.size and live.size:
                    start[i] = lay.drained(p, table[i])
                stay.append(live if live.size else mine)
                rank[stay[-1]] = np.arange(stay[-1].size)
            lanes = np.array([s.size for s in stay])
            result = balance_batch(
                table, rank[start], lanes, self._engine.theta, min_gain=self._engine.min_gain,
                max_moves=self._engine.max_handoffs,
            )  # fmt: skip
            for i, p in enumerate(parts):
                if partitions is not None and p not in partitions:
                    continue
                goal = stay[i][result.lane[i]]
                moving = np.flatnonzero((goal != lane[i]) & (lane[i] != lay.spare))
                room = max(self._engine.max_handoffs - int(flying[p]), 0)
                heaviest = moving[np.argsort(-table[i][moving], kind="stable")]
                forced = lay.leaving[lane[i][heaviest]]
                heaviest = np.concatenate([heaviest[forced], heaviest[~forced][:room]])
                if heaviest.size:
                    fluid.handoffs.begin(own.start + i * op.slots + heaviest, goal[heaviest], rows)

    def tidy(self) -> None:
        """Free lanes that have handed off everything."""
        lay, fluid = self._fluid.layout, self._fluid
        busy = np.concatenate([fluid.handoffs.lanes(), np.array(fluid.syncs.lanes(), dtype=int)])
        lay.free_empty_lanes(busy)
