"""Run a policy on a window-fluid chain: CRAA's and OERA's experiments, and recorded traces.

The decision at the end of window n is in force from window n + 1 (EDGE) or n + 2 (``late``, with
CRAA's LEAD timing). Metrics as in CRAA, 2018.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from laneshift import inputcheck
from laneshift.contract.cluster_load import ClusterLoad, Edge, Node
from laneshift.contract.ids import NodeId, OperatorId, PartitionId
from laneshift.contract.partition_load import NodeCores, PartitionLoad
from laneshift.contract.policy import Policy
from laneshift.inputcheck import FloatArray, IntArray
from laneshift_lab.simulator.rates import Rate
from laneshift_lab.simulator.window import BufferedOperator, Chain, WindowState

_NODE = NodeId("n0")


@dataclass(frozen=True, eq=False)
class WindowRun:
    """Arrays of shape (W, O): input rate, capacity in force, units, backlog, lost, processed.

    window_s: length of a window; notes: sums of the policy's own notes.
    """

    window_s: float
    input_rate: FloatArray
    capacity: FloatArray
    units: IntArray
    backlog: FloatArray
    lost: FloatArray
    processed: FloatArray
    notes: dict[str, float]

    @property
    def loss_share(self) -> FloatArray:
        """(O,) rows lost / rows arrived."""
        arrived = self.input_rate.sum(axis=0) * self.window_s
        share: FloatArray = self.lost.sum(axis=0) / np.maximum(arrived, 1e-300)
        return share

    @property
    def total_loss_share(self) -> float:
        """Rows lost at any operator / rows that arrived at any operator."""
        return float(self.lost.sum() / max(self.input_rate.sum() * self.window_s, 1e-300))

    @property
    def use(self) -> FloatArray:
        """(O,) RS: rows processed / capacity in force over the run."""
        capacity = self.capacity.sum(axis=0) * self.window_s
        used: FloatArray = self.processed.sum(axis=0) / np.maximum(capacity, 1e-300)
        return used

    @property
    def adjustments(self) -> IntArray:
        """(O,) AC: changes of the number of units."""
        changes: IntArray = (np.diff(self.units, axis=0) != 0).sum(axis=0)
        return changes


def run_windows(
    policy: Policy[Any],
    operators: tuple[BufferedOperator, ...],
    rate: Rate,
    duration_s: float,
    window_s: float,
    *,
    delay_s: float = 0.0,
    pause_s: float = 0.0,
    lag: bool = True,
    late: bool = False,
) -> WindowRun:
    """Simulate ``duration_s`` seconds; parameters of the chain as in :class:`Chain`."""
    inputcheck.number("duration_s", duration_s, "Seconds.", low=window_s)
    chain = Chain(operators, window_s, delay_s=delay_s, pause_s=pause_s, lag=lag)
    state = policy.start()
    units = [op.units for op in operators]
    waiting = list(units)
    history: list[list[WindowState]] = []
    notes: dict[str, float] = {}
    for n in range(int(duration_s / window_s)):
        seen = chain.step(rate.mean(n * window_s, (n + 1) * window_s), units)
        history.append(seen)
        plan, state = policy.decide(_cluster(operators, seen, waiting, n, window_s), state)
        for name, value in plan.notes:
            notes[name] = notes.get(name, 0.0) + value
        if late:
            units = list(waiting)
        for change in plan.core_changes:
            waiting[_index(operators, change.partition)] = change.after
        if not late:
            units = list(waiting)
        for throttle in plan.throttles:
            chain.throttle(_index(operators, str(throttle.target)), throttle.rate)
    return _run(window_s, history, notes)


def _index(operators: tuple[BufferedOperator, ...], name: str) -> int:
    return next(i for i, op in enumerate(operators) if op.name == name)


def _cluster(
    operators: tuple[BufferedOperator, ...],
    seen: list[WindowState],
    units: list[int],
    n: int,
    window_s: float,
) -> ClusterLoad:
    parts = tuple(
        PartitionLoad(
            partition=PartitionId(op.name),
            operator=OperatorId(op.name),
            home=_NODE,
            placement=(NodeCores(_NODE, held),),
            offered_rate=now.input_rate,
            service_rate_per_core=op.unit_rate,
            queue_rows=now.backlog,
            queue_capacity_rows=op.buffer_rows,
            selectivity=op.ratio,
            output_rate=now.output_rate,
            rows_lost=now.lost,
            max_cores=op.max_units if op.max_units < 1_000_000 else None,
        )
        for op, now, held in zip(operators, seen, units, strict=True)
    )
    cores = max(10_000, 2 * sum(units))
    return ClusterLoad(
        time_s=(n + 1) * window_s,
        window_s=window_s,
        nodes=(Node(_NODE, cores),),
        partitions=parts,
        edges=tuple(
            Edge(a.partition, b.partition, op.bandwidth)
            for (a, b), op in zip(itertools.pairwise(parts), operators[1:], strict=True)
        ),
    )


def _run(window_s: float, history: list[list[WindowState]], notes: dict[str, float]) -> WindowRun:
    def column(name: str) -> FloatArray:
        return np.array([[getattr(s, name) for s in row] for row in history], dtype=np.float64)

    return WindowRun(
        window_s,
        column("input_rate"),
        column("capacity"),
        column("units").astype(np.int64),
        column("backlog"),
        column("lost"),
        column("processed"),
        {k: v for k, v in notes.items() if not math.isnan(v)},
    )
