"""Run a cluster: workload in, windows out. Deterministic by seed; no wall clock."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from laneshift import inputcheck
from laneshift.autoscale.presses import SHORT_S, only_more
from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.measured import changed
from laneshift.contract.plan import Plan
from laneshift.contract.policy import Policy
from laneshift.errors import InputError
from laneshift.inputcheck import FloatArray
from laneshift_lab.simulator.control import Control
from laneshift_lab.simulator.faults import Faults
from laneshift_lab.simulator.fluid import Fluid
from laneshift_lab.simulator.keyloads import KeyLoads
from laneshift_lab.simulator.latency import LatencyHistogram
from laneshift_lab.simulator.layout import Layout
from laneshift_lab.simulator.observe import Observer
from laneshift_lab.simulator.rates import Rate
from laneshift_lab.simulator.result import Result, WindowRow
from laneshift_lab.simulator.spec import Cluster, Engine, Operator, check_dag
from laneshift_lab.simulator.wakes import Wakes
from laneshift_lab.simulator.workload import Keys


@dataclass(frozen=True)
class Scenario:
    """Everything about a run but the policy.

    cores: lanes per partition at the start, over all operators in order; None: all cores of the
    cluster, spread evenly. duration_s: simulated time.
    """

    cluster: Cluster
    operators: tuple[Operator, ...]
    keys: Keys
    rate: Rate
    duration_s: float
    engine: Engine = field(default_factory=Engine)
    cores: tuple[int, ...] | None = None
    seed: int = 1

    def __post_init__(self) -> None:
        inputcheck.number(
            "duration_s", self.duration_s, "Seconds of simulated time.", low=0.0, low_open=True
        )
        check_dag(self.cluster, self.operators, self.engine)
        total = sum(op.partitions for op in self.operators)
        if self.cores is not None and (len(self.cores) != total or min(self.cores) < 1):
            raise InputError("cores", self.cores, f"{total} counts >= 1", "One per partition.")

    def start_cores(self) -> list[int]:
        """Lanes per partition at the start."""
        if self.cores is not None:
            return list(self.cores)
        total = sum(op.partitions for op in self.operators)
        all_cores = self.cluster.nodes * self.cluster.cores
        weight = [op.cost_s for op in self.operators for _ in range(op.partitions)]
        share = np.array(weight) / sum(weight) * (all_cores - total)
        cores = 1 + np.floor(share + 1e-9).astype(int)
        order = np.argsort(-(share - np.floor(share + 1e-9)), kind="stable")
        cores[order[: all_cores - int(cores.sum())]] += 1
        return [int(c) for c in cores]


class Simulation:
    """One run; ``advance`` to the end, or use :func:`simulate`."""

    def __init__(self, scenario: Scenario, policy: Policy[Any] | None = None) -> None:
        self.scenario, self.policy = scenario, policy
        engine = scenario.engine
        self.layout = Layout.start(scenario.cluster, scenario.operators, scenario.start_cores())
        self.fluid = Fluid(self.layout, engine)
        self.keys = KeyLoads(self.fluid)
        self.control = Control(self.fluid, self.keys, engine, scenario.seed)
        self.observer = Observer(self.fluid, self.keys, engine.paradigm == "resource-centric")
        self.faults = Faults(self.fluid, engine)
        self.wakes = Wakes(self.fluid) if engine.wakes and policy is not None else None
        self._state: Any = policy.start() if policy is not None else None
        self._due: list[tuple[float, Plan]] = []
        self.decisions = 0
        self.recorded: list[ClusterLoad] = []
        self.record = False

    def run(self, progress: Callable[[float], None] | None = None) -> Result:
        """Simulate to the end; ``progress`` gets the share done, once per window."""
        s, engine, fluid = self.scenario, self.scenario.engine, self.fluid
        changes = [(op.keys or s.keys).changes(s.duration_s) for op in s.operators]
        upcoming: list[tuple[float, FloatArray]] = [next(c) for c in changes]
        dt = engine.step_s
        windows = _Windows(fluid, self.control, s.cluster)
        steps = round(s.duration_s / dt)
        per = {name: max(round(getattr(engine, name) / dt), 1) for name in _PERIODS}
        short = max(round(SHORT_S / dt), 1)
        for i in range(steps):
            now = i * dt
            for o, changing in enumerate(changes):
                while upcoming[o][0] <= now + 1e-9:
                    self.keys.set(o, upcoming[o][1])
                    upcoming[o] = next(changing, (math.inf, upcoming[o][1]))
            rate = s.rate.mean(now, now + dt)
            fluid.step(rate * dt)
            end = now + dt
            if engine.faults:
                self.faults.step(end)
            if engine.paradigm == "executor-centric" and (i + 1) % per["balance_s"] == 0:
                self.control.balance()
                self.observer.add(fluid.seen)
                fluid.seen[:] = 0.0
            if self.policy is not None and (i + 1) % per["policy_s"] == 0:
                self._decide(end)
            elif self.wakes is not None and (i + 1) % short == 0 and self.wakes.is_due():
                self.wakes.taken(self._hurry(end))
            while self._due and self._due[0][0] <= end + 1e-9:
                self.control.apply(self._due.pop(0)[1], end, engine.policy_s)
            if self.layout.leaving.any():
                self.control.tidy()
            self.keys.step()
            self.control.expire(end)
            if (i + 1) % per["window_s"] == 0:
                windows.close(end, self.decisions)
                if progress is not None:
                    progress((i + 1) / steps)
        return Result(tuple(windows.rows), self._notes())

    def _decide(self, now: float) -> None:
        if self.wakes is not None:
            self.wakes.turn()
        plan = self._answer(now)[0]
        if not plan.is_empty:
            self._due.append((now + self.scenario.engine.actuation_s, plan))

    def _hurry(self, now: float) -> bool:
        """A short turn, which only adds lanes; whether it has."""
        plan, cluster = self._answer(now, whole=False)
        if cluster is not None:
            plan = only_more(plan, cluster)
        if not plan.is_empty:
            self._due.append((now + self.scenario.engine.actuation_s, plan))
        return not plan.is_empty

    def _answer(self, now: float, whole: bool = True) -> tuple[Plan, ClusterLoad | None]:
        """The plan, and the load that it is for; an empty one while the one before is under way."""
        fluid = self.fluid
        self.observer.add(fluid.seen)
        fluid.seen[:] = 0.0
        busy = any(fluid.syncs.busy(o) for o in range(len(self.scenario.operators)))
        if self._due or busy or self.layout.leaving.any():
            return Plan(), None
        cluster = changed(self.observer.cluster(now), whole=whole)
        if self.record:
            self.recorded.append(cluster)
        assert self.policy is not None  # only called with one
        plan, self._state = self.policy.answer(cluster, self._state)
        self.decisions += 1
        return plan, cluster

    def _notes(self) -> dict[str, float]:
        fluid = self.fluid
        h, g = fluid.handoffs.totals, fluid.syncs.totals
        n = max(h.local + h.remote, 1)
        return {
            "handoffs_local": h.local,
            "handoffs_remote": h.remote,
            "handoff_sync_mean_s": h.sync_s / n,
            "handoff_move_local_mean_s": h.local_move_s / max(h.local, 1),
            "handoff_move_remote_mean_s": h.remote_move_s / max(h.remote, 1),
            "rc_syncs": g.syncs,
            "rc_shards": g.shards,
            "rc_sync_mean_s": g.sync_s / max(g.syncs, 1),
            "rc_move_mean_s": g.move_s / max(g.syncs, 1),
            "migrated_bytes": fluid.totals.migrated_bytes,
            "remote_bytes": fluid.totals.remote_bytes,
            "lost_rows": float(fluid.totals.lost.sum()),
            "replayed_rows": self.faults.replayed,
            "lanes_lost": self.faults.lanes_lost,
            "adjustments": self.control.adjustments,
            "conservation_error_rows": float(np.abs(fluid.conservation_error()).max()),
        }


_PERIODS = ("balance_s", "policy_s", "window_s")


class _Windows:
    """Turns running totals into window rows."""

    def __init__(self, fluid: Fluid, control: Control, cluster: Cluster) -> None:
        self._fluid, self._control = fluid, control
        self.rows: list[WindowRow] = []
        self._last = self._now()
        self._time = 0.0
        self._sinks = [o for o, downs in enumerate(fluid.down) if not downs]

    def _now(self) -> dict[str, Any]:
        t, h = self._fluid.totals, self._fluid.handoffs.totals
        return {
            "arrived": t.arrived.copy(),
            "served": t.served.copy(),
            "lost": t.lost.copy(),
            "remote": t.remote_bytes,
            "migrated": t.migrated_bytes,
            "handoffs": h.local + h.remote + self._fluid.syncs.totals.shards,
        }

    def close(self, time_s: float, decisions: int) -> None:
        """Append the window that ends now."""
        fluid, now, last = self._fluid, self._now(), self._last
        lay, span = fluid.layout, time_s - self._time
        arrived = now["arrived"] - last["arrived"]
        entering = float(arrived[fluid.heads].sum())
        means = np.array([h.mean for h in fluid.latency])
        mean = float(means @ arrived) / entering if entering > 0 else 0.0
        self.rows.append(
            WindowRow(
                time_s=round(time_s, 9),
                arrived=entering / span,
                throughput=float((now["served"] - last["served"])[self._sinks].sum()) / span,
                lost=float((now["lost"] - last["lost"]).sum()) / span,
                latency_mean_s=mean,
                latency_p99_s=max(h.quantile(0.99) for h in fluid.latency),
                queued=float(lay.queue.sum() + lay.hold.sum()),
                backlog=fluid.backlog,
                cores=int((lay.lane_part >= 0).sum()),
                handoffs=now["handoffs"] - last["handoffs"],
                migrated_bytes=now["migrated"] - last["migrated"],
                remote_bytes=now["remote"] - last["remote"],
                decisions=decisions,
            )
        )
        fluid.latency[:] = [LatencyHistogram() for _ in fluid.latency]
        self._last, self._time = now, time_s


def simulate(
    scenario: Scenario,
    policy: Policy[Any] | None = None,
    progress: Callable[[float], None] | None = None,
) -> Result:
    """Run ``scenario`` under ``policy`` (None: lanes are balanced, core counts stay).

    >>> from laneshift_lab.simulator.rates import Constant
    >>> from laneshift_lab.simulator.workload import ZipfKeys
    >>> scene = Scenario(Cluster(2, 4), (Operator("o", 2),), ZipfKeys(), Constant(3000), 10)
    >>> round(simulate(scene).mean("throughput", after_s=2))
    3000
    """
    return Simulation(scenario, policy).run(progress)
