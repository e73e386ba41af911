"""Policy ``laneshift``: our own. Latency target, burst-aware, oscillation-free, migration-aware."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.ids import PartitionId, QueryId
from laneshift.contract.partition_load import PartitionLoad
from laneshift.contract.plan import Plan, Shortfall, Throttle
from laneshift.inputcheck import IntArray, number, whole
from laneshift.models.allocation import share_cores
from laneshift.models.assignment import PHI_0
from laneshift.models.holding import Load, Prices, Stretch, choose_all
from laneshift.policies.demand import DemandState, Flow
from laneshift.policies.elasticutor import mean_latency, shortfalls_of
from laneshift.policies.far_cores import near_only, with_far_cores
from laneshift.policies.hot_keys import splits, useful_cores
from laneshift.policies.latency_model import LatencyModel
from laneshift.policies.placing import Placer, over_budget
from laneshift.policies.rescaling import RescalingPolicy
from laneshift.policies.view import View

_NEAR = 1e-9


MOST_WINDOWS = 100
"""A turn looks at each window ahead, of each partition (count, ours)."""


@dataclass(frozen=True)
class LaneshiftState:
    """Memory of the policy.

    Attributes:
        demand: forecasts and what they rest on.
        strain: how much more than the model says a partition needs to meet the target, per
            partition: lanes with queues of their own and uneven shards wait longer than M/M/k.
        wait_s: how long its rows wait (s), a mean in which new windows count most, per partition.
    """

    demand: DemandState = field(default_factory=DemandState)
    strain: Mapping[PartitionId, float] = field(default_factory=dict)
    wait_s: Mapping[PartitionId, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Laneshift(RescalingPolicy[LaneshiftState]):
    """Hold a count for as long as it is worth it, and change it for what is coming.

    1. Demand: heads are forecast by whichever of five experts was closest lately
       (`BurstForecast`); downstreams follow from what upstreams will emit (as CRAA's
       feed-forward), scaled to what is measured.
    2. Count of a partition: the one that costs least per window while it can be held
       (`laneshift.models.holding`): idle cores, and the price of the change. It can be held as
       long as the queue can be served within the latency target and does not fill its buffer.
    3. The Jackson model (as Elasticutor) raises the counts until the mean latency is met. Where
       rows are seen to wait longer than the target allows, its service rates are lowered step by
       step: lanes have own queues and shards are uneven, which M/M/k does not know.
    4. Placement: cores of other nodes only where a row's work is some times its way there
       (`laneshift.policies.far_cores`, running queries). Algorithm 1, then exchanges of cores
       that pay off within ``payback_s``: less state moved, less traffic between nodes.
    5. If the cluster is too small, cores are shared so that the worst utilisation is least; with
       ``throttle_sources`` the sources are slowed to what can be processed.

    Attributes:
        target_s: bound on the mean latency (s, > 0), or none: then only keeping up and the buffers
            count. Default 0.1.
        quantile: share of recent forecast errors that new counts provide for, in [0, 1). Higher:
            fewer rows lost or late in a burst, more idle cores. Default 0.9.
        horizon: windows (1 to 100) that are looked ahead. Default 4.
        change_price: what a change costs, in windows of the partition's cores (>= 0). Default 0.12.
        core_price: what it costs more for each core added or taken, in windows of that core
            (>= 0). Default 0.3.
        release_surplus: give back cores that nobody claims, else keep them where they are.
        occ_limit: highest occupancy of a bounded buffer to plan for, in (0, 1]. Default 0.7.
        drain_s: rows that wait longer than they should are no demand that lasts: lanes are for what
            comes in and that backlog / this time (s, >= 0); 0: it is served within a window.
            Default 5.
        payback_s: time in which saved traffic must outweigh moved state (s, >= 0). Default 60.
        most_swaps: exchanges per decision at most (>= 0). Default 16.
        phi_0: as in `elasticutor` (bytes/s per core, > 0).
        saturated_growth: factor (>= 1) on rates hidden by back-pressure, for all that is coupled
            to the saturated partition. Default 1.5.
        throttle_sources: slow the sources down when cores do not suffice. Default off.
        split_above: split a key that takes more than this many cores (> 0) so that each part
            takes half to all of it, merge it when it cools, or none: never. Only for operators
            whose keys can be split.
    """

    name: ClassVar[str] = "laneshift"
    summary: ClassVar[str] = "counts worth holding for what is coming, latency target, local"
    source: ClassVar[str] = "laneshift"
    places: ClassVar[bool] = True

    target_s: float | None = 0.1
    quantile: float = 0.9
    horizon: int = 4
    change_price: float = 0.12
    core_price: float = 0.3
    release_surplus: bool = True
    occ_limit: float = 0.7
    drain_s: float = 5.0
    payback_s: float = 60.0
    most_swaps: int = 16
    phi_0: float = PHI_0
    saturated_growth: float = 1.5
    throttle_sources: bool = False
    split_above: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("target_s", "split_above"):
            if getattr(self, name) is not None:
                number(name, getattr(self, name), low=0, low_open=True)
        number("quantile", self.quantile, low=0, high=1, high_open=True)
        whole("horizon", self.horizon, low=1, high=MOST_WINDOWS, unit="windows")
        number("change_price", self.change_price, low=0, unit="windows")
        number("core_price", self.core_price, low=0, unit="windows")
        number("occ_limit", self.occ_limit, low=0, low_open=True, high=1)
        number("drain_s", self.drain_s, low=0, unit="s")
        number("payback_s", self.payback_s, low=0, unit="s")
        whole("most_swaps", self.most_swaps, low=0, high=10_000)
        number("phi_0", self.phi_0, low=0, low_open=True, unit="bytes/s per core")
        number("saturated_growth", self.saturated_growth, low=1)

    def start(self) -> LaneshiftState:
        """Nothing seen yet."""
        return LaneshiftState()

    def decide(self, cluster: ClusterLoad, state: LaneshiftState) -> tuple[Plan, LaneshiftState]:
        """Counts, placement, and where asked for, throttles and key splits."""
        seen, staying = near_only(cluster)
        plan, after = self._decide(seen, state)
        plan = with_far_cores(plan, seen, cluster)
        return replace(plan, shortfalls=(*plan.shortfalls, *staying)), after

    def _decide(self, cluster: ClusterLoad, state: LaneshiftState) -> tuple[Plan, LaneshiftState]:
        view = View.of(cluster)
        flow, memory = Flow.begin(
            cluster,
            state.demand,
            self.quantile,
            self.saturated_growth,
            self.horizon,
            forget=self.drain_s > 0,
        )
        strain, wait_s = self._strain(cluster, state)
        flow.strain[:] = [strain.get(part.partition, 0.0) for part in cluster.partitions]
        targets = np.ones(len(cluster.partitions), dtype=np.int64)
        most = np.array(
            [useful_cores(part, self.split_above) for part in cluster.partitions], dtype=np.int64
        )
        for wave in flow.waves():
            for i, found in zip(wave, self._stretches(flow, wave, most), strict=True):
                targets[i] = found.cores
                flow.settle(i, found.served)
        models = [] if self.target_s is None else LatencyModel.of(view, flow, self.target_s, most)
        for model in models:
            targets[model.rows] = model.raise_counts(targets[model.rows])
        plan = self._place(view, flow, targets, models)
        return plan, LaneshiftState(memory, strain, wait_s)

    def _stretches(self, flow: Flow, wave: list[int], most: IntArray) -> list[Stretch]:
        """For each partition of ``wave`` the count that is cheapest while it can be held."""
        loads = [self._load(flow, i) for i in wave]
        held = [max(1, flow.parts[i].cores) for i in wave]
        return choose_all(
            [load for load, _ in loads],
            held,
            [least for _, least in loads],
            [int(most[i]) for i in wave],
            Prices(self.change_price, self.core_price),
        )

    def _load(self, flow: Flow, i: int) -> tuple[Load, int]:
        """What partition ``i`` will have to serve, and the fewest cores to do it with."""
        part, rates = flow.parts[i], flow.inputs(i)
        slower = 1.0 + flow.strain[i]
        unit, full = part.service_rate_per_core, part.queue_capacity_rows
        room = (math.inf, 0.0)
        if part.batch is not None:
            room = (0.0, 0.0)  # a batch that is late is late for the target
        elif self.target_s is not None:
            room = (0.0, unit * self.target_s)
        if full is not None and self.occ_limit * full < room[0] + room[1] * max(1, part.cores):
            room = (self.occ_limit * full, 0.0)
        least = math.ceil(float((rates[0] - flow.blur[i]).min()) * slower / unit * (1.0 - _NEAR))
        load = Load(
            rates * slower,
            flow.blur[i],
            part.queue_rows,
            unit,
            flow.window_s,
            room,
            math.inf if full is None else full,
            self.drain_s,
        )
        return load, max(1, least)

    def _strain(
        self, cluster: ClusterLoad, state: LaneshiftState
    ) -> tuple[dict[PartitionId, float], dict[PartitionId, float]]:
        """(strain, waits): strain goes up where rows wait longer than the target leaves room for,
        slowly down where far less.

        By Little's law a queue of q rows means a wait of q / offered rate. A queue that is seen
        once may be chance, so that the mean of several windows must be long as well.
        """
        after: dict[PartitionId, float] = {}
        waits: dict[PartitionId, float] = {}
        rooms: dict[QueryId, float] = {}
        for query, members in cluster.queries.items():
            entering = cluster.external_rate_of(query)
            if self.target_s is not None and entering > 0:
                service = sum(cluster.partitions[i].offered_load for i in members) / entering
                rooms[query] = max(0.1 * self.target_s, self.target_s - service)
        for part in cluster.partitions:
            room = rooms.get(part.query)
            if room is None:
                continue
            known = state.strain.get(part.partition, 0.0)
            if not cluster.counts(part):
                waits[part.partition] = state.wait_s.get(part.partition, 0.0)
                after[part.partition] = known
                continue
            wait = part.queue_rows / part.offered_rate if part.offered_rate > 0 else 0.0
            mean = state.wait_s.get(part.partition, 0.0)
            waits[part.partition] = mean = mean + NEWEST_WAIT * (wait - mean)
            if self._drains(part, state.demand.level, cluster.window_s):
                pass  # rows wait because they are many, not because lanes are uneven
            elif min(wait, mean) > room and not part.saturated:
                known = min(MOST_STRAIN, known + STRAIN_STEP)
            elif wait < 0.25 * room:
                known *= STRAIN_DECAY
            after[part.partition] = known if known > 1e-3 else 0.0
        return after, waits

    def _drains(
        self, part: PartitionLoad, level: Mapping[PartitionId, float], window_s: float
    ) -> bool:
        """Whether a backlog shrinks, at least half as fast as it should."""
        before = level.get(part.partition, 0.0)
        if self.drain_s <= 0 or before <= 0:
            return False
        return part.queue_rows <= before * (1.0 - 0.5 * min(1.0, window_s / self.drain_s))

    def _place(self, view: View, flow: Flow, targets: IntArray, models: list[LatencyModel]) -> Plan:
        available = int(view.node_cores.sum())
        shortfalls: tuple[Shortfall, ...] = ()
        throttles: tuple[Throttle, ...] = ()
        if int(targets.sum()) > available:
            shortfalls = (over_budget(int(targets.sum()), available),)
            targets, worst = _share(view, flow, targets, available)
            if self.throttle_sources and worst > 1.0:
                throttles = tuple(
                    Throttle(source.source, source.rate / worst) for source in view.cluster.sources
                )
        else:
            names = [part.partition for part in view.cluster.partitions]
            shortfalls = tuple(
                short
                for model in models
                for short in shortfalls_of(
                    model.found, available, model.target_s, [names[i] for i in model.rows.tolist()]
                )
            )
        notes = [("forecast_rate", float(sum(flow.rates[i, 0, 0] for i in flow.heads)))]
        if models:
            latencies = [(model.entering, model.latency(targets[model.rows])) for model in models]
            notes.append(("predicted_latency_mean", mean_latency(latencies)))
        placer = Placer(
            phi_0=self.phi_0,
            release=self.release_surplus,
            payback_s=self.payback_s,
            most_swaps=self.most_swaps,
        )
        plan = placer.plan(
            view, targets, throttles=throttles, shortfalls=shortfalls, notes=tuple(notes)
        )
        after = {change.partition: change.after for change in plan.core_changes}
        parts = view.cluster.partitions
        cores = [after.get(part.partition, part.cores) for part in parts]
        return replace(plan, key_splits=splits(parts, cores, self.split_above))


NEWEST_WAIT = 0.1
"""Weight of the newest window in the mean of waits."""

STRAIN_STEP = 0.1
STRAIN_DECAY = 0.98
MOST_STRAIN = 1.0
"""How fast strain rises per window, decays per window, and how far it may go."""

OVERLOAD_BAND = 0.03
"""In overload what is held stays if its worst utilisation is within this share of the least."""


def _share(view: View, flow: Flow, targets: IntArray, available: int) -> tuple[IntArray, float]:
    """(counts for too few cores, highest utilisation); what is held stays if nearly as good."""
    load = flow.rates[:, 0, 0] / view.service
    best = share_cores(load, targets, available)
    worst = float((load / best).max())
    held = np.minimum(view.cores, np.maximum(targets, view.cores))
    if bool((held >= 1).all()) and int(held.sum()) == available:
        now = float((load / held).max())
        if now <= worst * (1.0 + OVERLOAD_BAND):
            return held, now
    return best, worst
