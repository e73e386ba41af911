"""Labelled handoffs in flight (Elasticutor, 2019, 3.4), as arrays.

Phases of a move: DRAIN, the label waits behind the rows of the source lane; MOVE, the state crosses
the network (two hops between remote lanes of different nodes [R, XP]); then the routing table
changes and the held rows go to the new lane. Only the moving shard is held.
Approximation: a fluid lane serves its shards in proportion, so a shard may leave with a few rows
unserved; they travel with the held rows (nothing is lost).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from laneshift.inputcheck import FloatArray, IntArray
from laneshift_lab.simulator.layout import Layout

_DTYPE = np.dtype(
    [
        ("shard", np.int64), ("source", np.int64), ("target", np.int64), ("ahead", np.float64),
        ("bytes", np.float64), ("timer", np.float64), ("sync", np.float64), ("move", np.float64),
    ]
)  # fmt: skip


@dataclass
class HandoffTotals:
    """Counts and sums over finished handoffs: local, between nodes; seconds; bytes."""

    local: int = 0
    remote: int = 0
    sync_s: float = 0.0
    local_move_s: float = 0.0
    remote_move_s: float = 0.0
    bytes: float = 0.0


class Handoffs:
    """All handoffs in flight; at most one per shard."""

    def __init__(self, layout: Layout, handoff_s: float) -> None:
        self._layout = layout
        self._handoff_s = handoff_s
        self._now = np.zeros(0, dtype=_DTYPE)
        self.totals = HandoffTotals()

    def __len__(self) -> int:
        return int(self._now.size)

    def lanes(self) -> IntArray:
        """Lane slots that take part, as source or target."""
        both: IntArray = np.concatenate([self._now["source"], self._now["target"]])
        return both

    def per_partition(self) -> IntArray:
        """(P,) handoffs in flight."""
        part = self._layout.lane_part[self._now["source"]]
        return np.bincount(part, minlength=len(self._layout.part_name))

    def begin(self, shards: IntArray, targets: IntArray, lane_rows: FloatArray) -> None:
        """Label ``shards`` and send them to ``targets`` (lane slots); paused ones are skipped.

        lane_rows: (M,) rows queued per lane now, what the label waits for.
        """
        lay = self._layout
        ok = ~lay.paused[shards] & (lay.lane[shards] != targets)
        shards, targets = shards[ok], targets[ok]
        new = np.zeros(shards.size, dtype=_DTYPE)
        source = lay.lane[shards]
        new["shard"], new["source"], new["target"] = shards, source, targets
        new["ahead"] = lane_rows[source]
        home = lay.part_home[lay.lane_part[source]]
        a, b = lay.lane_node[source], lay.lane_node[targets]
        hops = np.where(a == b, 0, np.where((a == home) | (b == home), 1, 2))
        new["bytes"] = hops * lay.state_bytes[shards]
        new["timer"] = self._handoff_s
        lay.paused[shards] = True
        self._now = np.concatenate([self._now, new])

    def step(
        self, served: FloatArray, left_rows: FloatArray, dt: float, nic_bytes: FloatArray
    ) -> float:
        """Advance by dt; served, left_rows: (M,) rows per lane; nic_bytes: (N,) free per node.

        Returns the bytes that crossed between nodes.
        """
        now, lay = self._now, self._layout
        if now.size == 0:
            return 0.0
        before = now["ahead"].copy()
        rate = served[now["source"]]
        draining = before > 0
        # Rows of shards that left the lane meanwhile are not ahead any more.
        still = np.minimum(before - rate, left_rows[now["source"]])
        now["ahead"] = np.where(draining & (still > 1e-9), still, 0.0)
        used = np.where(draining, np.minimum(1.0, before / np.maximum(rate, 1e-12)), 0.0)
        ready = now["ahead"] <= 0
        left = (1.0 - used) * ready * dt  # part of the step after the label was reached
        now["sync"] += used * dt
        control = np.minimum(now["timer"], left)
        now["timer"] -= control
        now["sync"] += control
        left -= control
        crossed = self._transfer(left, dt, nic_bytes)
        done = ready & (now["timer"] <= 1e-12) & (now["bytes"] <= 1e-9)
        if done.any():
            self._finish(now[done])
            self._now = now[~done]
            lay.version += 1
        return crossed

    def _transfer(self, left: FloatArray, dt: float, nic_bytes: FloatArray) -> float:
        now, lay = self._now, self._layout
        moving = (now["bytes"] > 0) & (left > 0)
        if not moving.any():
            return 0.0
        a, b = lay.lane_node[now["source"][moving]], lay.lane_node[now["target"][moving]]
        n = nic_bytes.size
        out, into = np.bincount(a, minlength=n), np.bincount(b, minlength=n)
        fair = np.minimum(nic_bytes[a] / out[a], nic_bytes[b] / into[b])
        room = fair * left[moving] / dt
        sent = np.minimum(room, now["bytes"][moving])
        now["bytes"][moving] -= sent
        share = np.divide(sent, room, out=np.ones_like(sent), where=room > 0)
        now["move"][moving] += share * left[moving]
        return float(sent.sum())

    def _finish(self, done: np.ndarray) -> None:
        lay, totals = self._layout, self.totals
        shard = done["shard"]
        far = lay.lane_node[done["source"]] != lay.lane_node[done["target"]]
        lay.lane[shard] = done["target"]
        lay.queue[shard] += lay.hold[shard]
        lay.hold[shard] = 0.0
        lay.paused[shard] = False
        totals.local += int((~far).sum())
        totals.remote += int(far.sum())
        totals.sync_s += float(done["sync"].sum())
        totals.local_move_s += float(done["move"][~far].sum())
        totals.remote_move_s += float(done["move"][far].sum())

    def cancel_lanes(self, lanes: IntArray) -> None:
        """Lanes died: forget their labels, held rows rejoin the queue."""
        hit = np.isin(self._now["source"], lanes) | np.isin(self._now["target"], lanes)
        shard = self._now["shard"][hit]
        self._layout.queue[shard] += self._layout.hold[shard]
        self._layout.hold[shard] = 0.0
        self._layout.paused[shard] = False
        self._now = self._now[~hit]
