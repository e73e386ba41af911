"""What every partition will have to do in the next two windows (policy ``laneshift``).

Heads are forecast; the others follow from what their upstreams will emit. Whether rows reach the
next partition within the same window or one later is learned from the measurements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from laneshift.models.buffer import transfer
from laneshift.models.burst import BurstForecast
from laneshift.scheduler.ids import PartitionId
from laneshift.scheduler.policies.coupling import hidden_growth
from laneshift.scheduler.snapshot import PartitionSnapshot, Snapshot

_MEMORY = 0.8


@dataclass(frozen=True)
class DemandState:
    """What the estimate remembers.

    Attributes:
        forecasts: one per head.
        output: rows/s emitted in the last window, per partition.
        lag_error: running error of "one window later" minus that of "same window", per non-head
            (rows/s): negative where rows arrive a window later.
        level: queue at the end of the last window (rows).
    """

    forecasts: Mapping[PartitionId, BurstForecast] = field(default_factory=dict)
    output: Mapping[PartitionId, float] = field(default_factory=dict)
    lag_error: Mapping[PartitionId, float] = field(default_factory=dict)
    level: Mapping[PartitionId, float] = field(default_factory=dict)


@dataclass
class Flow:
    """Inputs of the next two windows, computed in topological order while counts are decided.

    Attributes:
        order: indices of the partitions, upstreams first.
        upstream: (upstream, ratio) per partition.
        window_s: length of a window.
        late: whether rows arrive a window after they were emitted.
        emitted: rows/s emitted in the window measured.
        next_rate, after_rate: rows/s that arrive in the next window and the one after.
        next_output, after_output: rows/s emitted then.
        heads: the forecast of each head.
        sure: whether all that arrives follows a confirmed cycle.
        noise: margin of the forecasts that a partition's input rests on, as a share of the rate.
        growth: factor for what back-pressure hides.
        strain: share by which a partition's cores are less effective than the model says.
    """

    parts: tuple[PartitionSnapshot, ...]
    order: list[int]
    upstream: list[list[tuple[int, float]]]
    window_s: float
    late: list[bool]
    emitted: list[float]
    next_rate: list[float]
    after_rate: list[float]
    next_output: list[float]
    after_output: list[float]
    heads: Mapping[int, BurstForecast]
    sure: list[bool]
    noise: list[float]
    growth: list[float]
    strain: list[float]

    @classmethod
    def begin(
        cls, snapshot: Snapshot, state: DemandState, quantile: float, growth: float
    ) -> tuple[Flow, DemandState]:
        """Measure the window; inputs of the next ones follow with `inputs`."""
        parts, dt = snapshot.partitions, snapshot.window_s
        index = {part.partition: i for i, part in enumerate(parts)}
        upstream: list[list[tuple[int, float]]] = [[] for _ in parts]
        for edge in snapshot.edges:
            upstream[index[edge.downstream]].append((index[edge.upstream], edge.ratio))
        emitted = [_emitted(part, state.level.get(part.partition, 0.0), dt) for part in parts]
        heads = {}
        for head in snapshot.heads:
            known = state.forecasts.get(head, BurstForecast(quantile=quantile))
            heads[index[head]] = known.observe(snapshot.partition(head).offered_rate)
        lag = dict(state.lag_error)
        for i, edges in enumerate(upstream):
            part = parts[i]
            if not edges or any(parts[u].partition not in state.output for u, _ in edges):
                continue
            same = sum(b * emitted[u] for u, b in edges)
            later = sum(b * state.output[parts[u].partition] for u, b in edges)
            error = abs(part.offered_rate - later) - abs(part.offered_rate - same)
            lag[part.partition] = _MEMORY * lag.get(part.partition, 0.0) + error
        zeros = [0.0] * len(parts)
        flow = cls(
            parts=parts,
            order=[index[p] for p in snapshot.topological_order()],
            upstream=upstream,
            window_s=dt,
            late=[lag.get(part.partition, 0.0) < 0 for part in parts],
            emitted=emitted,
            next_rate=list(zeros),
            after_rate=list(zeros),
            next_output=list(zeros),
            after_output=list(zeros),
            heads=heads,
            noise=[0.0] * len(parts),
            sure=[i in heads and heads[i].confirmed for i in range(len(parts))],
            growth=hidden_growth(snapshot, growth),
            strain=list(zeros),
        )
        memory = DemandState(
            forecasts={parts[i].partition: known for i, known in heads.items()},
            output={part.partition: out for part, out in zip(parts, emitted, strict=True)},
            lag_error=lag,
            level={part.partition: part.queue_rows for part in parts},
        )
        return flow, memory

    def inputs(self, i: int) -> tuple[float, float]:
        """(rows/s in the next window, in the one after); all upstreams must be settled."""
        if i in self.heads:
            known = self.heads[i]
            pair = (known.upper(1) * self.growth[i], known.upper(2) * self.growth[i])
            self.next_rate[i], self.after_rate[i] = pair
            self.noise[i] = known.margin / max(known.upper(1), 1e-9)
            return pair
        self.noise[i] = max(self.noise[u] for u, _ in self.upstream[i])
        self.sure[i] = all(self.sure[u] for u, _ in self.upstream[i])
        if self.late[i]:
            pair = (
                sum(b * self.emitted[u] for u, b in self.upstream[i]),
                sum(b * self.next_output[u] for u, b in self.upstream[i]),
            )
        else:
            pair = (
                sum(b * self.next_output[u] for u, b in self.upstream[i]),
                sum(b * self.after_output[u] for u, b in self.upstream[i]),
            )
        self.next_rate[i], self.after_rate[i] = pair
        return pair

    def lasting(self, i: int) -> float:
        """Rate that cores must keep up with (rows/s): expected in both windows, without margin.

        The margin is for the buffer and the latency target, which feel a burst; no queue grows
        for ever if only a forecast's error exceeds the cores.
        """
        if i in self.heads:
            known = self.heads[i]
            return min(known.forecast(1), known.forecast(2)) * self.growth[i]
        return min(self.next_rate[i], self.after_rate[i])

    def settle(self, i: int, cores: int) -> None:
        """Partition i will have ``cores``: what it emits follows."""
        part, dt = self.parts[i], self.window_s
        rate = part.service_rate_per_core * cores
        full = part.queue_capacity_rows
        self.next_output[i] = transfer(
            part.selectivity, rate, self.next_rate[i], part.queue_rows, dt
        )
        level = max(0.0, part.queue_rows + (self.next_rate[i] - rate) * dt)
        level = level if full is None else min(level, full)
        self.after_output[i] = transfer(part.selectivity, rate, self.after_rate[i], level, dt)


def _emitted(part: PartitionSnapshot, level: float, dt: float) -> float:
    if part.output_rate is not None:
        return part.output_rate
    rate = part.efficiency * part.service_rate_per_core * part.cores
    return transfer(part.selectivity, rate, part.offered_rate, level, dt)
