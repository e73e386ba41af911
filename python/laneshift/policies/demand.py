"""What every partition will have to do in the next windows (policy ``laneshift``).

Heads are forecast; the others follow from what their upstreams will emit. Whether rows reach the
next partition within the same window or one later is learned from the measurements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from laneshift.contract.cluster_load import ClusterLoad, Feeds
from laneshift.contract.ids import PartitionId
from laneshift.contract.partition_load import PartitionLoad
from laneshift.inputcheck import FloatArray
from laneshift.models.buffer import transfer
from laneshift.models.burst import BurstForecast
from laneshift.policies.coupling import hidden_growth

_MEMORY = 0.8


@dataclass(frozen=True)
class DemandState:
    """What the estimate remembers.

    Attributes:
        forecasts: one per head.
        before: of heads that are saturated, the forecast before they were.
        output: rows/s emitted in the last window, per partition.
        lag_error: running error of "one window later" minus that of "same window", per non-head
            (rows/s): negative where rows arrive a window later.
        level: queue at the end of the last window (rows).
        share: measured rate over what the edges' ratios say, per non-head.
    """

    forecasts: Mapping[PartitionId, BurstForecast] = field(default_factory=dict)
    before: Mapping[PartitionId, BurstForecast] = field(default_factory=dict)
    output: Mapping[PartitionId, float] = field(default_factory=dict)
    lag_error: Mapping[PartitionId, float] = field(default_factory=dict)
    level: Mapping[PartitionId, float] = field(default_factory=dict)
    share: Mapping[PartitionId, float] = field(default_factory=dict)


@dataclass
class Flow:
    """Inputs of the next H windows, computed in topological order while counts are decided.

    Attributes:
        order: indices of the partitions, upstreams first.
        feeds: what feeds whom.
        window_s: length of a window.
        late: whether rows arrive a window after they were emitted.
        share: how much of what the edges say arrives: keys are not spread as evenly as ratios.
        emitted: rows/s emitted in the window measured.
        rates: rows/s that arrive, (m, 2, H): expected, and with the forecasts' margins (upper).
        output: rows/s emitted, (m, 2, H).
        blur: how far off the rates may be, (m, H) (rows/s).
        heads: the forecast of each head.
        growth: factor for what back-pressure hides.
        strain: share by which a partition's cores are less effective than the model says.
    """

    parts: tuple[PartitionLoad, ...]
    order: list[int]
    feeds: Feeds
    window_s: float
    late: list[bool]
    share: list[float]
    emitted: list[float]
    rates: FloatArray
    output: FloatArray
    blur: FloatArray
    heads: Mapping[int, BurstForecast]
    growth: list[float]
    strain: list[float]
    _sums: dict[int, tuple[float, FloatArray, FloatArray]] = field(default_factory=dict)

    @classmethod
    def begin(
        cls,
        cluster: ClusterLoad,
        state: DemandState,
        quantile: float,
        growth: float,
        horizon: int,
        forget: bool = False,
    ) -> tuple[Flow, DemandState]:
        """Measure the window; inputs of the next ones follow with `inputs`.

        With ``forget``, the rates of windows under back-pressure, in which lanes serve a backlog,
        say nothing of the load any more once it is served.
        """
        parts, dt = cluster.partitions, cluster.window_s
        index = {part.partition: i for i, part in enumerate(parts)}
        feeds = cluster.feeds
        emitted = [_emitted(part, state.level.get(part.partition, 0.0), dt) for part in parts]
        heads, forecasts, before = {}, {}, {}
        for head in cluster.heads:
            part = cluster.partition(head)
            known = state.forecasts.get(head, BurstForecast(quantile=quantile))
            if forget and part.saturated:
                before[head] = state.before.get(head, known)
            elif forget:
                known = state.before.get(head, known)
            # What has been seen already says nothing again; a moment is for this decision only.
            is_seen = part.repeated and head in state.forecasts
            heads[index[head]] = known if is_seen else known.observe(part.offered_rate)
            if cluster.whole or head in state.forecasts:
                forecasts[head] = heads[index[head]] if cluster.whole else known
        lag = {name: error for name, error in state.lag_error.items() if name in index}
        share = {name: part for name, part in state.share.items() if name in index}
        now = [sum(emitted[u] for u in group) for group in feeds.groups]
        then = [
            sum(state.output.get(parts[u].partition, math.nan) for u in group)
            for group in feeds.groups
        ]
        for part, groups in zip(parts, feeds.of, strict=True):
            if not groups or any(math.isnan(then[g]) for g, _ in groups):
                continue  # not all that feed it were measured before
            same = sum(b * now[g] for g, b in groups)
            later = sum(b * then[g] for g, b in groups)
            usual = share.get(part.partition, 1.0)
            error = abs(part.offered_rate - usual * later) - abs(part.offered_rate - usual * same)
            lag[part.partition] = _MEMORY * lag.get(part.partition, 0.0) + error
            said = later if lag[part.partition] < 0 else same
            if said > 0 and part.offered_rate > 0:
                share[part.partition] = part.offered_rate / said
        flow = cls(
            parts=parts,
            order=[index[p] for p in cluster.topological_order()],
            feeds=feeds,
            window_s=dt,
            late=[lag.get(part.partition, 0.0) < 0 for part in parts],
            share=[share.get(part.partition, 1.0) for part in parts],
            emitted=emitted,
            rates=np.zeros((len(parts), 2, horizon)),
            output=np.zeros((len(parts), 2, horizon)),
            blur=np.zeros((len(parts), horizon)),
            heads=heads,
            growth=hidden_growth(cluster, growth),
            strain=[0.0] * len(parts),
        )
        memory = DemandState(
            forecasts=forecasts,
            before=before,
            output={part.partition: out for part, out in zip(parts, emitted, strict=True)},
            lag_error=lag,
            level={part.partition: part.queue_rows for part in parts},
            share=share,
        )
        return flow, memory

    def inputs(self, i: int) -> FloatArray:
        """Rows/s in the next windows, (2, H); all upstreams must be settled."""
        rates: FloatArray = self.rates[i]
        if i in self.heads:
            rates[:] = self.heads[i].path(rates.shape[1]) * self.growth[i]
            self.blur[i] = self.heads[i].blur * self.growth[i]
            return rates
        for group, ratio in self.feeds.of[i]:
            b = ratio * self.share[i]
            emitted, output, blur = self._of_group(group)
            if self.late[i]:
                rates[:, 0] += b * emitted
                rates[:, 1:] += b * output[:, :-1]
                self.blur[i, 1:] += b * blur[:-1]
            else:
                rates += b * output
                self.blur[i] += b * blur
        return rates

    def _of_group(self, group: int) -> tuple[float, FloatArray, FloatArray]:
        """What a group's partitions emitted, will emit, and how far off that may be, together."""
        if group not in self._sums:
            members = list(self.feeds.groups[group])
            passed = np.array([self.parts[u].selectivity for u in members])
            self._sums[group] = (
                sum(self.emitted[u] * self.growth[u] for u in members),
                self.output[members].sum(axis=0),
                (passed[:, None] * self.blur[members]).sum(axis=0),
            )
        return self._sums[group]

    def waves(self) -> list[list[int]]:
        """Partitions in an order in which upstreams come first; those of a wave are independent."""
        depth = [0] * len(self.parts)
        below: dict[int, int] = {}
        for i in self.order:
            for group, _ in self.feeds.of[i]:
                if group not in below:
                    below[group] = 1 + max(depth[u] for u in self.feeds.groups[group])
            depth[i] = max((below[group] for group, _ in self.feeds.of[i]), default=0)
        waves: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
        for i in self.order:
            waves[depth[i]].append(i)
        return waves

    def settle(self, i: int, served: FloatArray) -> None:
        """Partition i will serve ``served`` rows/s in the next windows, (2, H)."""
        self.output[i] = served * self.parts[i].selectivity


def _emitted(part: PartitionLoad, level: float, dt: float) -> float:
    if part.output_rate is not None:
        return part.output_rate
    rate = part.efficiency * part.service_rate_per_core * part.cores
    return transfer(part.selectivity, rate, part.offered_rate, level, dt)
