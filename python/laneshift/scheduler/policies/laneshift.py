"""Policy ``laneshift``: our own. Latency target, burst-aware, oscillation-free, migration-aware."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from laneshift.models.allocation import share_cores
from laneshift.models.assignment import PHI_0
from laneshift.models.checks import integer, number
from laneshift.scheduler.ids import PartitionId
from laneshift.scheduler.placing import Placer, over_budget
from laneshift.scheduler.plan import KeySplit, Plan, Shortfall, Throttle
from laneshift.scheduler.policies.base import Policy
from laneshift.scheduler.policies.demand import DemandState, Flow
from laneshift.scheduler.policies.elasticutor import shortfalls_of
from laneshift.scheduler.policies.latency_model import LatencyModel, useful_cores
from laneshift.scheduler.snapshot import PartitionSnapshot, Snapshot
from laneshift.scheduler.view import IntArray, View

_NEAR = 1e-9


@dataclass(frozen=True)
class LaneshiftState:
    """Memory of the policy.

    Attributes:
        demand: forecasts and what they rest on.
        needs: cores that each partition needed in the last windows, oldest first.
        strain: how much more than the model says a partition needs to meet the target, per
            partition: lanes with queues of their own and uneven shards wait longer than M/M/k.
    """

    demand: DemandState = field(default_factory=DemandState)
    needs: Mapping[PartitionId, tuple[int, ...]] = field(default_factory=dict)
    strain: Mapping[PartitionId, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Laneshift(Policy[LaneshiftState]):
    """Grow at once for what is coming, shrink only when nothing asks for the cores any more.

    1. Demand: heads are forecast with their own recent error as margin (`BurstForecast`);
       downstreams follow from what upstreams will emit (as CRAA's feed-forward).
    2. Need of a partition: the fewest cores that end the next window with a queue that can be
       served within its share of the latency target and does not fill its buffer.
    3. The Jackson model (as Elasticutor) raises the counts until the mean latency is met. Where
       rows are seen to wait longer than the target allows, its service rates are lowered step by
       step: lanes have own queues and shards are uneven, which M/M/k does not know.
    4. Hysteresis: cores are kept while any of the last ``hold_windows`` windows, the next one, the
       one after, or one that is higher by the forecast's own error needs them; held cores that
       meet the target are not exchanged for others.
    5. Placement: Algorithm 1, then exchanges of cores that pay off within ``payback_s``: less
       state moved, less traffic between nodes.
    6. If the cluster is too small, cores are shared so that the worst utilisation is least; with
       ``throttle_sources`` the sources are slowed to what can be processed.

    Attributes:
        target_s: bound on the mean latency (s, > 0), or none: then only keeping up and the buffers
            count. Default 0.1.
        quantile: share of recent forecast errors that is provided for, in [0, 1). Higher: fewer
            rows lost or late in a burst, more idle cores. Default 0.9.
        hold_windows: windows (>= 0) in which a past need still keeps cores, unless a confirmed
            cycle tells what comes. Default 1.
        noise_band: hysteresis against noise (share of the rate, >= 0): cores are kept if a rate
            higher by the recent forecast error, but at most by this share, needs them. Default
            0.05.
        occ_limit: highest occupancy of a bounded buffer to plan for, in (0, 1]. Default 0.7.
        payback_s: time in which saved traffic must outweigh moved state (s, >= 0). Default 60.
        most_swaps: exchanges per decision at most (>= 0). Default 16.
        phi_0: as in `elasticutor` (bytes/s per core, > 0).
        saturated_growth: factor (>= 1) on rates hidden by back-pressure, for all that is coupled
            to the saturated partition. Default 1.5.
        throttle_sources: slow the sources down when cores do not suffice. Default off.
        split_above: split a key that takes more than this many cores (> 0), or none: never.
    """

    name: ClassVar[str] = "laneshift"
    summary: ClassVar[str] = "forecast with error margin, latency target, patient and local"
    source: ClassVar[str] = "laneshift"

    target_s: float | None = 0.1
    quantile: float = 0.9
    hold_windows: int = 1
    noise_band: float = 0.05
    occ_limit: float = 0.7
    payback_s: float = 60.0
    most_swaps: int = 16
    phi_0: float = PHI_0
    saturated_growth: float = 1.5
    throttle_sources: bool = False
    split_above: float | None = None

    def __post_init__(self) -> None:
        for name in ("target_s", "split_above"):
            if getattr(self, name) is not None:
                number(name, getattr(self, name), low=0, low_open=True)
        number("quantile", self.quantile, low=0, high=1, high_open=True)
        integer("hold_windows", self.hold_windows, low=0, unit="windows")
        number("noise_band", self.noise_band, low=0)
        number("occ_limit", self.occ_limit, low=0, low_open=True, high=1)
        number("payback_s", self.payback_s, low=0, unit="s")
        integer("most_swaps", self.most_swaps, low=0)
        number("phi_0", self.phi_0, low=0, low_open=True, unit="bytes/s per core")
        number("saturated_growth", self.saturated_growth, low=1)

    def start(self) -> LaneshiftState:
        """Nothing seen yet."""
        return LaneshiftState()

    def decide(self, snapshot: Snapshot, state: LaneshiftState) -> tuple[Plan, LaneshiftState]:
        """Counts, placement, and where asked for, throttles and key splits."""
        view = View.of(snapshot)
        flow, memory = Flow.begin(snapshot, state.demand, self.quantile, self.saturated_growth)
        strain = self._strain(snapshot, state.strain)
        flow.strain[:] = [strain.get(part.partition, 0.0) for part in snapshot.partitions]
        needs = np.ones(len(snapshot.partitions), dtype=np.int64)
        targets = needs.copy()
        for i in flow.order:
            needs[i] = self._need(flow, i)
            past = max(state.needs.get(flow.parts[i].partition, ()), default=1)
            # Who knows the cycle needs no memory of the past to know what comes.
            keep = 1 if flow.sure[i] else max(past, self._within_noise(flow, i))
            targets[i] = max(needs[i], min(keep, flow.parts[i].cores))
            flow.settle(i, int(targets[i]))
        model = None if self.target_s is None else LatencyModel.of(view, flow, self.target_s)
        if model is not None:
            needs, targets = model.raise_counts(needs, targets)
        plan = self._place(view, flow, targets, model)
        return plan, LaneshiftState(memory, self._remember(snapshot, state, needs), strain)

    def _strain(
        self, snapshot: Snapshot, before: Mapping[PartitionId, float]
    ) -> dict[PartitionId, float]:
        """Up where rows wait longer than the target leaves room for, slowly down where far less.

        By Little's law a queue of q rows means a wait of q / offered rate.
        """
        entering = snapshot.external_rate
        if self.target_s is None or entering <= 0:
            return {}
        service = sum(part.offered_load for part in snapshot.partitions) / entering
        room = max(0.1 * self.target_s, self.target_s - service)
        after: dict[PartitionId, float] = {}
        for part in snapshot.partitions:
            known = before.get(part.partition, 0.0)
            wait = part.queue_rows / part.offered_rate if part.offered_rate > 0 else 0.0
            if wait > room and not part.saturated:
                known = min(MOST_STRAIN, known + STRAIN_STEP)
            elif wait < 0.25 * room:
                known *= STRAIN_DECAY
            after[part.partition] = known if known > 1e-3 else 0.0
        return after

    def _remember(
        self, snapshot: Snapshot, state: LaneshiftState, needs: IntArray
    ) -> dict[PartitionId, tuple[int, ...]]:
        kept: dict[PartitionId, tuple[int, ...]] = {}
        for part, need in zip(snapshot.partitions, needs.tolist(), strict=True):
            known = (*state.needs.get(part.partition, ()), need)
            kept[part.partition] = known[len(known) - self.hold_windows :][: self.hold_windows]
        return kept

    def _need(self, flow: Flow, i: int) -> int:
        """Fewest cores for the next window and, as far as they are held, the one after."""
        part, held, dt = flow.parts[i], max(1, flow.parts[i].cores), flow.window_s
        coming, after = flow.inputs(i)
        full = part.queue_capacity_rows
        if self.target_s is None and full is not None and self._rides_out(flow, i, full):
            return min(held, useful_cores(part))
        slower = 1.0 + flow.strain[i]
        lasting = slower * flow.lasting(i)
        need = self._cores_for(part, coming, lasting, part.queue_rows, dt)
        left = max(0.0, part.queue_rows + (coming - need * part.service_rate_per_core) * dt)
        later = self._cores_for(part, after, lasting, left, dt)
        # Growth for the window after next can wait; cores that it will need are kept.
        return min(max(need, min(later, held)), useful_cores(part))

    def _within_noise(self, flow: Flow, i: int) -> int:
        """Cores that a rate higher by the forecast's own error, at most ``noise_band``, needs."""
        part = flow.parts[i]
        rate = max(flow.next_rate[i], flow.after_rate[i])
        rate *= (1.0 + min(flow.noise[i], self.noise_band)) * (1.0 + flow.strain[i])
        return self._cores_for(part, rate, rate, 0.0, flow.window_s)

    def _rides_out(self, flow: Flow, i: int, full: float) -> bool:
        """Whether a burst ends by itself: it fits the buffer and the window after empties it."""
        part, dt = flow.parts[i], flow.window_s
        rate = part.service_rate_per_core * part.cores
        peak = part.queue_rows + (flow.next_rate[i] - rate) * dt
        end = max(0.0, peak) + (flow.after_rate[i] - rate) * dt
        grows = peak > self.occ_limit * full
        return grows and peak <= full and end <= self.occ_limit * full

    def _cores_for(
        self, part: PartitionSnapshot, rate: float, lasting: float, level: float, dt: float
    ) -> int:
        """Fewest cores that keep up with ``lasting`` and end a window of ``rate`` well.

        Well: the queue left is served within the target, and below the buffer's limit. With k
        cores of rate mu the first means (rate*dt + level) <= k*mu*(dt + target).
        """
        unit, amount = part.service_rate_per_core, rate * dt + level
        bounds = [lasting / unit]
        if self.target_s is not None:
            bounds.append(amount / (unit * (dt + self.target_s)))
        if part.queue_capacity_rows is not None:
            room = self.occ_limit * part.queue_capacity_rows
            bounds.append((amount - room) / (unit * dt))
        if len(bounds) == 1:
            bounds.append(amount / (unit * dt))
        return max(1, math.ceil(max(bounds) * (1.0 - _NEAR)))

    def _place(self, view: View, flow: Flow, targets: IntArray, model: LatencyModel | None) -> Plan:
        available = int(view.node_cores.sum())
        shortfalls: tuple[Shortfall, ...] = ()
        throttles: tuple[Throttle, ...] = ()
        if int(targets.sum()) > available:
            shortfalls = (over_budget(int(targets.sum()), available),)
            targets, worst = _share(view, flow, targets, available)
            if self.throttle_sources and worst > 1.0:
                throttles = tuple(
                    Throttle(source.source, source.rate / worst) for source in view.snapshot.sources
                )
        elif model is not None:
            shortfalls = shortfalls_of(model.found, available, model.target_s)
        notes = [("forecast_rate", sum(flow.next_rate[i] for i in flow.heads))]
        if model is not None:
            notes.append(("predicted_latency_mean", model.latency(targets)))
        placer = Placer(phi_0=self.phi_0, payback_s=self.payback_s, most_swaps=self.most_swaps)
        plan = placer.plan(
            view, targets, throttles=throttles, shortfalls=shortfalls, notes=tuple(notes)
        )
        return replace(plan, key_splits=self._splits(view.snapshot))

    def _splits(self, snapshot: Snapshot) -> tuple[KeySplit, ...]:
        limit = self.split_above
        if limit is None:
            return ()
        return tuple(
            KeySplit(part.partition, hot.key, math.ceil(hot.load_cores / limit))
            for part in snapshot.partitions
            for hot in part.hot_keys
            if hot.load_cores > limit
        )


STRAIN_STEP = 0.1
STRAIN_DECAY = 0.98
MOST_STRAIN = 1.0
"""How fast strain rises per window, decays per window, and how far it may go."""

OVERLOAD_BAND = 0.03
"""In overload what is held stays if its worst utilisation is within this share of the least."""


def _share(view: View, flow: Flow, targets: IntArray, available: int) -> tuple[IntArray, float]:
    """(counts for too few cores, highest utilisation); what is held stays if nearly as good."""
    load = np.array(flow.next_rate) / view.service
    best = share_cores(load, targets, available)
    worst = float((load / best).max())
    held = np.minimum(view.cores, np.maximum(targets, view.cores))
    if bool((held >= 1).all()) and int(held.sum()) == available:
        now = float((load / held).max())
        if now <= worst * (1.0 + OVERLOAD_BAND):
            return held, now
    return best, worst
