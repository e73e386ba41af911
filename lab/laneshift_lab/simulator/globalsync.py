"""RC's operator-wide repartitioning (Elasticutor, 2019, section 2): global synchronisation.

Steps [S]: stop all upstream executors, wait until every row in flight is processed, migrate the
state, update all routing tables, resume. The prototype moves one shard at a time [XP]
(``Engine.rc_moves_per_sync``); coordination times are parameters [A].
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from laneshift_lab.simulator.layout import Layout
from laneshift_lab.simulator.spec import Engine


@dataclass
class SyncTotals:
    """Over finished synchronisations: count, shards moved, seconds syncing and moving state."""

    syncs: int = 0
    shards: int = 0
    sync_s: float = 0.0
    move_s: float = 0.0
    bytes: float = 0.0


@dataclass
class _Job:
    todo: list[tuple[int, int]] = field(default_factory=list)
    phase: str = "idle"
    timer: float = 0.0
    batch: list[tuple[int, int]] = field(default_factory=list)


class GlobalSyncs:
    """One queue of (shard, target lane slot) moves per operator."""

    def __init__(self, layout: Layout, engine: Engine) -> None:
        self._layout, self._engine = layout, engine
        self._jobs = [_Job() for _ in layout.operators]
        self.totals = SyncTotals()

    def submit(self, op: int, moves: list[tuple[int, int]]) -> None:
        """Add moves to an operator's queue."""
        self._jobs[op].todo += moves

    def busy(self, op: int) -> bool:
        """Whether a repartitioning is under way."""
        job = self._jobs[op]
        return job.phase != "idle" or bool(job.todo)

    def stopped(self, op: int) -> bool:
        """Whether the operator's upstreams are stopped."""
        return self._jobs[op].phase != "idle"

    def lanes(self) -> list[int]:
        """Lane slots that wait for shards."""
        return [lane for job in self._jobs for _, lane in job.todo + job.batch]

    def step(self, dt: float, nic_bytes_s: float) -> float:
        """Advance by dt; returns the bytes moved between nodes in this step."""
        moved = 0.0
        for op, job in enumerate(self._jobs):
            if job.phase == "idle" and job.todo:
                n = self._engine.rc_moves_per_sync
                job.batch, job.todo = job.todo[:n], job.todo[n:]
                job.phase, job.timer = "drain", 0.0
            if job.phase == "drain":
                self.totals.sync_s += dt
                if self._empty(op):
                    job.phase = "coordinate"
                    job.timer = self._coordination(op)
                    self.totals.sync_s += job.timer
            elif job.phase in ("coordinate", "migrate"):
                job.timer -= dt
                if job.timer > 0:
                    continue
                if job.phase == "coordinate":
                    seconds, size = self._migration(job.batch)
                    job.phase, job.timer = "migrate", seconds
                    self.totals.move_s += seconds
                    moved += size
                else:
                    self._finish(job)
        self.totals.bytes += moved
        return moved

    def _empty(self, op: int) -> bool:
        lay = self._layout
        own = slice(lay.shard_start[op], lay.shard_start[op + 1])
        return float(lay.queue[own].sum()) < 0.5

    def _coordination(self, op: int) -> float:
        spec = self._layout.operators[op]
        ups = [o.partitions for o in self._layout.operators if o.name in spec.upstream]
        upstream = sum(ups) if ups else self._layout.cluster.nodes  # generators: one per node
        return self._engine.rc_sync_s + self._engine.rc_sync_per_upstream_s * upstream

    def _migration(self, batch: list[tuple[int, int]]) -> tuple[float, float]:
        lay = self._layout
        pairs = np.array(batch, dtype=np.int64)
        a, b = lay.lane_node[lay.lane[pairs[:, 0]]], lay.lane_node[pairs[:, 1]]
        size = np.where(a != b, lay.state_bytes[pairs[:, 0]], 0.0)
        n = lay.cluster.nodes
        out = np.bincount(a, weights=size, minlength=n)
        into = np.bincount(b, weights=size, minlength=n)
        busiest = float(max(out.max(), into.max()))
        overhead = self._engine.rc_transfer_s if size.sum() > 0 else 0.0
        return busiest / lay.cluster.nic_bytes_s + overhead, float(size.sum())

    def _finish(self, job: _Job) -> None:
        lay = self._layout
        for shard, lane in job.batch:
            lay.lane[shard] = lane
        self.totals.syncs += 1
        self.totals.shards += len(job.batch)
        job.batch, job.phase = [], "idle"
        lay.version += 1
