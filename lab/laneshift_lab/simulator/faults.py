"""Loss and return of a node (Elasticutor, 2019, 3.5).

Remote lanes on the node: their shards restart from the primary copy at the home, rows since the
last flush are replayed (at-least-once outputs). Partitions at home on the node: the outer
checkpoint scheme; they stand still until the node is back plus the restart time, then replay what
came since the last checkpoint [A]. Replayed rows are served again and counted in ``replayed``.
"""

from __future__ import annotations

import numpy as np

from laneshift_lab.simulator.fluid import Fluid
from laneshift_lab.simulator.spec import Engine, Fault


class Faults:
    """The faults of a run, in order."""

    def __init__(self, fluid: Fluid, engine: Engine) -> None:
        self._fluid, self._engine = fluid, engine
        events: list[tuple[float, str, Fault]] = []
        for fault in engine.faults:
            events.append((fault.time_s, "fail", fault))
            events.append((fault.time_s + fault.down_s, "back", fault))
            events.append((fault.time_s + fault.down_s + engine.restart_s, "home", fault))
        self._events = sorted(events, key=lambda e: (e[0], e[1]))
        self.replayed = 0.0
        self.lanes_lost = 0

    def step(self, now_s: float) -> None:
        """Carry out the events that are due."""
        while self._events and self._events[0][0] <= now_s:
            _, kind, fault = self._events.pop(0)
            if kind == "fail":
                self._fail(fault, now_s)
            elif kind == "back":
                self._fluid.node_up[fault.node] = True
            else:
                at_home = self._fluid.layout.part_home == fault.node
                self._fluid.part_up[at_home] = True
            self._fluid.layout.version += 1

    def _fail(self, fault: Fault, now_s: float) -> None:
        fluid, lay = self._fluid, self._fluid.layout
        fluid.node_up[fault.node] = False
        at_home = lay.part_home == fault.node
        fluid.part_up[at_home] = False
        used = (lay.lane_part >= 0) & (lay.lane_node == fault.node)
        part = np.maximum(lay.lane_part, 0)
        lost = np.flatnonzero(used & ~at_home[part])
        fluid.handoffs.cancel_lanes(np.flatnonzero(used))
        rows_per_s = fluid.served_lane / self._engine.step_s
        since_flush = now_s % self._engine.flush_s
        since_checkpoint = now_s % self._engine.checkpoint_s
        for lane in np.flatnonzero(used).tolist():
            home_lost = bool(at_home[part[lane]])
            back = since_checkpoint if home_lost else since_flush
            self._replay(lane, rows_per_s[lane] * back)
        self.lanes_lost += int(lost.size)
        for p in np.unique(part[lost]).tolist():
            self._rehome(p, lost[part[lost] == p])

    def _replay(self, lane: int, rows: float) -> None:
        lay = self._fluid.layout
        mine = np.flatnonzero(lay.lane == lane)
        share = self._fluid.share[mine]
        if mine.size == 0 or share.sum() <= 0:
            return
        lay.queue[mine] += rows * share / share.sum()
        self._fluid.totals.arrived[self._fluid.lane_op[lane]] += rows
        self.replayed += rows

    def _rehome(self, partition: int, dead: np.ndarray) -> None:
        """Shards of dead remote lanes go to the other lanes, or to a new one at home."""
        lay = self._fluid.layout
        mine = lay.lanes_of(partition)
        if mine.size == dead.size:
            per_node = np.zeros(lay.cluster.nodes, dtype=np.int64)
            per_node[lay.part_home[partition]] = 1
            lay.add_lanes(partition, per_node)
        lay.leaving[dead] = True
        own = lay.shards_of(partition)
        lay.lane[own] = lay.drained(partition, self._fluid.share[own])
        lay.lane_part[dead] = -1
        lay.leaving[dead] = False
