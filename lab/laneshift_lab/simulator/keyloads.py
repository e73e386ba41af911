"""Which slots each key's rows go to: its shard, or, when it is split, the shard and more parts.

Source: Data Distribution, 2017. A key split n ways is n parts with equal shares; the
first stays in the key's shard, the others are shards of their own, so the balancer may move them.
An aggregation's new part starts empty on its lane; a join's is handed off from the key's shard with
its share of the state. Merged parts are handed back and their rows rejoin the shard.
Approximation: rows that were queued when a key is split stay with its shard.
"""

from __future__ import annotations

import numpy as np

from laneshift.contract.ids import KeyId
from laneshift.contract.partition_load import HotKey
from laneshift.errors import InputError
from laneshift.inputcheck import FloatArray, IntArray, sums
from laneshift_lab.simulator.fluid import Fluid
from laneshift_lab.simulator.spec import Operator, Split
from laneshift_lab.simulator.workload import shard_shares, shards_of_keys

#: Keys that a cluster load names per partition, for operators that can split them.
NAMED = 4


class KeyLoads:
    """Weights and places of the keys of every operator; tells the fluid its shards' shares."""

    def __init__(self, fluid: Fluid) -> None:
        self._fluid = fluid
        n = len(fluid.layout.operators)
        self.slot_of: list[IntArray] = [np.zeros(0, dtype=np.int64) for _ in range(n)]
        """(K,) per operator: the key's shard, counted over the operator's slots."""
        self._weights: list[FloatArray] = [np.zeros(0) for _ in range(n)]
        self._parts: dict[tuple[int, int], list[int]] = {}  # (operator, key): further slots
        self._closing: list[tuple[int, int]] = []  # (slot, the slot of the key's shard)

    def set(self, op: int, weights: FloatArray) -> None:
        """From now on key k gets the share weights[k], (K,), of the operator's rows."""
        spec = self._fluid.layout.operators[op]
        if self.slot_of[op].size != weights.size:
            self.slot_of[op] = shards_of_keys(
                weights.size, spec.partitions, spec.shards, op, spec.slots
            )
        self._weights[op] = weights
        self._share_out(op)

    def ways(self, op: int, key: int) -> int:
        """Parts of a key, 1 when it is whole."""
        return 1 + len(self._parts.get((op, key), ()))

    def hot(self, partition: int, rate: float) -> tuple[HotKey, ...]:
        """The heaviest keys of a partition, and all that are split; () where none can be.

        rate: rows/s of its operator.
        """
        lay = self._fluid.layout
        op = int(lay.part_op[partition])
        spec, index = lay.operators[op], partition - lay.part_start[op]
        if spec.split is None:
            return ()
        mine = self.slot_of[op] // spec.slots == index
        split = [key for o, key in self._parts if o == op and mine[key]]
        top = _heaviest_first(np.flatnonzero(mine), self._weights[op])[:NAMED]
        top = _heaviest_first(np.union1d(top, np.array(split, dtype=np.int64)), self._weights[op])
        load = self._weights[op][top] * rate * spec.cost_s
        return tuple(
            HotKey(KeyId(str(k)), x, self.ways(op, k))
            for k, x in zip(top.tolist(), load.tolist(), strict=True)
        )

    def split(self, partition: int, key: str, ways: int) -> None:
        """Process ``key`` on ``ways`` lanes, at most one part per lane of its partition; 1: whole.

        Errors: keys of another partition, operators that keep keys whole, no slot left.
        """
        lay = self._fluid.layout
        op = int(lay.part_op[partition])
        spec, number = lay.operators[op], self._number(partition, key)
        kind = self._split_of(spec, key)
        lanes = lay.lanes_of(partition)
        lanes = lanes[~lay.leaving[lanes]]
        parts = self._parts.setdefault((op, number), [])
        more = min(ways, max(lanes.size, 1)) - 1 - len(parts)
        first = lay.shard_start[op] + int(self.slot_of[op][number])
        if more > 0:
            self._grow(partition, number, kind, lanes, more)
        elif more < 0:
            self._closing += [(slot, first) for slot in parts[more:]]
            del parts[more:]
        if not parts:
            del self._parts[op, number]
        if more:
            self._share_out(op)

    def step(self) -> None:
        """Hand merged parts back to their keys' shards, and free the slots of those that came."""
        lay, fluid = self._fluid.layout, self._fluid
        left = []
        for slot, first in self._closing:
            if lay.paused[slot]:
                left.append((slot, first))
            elif lay.lane[slot] != lay.lane[first]:
                goal = lay.lane[[first]]
                fluid.handoffs.begin(np.array([slot]), goal, fluid.lane_rows())
                left.append((slot, first))
            else:
                (lay.hold if lay.paused[first] else lay.queue)[first] += lay.queue[slot]
                kind = lay.operators[int(lay.shard_op[slot])].split
                if kind is not None and kind.how == "broadcast":
                    lay.state_bytes[first] += lay.state_bytes[slot]
                lay.queue[slot] = lay.state_bytes[slot] = 0.0
                lay.lane[slot] = lay.spare
                lay.version += 1
        self._closing = left

    def _number(self, partition: int, key: str) -> int:
        """The key's index. Errors: unknown keys, keys of another partition."""
        lay = self._fluid.layout
        op = int(lay.part_op[partition])
        known = self.slot_of[op].size
        text = f"a key of {lay.operators[op].name}, 0 to {known - 1}"
        if not (key.isascii() and key.isdigit() and int(key) < known):
            raise InputError("key of key_splits", key, text, "Keys are numbered as in `keys`.")
        home = lay.part_start[op] + int(self.slot_of[op][int(key)]) // lay.operators[op].slots
        if home != partition:
            raise InputError(
                f"partition of key {key}", lay.part_name[partition], lay.part_name[home],
                "A key is split within the partition that its hash gives it.",
            )  # fmt: skip
        return int(key)

    def _split_of(self, spec: Operator, key: str) -> Split:
        if spec.split is None:
            raise InputError(
                "key_splits", f"key {key} of {spec.name}", "none where keys stay whole",
                f"Give Operator {spec.name} a Split(...), what its split keys cost.",
            )  # fmt: skip
        if self._fluid.engine.paradigm == "resource-centric":
            raise InputError(
                "key_splits", f"key {key}", "none under paradigm 'resource-centric'",
                "There a partition has one lane; use 'executor-centric' or 'static'.",
            )  # fmt: skip
        return spec.split

    def _grow(self, partition: int, key: int, kind: Split, lanes: IntArray, more: int) -> None:
        lay = self._fluid.layout
        op = int(lay.part_op[partition])
        own = lay.shards_of(partition)
        free = np.flatnonzero(lay.lane[own] == lay.spare) + own.start
        if free.size < more:
            raise InputError(
                f"ways of key {key}", 1 + len(self._parts[op, key]) + more,
                f"at most {free.size} more parts, of Split.slots={kind.slots}",
                f"Raise slots of operator {lay.operators[op].name}, or merge other keys.",
            )  # fmt: skip
        shard = int(self.slot_of[op][key])
        first = lay.shard_start[op] + shard
        parts = self._parts[op, key]
        share = self._weights[op][self.slot_of[op] == shard].sum()
        state = lay.state_bytes[first] * (self._weights[op][key] / share if share > 0 else 0.0)
        taken = lay.lane[[first, *parts]]
        load = sums(lay.lane, self._fluid.share * self._fluid.work, lay.lane_part.size)
        others = lanes[~np.isin(lanes, taken)]
        goals = others[np.argsort(load[others], kind="stable")][:more]
        slots = free[: goals.size]
        if kind.how == "merge":
            lay.lane[slots], lay.state_bytes[slots] = goals, state
        else:
            lay.lane[slots] = lay.lane[first]
            lay.state_bytes[slots] = state / (1 + len(parts) + goals.size)
            lay.state_bytes[first] -= lay.state_bytes[slots].sum()
            self._fluid.handoffs.begin(slots, goals, self._fluid.lane_rows())
        parts += slots.tolist()
        lay.version += 1

    def _share_out(self, op: int) -> None:
        """Tell the fluid the shares, and what split keys cost on each slot."""
        fluid, lay = self._fluid, self._fluid.layout
        spec = lay.operators[op]
        weights, slot_of = self._weights[op], self.slot_of[op]
        share = shard_shares(weights, slot_of, spec.partitions * spec.slots)
        start = lay.shard_start[op]
        mine = {key: parts for (of, key), parts in self._parts.items() if of == op}
        for key, parts in mine.items():
            each = weights[key] / (1 + len(parts))
            share[slot_of[key]] -= weights[key] - each
            share[np.array(parts) - start] = each
        fluid.set_shares(op, share)
        if spec.split is None:
            return
        own = slice(start, lay.shard_start[op + 1])
        work, copies, merging = np.ones(share.size), np.ones(share.size), np.zeros(share.size)
        for key, parts in mine.items():
            ways, each = 1 + len(parts), weights[key] / (1 + len(parts))
            first = int(slot_of[key])
            w, c = spec.split.work(ways, spec.cost_s), spec.split.copies(ways)
            work[np.array(parts) - start], copies[np.array(parts) - start] = w, c
            if share[first] > 0:
                work[first] += (w - 1.0) * each / share[first]
                copies[first] += (c - 1.0) * each / share[first]
            if weights[key] > 0:
                merging[first] += spec.split.merging(ways)
        fluid.work[own], fluid.copies[own], fluid.merging[own] = work, copies, merging
        fluid.splits = bool((fluid.work != 1.0).any() or fluid.merging.any())


def _heaviest_first(keys: IntArray, weights: FloatArray) -> IntArray:
    return keys[np.argsort(-weights[keys], kind="stable")]
