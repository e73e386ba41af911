"""The fluid engine: one step moves rows as real numbers through shards, lanes and links.

Order within a step: lanes serve what is queued (limited by cores, links and room downstream), then
new rows arrive. Conservation is exact: arrived = served + queued + held + lost, per operator.
Approximations: a lane serves its shards in proportion to their queues (a FIFO lane would go by
age); an operator's output is spread by its downstream's current shares; the first full lane stops
all input (head-of-line blocking, as with one receiver and in-order sources).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from laneshift.inputcheck import BoolArray, FloatArray, IntArray, sums
from laneshift_lab.simulator.globalsync import GlobalSyncs
from laneshift_lab.simulator.handoff import Handoffs
from laneshift_lab.simulator.latency import LatencyHistogram, random_wait, spread
from laneshift_lab.simulator.layout import Layout
from laneshift_lab.simulator.network import Remote
from laneshift_lab.simulator.spec import Engine

#: Latency is sampled every so many steps.
SAMPLE = 5


@dataclass
class Totals:
    """Running sums since the start: rows per operator (O,); rows that the source emitted; bytes."""

    arrived: FloatArray
    served: FloatArray
    lost: FloatArray
    emitted: float = 0.0
    remote_bytes: float = 0.0
    migrated_bytes: float = 0.0


class Fluid:
    """State of a run and its step."""

    def __init__(self, layout: Layout, engine: Engine) -> None:
        self.layout, self.engine = layout, engine
        ops = layout.operators
        n_ops, slots = len(ops), layout.lane_part.size
        names = [op.name for op in ops]
        self.down: list[list[int]] = [
            [d for d, other in enumerate(ops) if name in other.upstream] for name in names
        ]
        self.up: list[list[int]] = [[names.index(u) for u in op.upstream] for op in ops]
        self.from_source = [op.from_source for op in ops]
        self.heads = [o for o, rows in enumerate(self.from_source) if rows > 0]
        self.share = np.zeros(layout.queue.size)
        self.work = np.ones(layout.queue.size)  # CPU per row, in rows' usual costs
        self.copies = np.ones(layout.queue.size)  # rows sent per row stored
        self.merging = np.zeros(layout.queue.size)  # CPU s/s for other parts' partial results
        self.splits = False  # whether any of the three differs from that
        self.totals = Totals(np.zeros(n_ops), np.zeros(n_ops), np.zeros(n_ops))
        self.latency = [LatencyHistogram() for _ in ops]
        self.handoffs = Handoffs(layout, engine.handoff_s)
        self.syncs = GlobalSyncs(layout, engine)
        self.node_up = np.ones(layout.cluster.nodes, dtype=bool)
        self.part_up = np.ones(len(layout.part_name), dtype=bool)
        self.part_limit = np.full(len(layout.part_name), math.inf)  # throttles, rows/s
        self.seen = np.zeros(layout.queue.size)
        self.served_lane = np.zeros(slots)
        self.smooth_lane = np.zeros(slots)  # over about 50 steps
        self.blocked_steps = np.zeros(n_ops)
        self.stopped_steps = np.zeros(n_ops)
        self.steps = 0
        self.backlog = 0.0
        self.limit = math.inf
        self.age = np.zeros(layout.queue.size)
        self._version = -1
        self._cost = np.array([op.cost_s for op in ops])
        self._row_bytes = np.array([op.row_bytes for op in ops])
        self._direct = engine.paradigm != "executor-centric"
        self._refresh()

    def set_shares(self, op: int, share: FloatArray) -> None:
        """The share of the operator's rows that each of its shards gets from now on."""
        lay = self.layout
        self.share[lay.shard_start[op] : lay.shard_start[op + 1]] = share
        self._version = -1

    def _refresh(self) -> None:
        """What depends on lanes and shares only."""
        lay, ops = self.layout, self.layout.operators
        slots, n = lay.lane_part.size, lay.cluster.nodes
        used = lay.lane_part >= 0
        part = np.maximum(lay.lane_part, 0)
        op = lay.part_op[part]
        lanes_on = np.bincount(lay.lane_node[used], minlength=n)
        crowd = np.minimum(1.0, lay.node_cores / np.maximum(lanes_on, 1))
        up = used & self.node_up[lay.lane_node] & self.part_up[part]
        self.lane_op = op
        self.lane_used: BoolArray = used
        self.cap = np.where(up, self.engine.step_s / self._cost[op] * crowd[lay.lane_node], 0.0)
        full = sums(part, self.cap, self.part_limit.size)
        allowed = self.part_limit * self.engine.step_s
        slow = np.divide(allowed, full, out=np.ones_like(full), where=full > allowed)
        self.cap *= slow[part]
        if self.splits:
            merging = sums(lay.lane, self.merging, slots) * self.engine.step_s / self._cost[op]
            self.cap = np.maximum(self.cap - merging, 0.0)
        self.cap_rows = self.cap  # with split keys: of the last step's mix of rows
        self.room_rows = np.array([o.lane_queue_rows for o in ops])[op]
        self.lane_share = np.bincount(lay.lane, weights=self.share, minlength=slots)
        received = sums(lay.lane, self.share * self.copies, slots)
        copies = np.divide(received, self.lane_share, out=np.ones(slots), where=self.lane_share > 0)
        home = lay.part_home[part]
        far = np.flatnonzero(used & (lay.lane_node != home)) if not self._direct else _NONE
        self.remote = Remote(
            far, home[far], lay.lane_node[far],
            np.array([o.row_bytes for o in ops])[op[far]] * copies[far],
            np.array([o.out_bytes * o.selectivity for o in ops])[op[far]],
        )  # fmt: skip
        entry = lay.lane_node if self._direct else home
        self.node_share = [
            sums(entry, np.where(used & (op == o), received, 0.0), n)
            for o in range(len(ops))
        ]  # fmt: skip
        self._version = lay.version

    def lane_rows(self) -> FloatArray:
        """(M,) rows queued per lane, held ones excluded."""
        lay = self.layout
        return sums(lay.lane, lay.queue, lay.lane_part.size)

    def step(self, source_rows: float) -> None:
        """One step; ``source_rows``: rows that the source offers in it, inf when saturating."""
        lay, engine = self.layout, self.engine
        if self._version != lay.version:
            self._refresh()
        queued = self.lane_rows()
        budget = lay.cluster.nic_bytes_s * engine.step_s
        n = lay.cluster.nodes
        sent, got = np.zeros(n), np.zeros(n)
        if self.splits:
            work = sums(lay.lane, lay.queue * self.work, queued.size)
            mix = np.divide(queued, work, out=np.ones_like(queued), where=work > 0)
            self.cap_rows = self.cap * mix
        served, remote = self.remote.admit(np.minimum(queued, self.cap_rows), sent, got, budget)
        any_hold = bool(lay.paused.any())
        held = np.bincount(lay.lane, weights=lay.hold, minlength=queued.size) if any_hold else 0.0
        inflow_limit = self._throttle(served, queued + held, budget - got)
        share = np.divide(served, queued, out=np.zeros_like(queued), where=queued > 0)
        lay.queue -= lay.queue * share[lay.lane]
        self.served_lane = served
        self.smooth_lane += 0.02 * (served - self.smooth_lane)
        self.totals.remote_bytes += remote
        per_op = sums(self.lane_op, served, len(lay.operators))
        self.totals.served += per_op
        free = np.maximum(budget - np.maximum(sent, got), 0.05 * budget)
        self._arrive(source_rows, per_op, inflow_limit, queued - served, any_hold)
        left = queued - served
        self.totals.migrated_bytes += self.handoffs.step(served, left, engine.step_s, free)
        if engine.paradigm == "resource-centric":
            moved = self.syncs.step(engine.step_s, lay.cluster.nic_bytes_s)
            self.totals.migrated_bytes += moved
        if any_hold:
            self.age[lay.paused] += engine.step_s
            self.age[~lay.paused] = 0.0
        self.steps += 1

    def _throttle(self, served: FloatArray, filled: FloatArray, nic_in: FloatArray) -> list[float]:
        """Scale ``served`` in place by the room downstream; returns the inflow limits, (O,)."""
        lay = self.layout
        limit = [math.inf] * len(lay.operators)
        n = lay.cluster.nodes
        for o in range(len(lay.operators) - 1, -1, -1):
            mine = self.lane_used & (self.lane_op == o)
            if self.down[o]:
                out = float(served[mine].sum()) * lay.operators[o].selectivity
                room = min(limit[d] for d in self.down[o])
                if out > room:
                    served[mine] *= room / out
                    self.blocked_steps[o] += 1
            if self.syncs.stopped(o):
                self.stopped_steps[o] += 1
                limit[o] = 0.0
                continue
            if self.engine.overflow == "block":
                wanted = mine & (self.lane_share > 1e-12)
                room_rows = self.room_rows[wanted] - filled[wanted] + served[wanted]
                per_row = np.maximum(room_rows, 0.0) / self.lane_share[wanted]
                limit[o] = float(per_row.min()) if per_row.size else 0.0
            wire = self.node_share[o] * self._row_bytes[o] * (n - 1) / n
            tight = wire > 0
            if tight.any():
                by_nic = float((np.maximum(nic_in, 0.0)[tight] / wire[tight]).min())
                limit[o] = min(limit[o], by_nic)
        return limit

    def _arrive(
        self,
        source_rows: float,
        served: FloatArray,
        limit: list[float],
        left: FloatArray,
        any_hold: bool,
    ) -> None:
        lay = self.layout
        offered = min(source_rows, self.limit * self.engine.step_s)
        wait = 0.0
        total = np.zeros(len(lay.operators))
        for o, ups in enumerate(self.up):
            for u in ups:
                total[o] += served[u] * lay.operators[u].selectivity
        if self.engine.overflow == "block" or math.isinf(offered):
            want = offered + (0.0 if math.isinf(offered) else self.backlog)
            room = [max(limit[o] - float(total[o]), 0.0) / self.from_source[o] for o in self.heads]
            emitted = min([want, *room])
            if emitted < want:
                self.blocked_steps[self.heads] += 1
            if not math.isinf(offered):
                if self.backlog > 0 and offered > 0:
                    wait = self.backlog / offered * self.engine.step_s
                self.backlog = want - emitted
        else:
            emitted = offered
        total[self.heads] += [emitted * self.from_source[o] for o in self.heads]
        self.totals.emitted += emitted
        rows = self.share * total[lay.shard_op]
        self.totals.arrived += total
        self.seen += rows
        if self.steps % SAMPLE == 0:
            self._sample_latency(total, rows, left, wait, any_hold)
        if any_hold:
            lay.hold += np.where(lay.paused, rows, 0.0)
            rows = np.where(lay.paused, 0.0, rows)
        lay.queue += rows
        if self.engine.overflow == "lose":
            self._overflow()

    def _overflow(self) -> None:
        """Rows above a lane's queue are lost, in proportion over its shards."""
        lay = self.layout
        rows = self.lane_rows()
        over = np.maximum(rows - self.room_rows - self.cap_rows, 0.0)
        if not over.any():
            return
        drop = np.divide(over, rows, out=np.zeros_like(rows), where=rows > 0)
        lay.queue -= lay.queue * drop[lay.lane]
        self.totals.lost += np.bincount(
            self.lane_op, weights=over, minlength=len(lay.operators)
        )  # fmt: skip

    def _sample_latency(
        self, total: FloatArray, rows: FloatArray, left: FloatArray, wait: float, any_hold: bool
    ) -> None:
        lay, dt = self.layout, self.engine.step_s
        # A lane that downstream stops for a step is not slow for ever: take its recent rate.
        rate = np.maximum(np.maximum(self.served_lane, self.smooth_lane), 1e-12) / dt
        fluid = np.where(left > 1e-9, np.minimum(left / rate, 1e4), 0.0)
        rho = self._rho()
        cv2 = np.array([op.cost_cv2 for op in lay.operators])[self.lane_op]
        chance = random_wait(rho, self._cost[self.lane_op], cv2)
        base = np.maximum(fluid, 0.0) + self._cost[self.lane_op]
        for o in range(len(lay.operators)):
            mine = np.flatnonzero(self.lane_used & (self.lane_op == o) & (self.lane_share > 0))
            if total[o] <= 0 or mine.size == 0:
                continue
            extra = np.where(fluid[mine] > chance[mine], 0.0, chance[mine] - fluid[mine])
            source = wait if o in self.heads else 0.0
            rows_in = self.lane_share[mine] * total[o]
            self.latency[o].add(*spread(source + base[mine], extra, rho[mine], rows_in))
            if any_hold:
                own = slice(lay.shard_start[o], lay.shard_start[o + 1])
                at = np.flatnonzero(lay.paused[own]) + own.start
                # Rows that arrive behind a label wait: same distribution as the pause's age.
                self.latency[o].add(base[lay.lane[at]] + self.age[at], rows[at])

    def _rho(self) -> FloatArray:
        cap = self.cap_rows
        now = np.divide(self.served_lane, cap, out=np.zeros_like(cap), where=cap > 0)
        return np.minimum(now, 1.0)

    def conservation_error(self) -> FloatArray:
        """(O,) arrived - served - lost - queued - held, in rows; rounding only."""
        lay = self.layout
        inside = np.bincount(lay.shard_op, weights=lay.queue + lay.hold)
        t = self.totals
        error: FloatArray = t.arrived - t.served - t.lost - inside
        return error


_NONE: IntArray = np.zeros(0, dtype=np.int64)
