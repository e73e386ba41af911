"""Policy ``elasticutor``: Jackson model for the counts, Algorithm 1 for the placement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.ids import PartitionId
from laneshift.contract.partition_load import PartitionLoad
from laneshift.contract.plan import Plan, Reason, Shortfall
from laneshift.inputcheck import FloatArray, IntArray, number
from laneshift.models.allocation import Allocation, Network, Outcome, allocate_shared
from laneshift.models.assignment import PHI_0
from laneshift.policies.coupling import hidden_growth
from laneshift.policies.placing import Placer
from laneshift.policies.release import RELEASE_AFTER_S, Surplus, hold_back, patience_s
from laneshift.policies.rescaling import RescalingPolicy
from laneshift.policies.view import View


@dataclass(frozen=True)
class ElasticutorState:
    """Memory of the policy.

    Attributes:
        offered: smoothed offered rate per partition (rows/s).
        surplus: of partitions that hold more than they need.
    """

    offered: Mapping[PartitionId, float] = field(default_factory=dict)
    surplus: Mapping[PartitionId, Surplus] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Elasticutor(RescalingPolicy[ElasticutorState]):
    """The dynamic scheduler of Elasticutor, 2019, 4.1 to 4.5 (marks in `models`).

    Attributes:
        target_s: T_max, bound on the mean time in the topology (s, > 0). The paper leaves it to
            the user [S]; default 0.1 [D].
        phi_0: data-intensity threshold to start from (bytes/s per core, > 0), 512 KB/s [S].
        release_surplus: give back cores that nobody claims; the algorithm as printed keeps them
            until somebody does, at once [D].
        release_after_s: for how long fewer cores must have been enough before any is given back
            (s, >= 0), in micro-batch for two batches if that is less, then down to the most that
            were needed meanwhile [D]. Without effect if surplus is kept.
        smoothing: weight of the newest rate in an exponential mean, in (0, 1]; 1 = as measured,
            the paper's "instantaneous metrics" [S].
        saturated_growth: under back-pressure the offered rate is only "at least this" [D]: it is
            taken as this many times what was measured (>= 1), for the saturated partition and all
            that is coupled to it; 1 = as measured.
    """

    name: ClassVar[str] = "elasticutor"
    summary: ClassVar[str] = "mean-latency target by a Jackson network, Algorithm 1 placement"
    source: ClassVar[str] = "Elasticutor, 2019: the dynamic scheduler"
    places: ClassVar[bool] = True

    target_s: float = 0.1
    phi_0: float = PHI_0
    release_surplus: bool = True
    release_after_s: float = RELEASE_AFTER_S
    smoothing: float = 1.0
    saturated_growth: float = 2.0

    _costs: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        number("target_s", self.target_s, low=0, low_open=True, unit="s")
        number("phi_0", self.phi_0, low=0, low_open=True, unit="bytes/s per core")
        number("smoothing", self.smoothing, low=0, low_open=True, high=1)
        number("release_after_s", self.release_after_s, low=0, unit="s")
        number("saturated_growth", self.saturated_growth, low=1)

    def start(self) -> ElasticutorState:
        """Nothing smoothed yet."""
        return ElasticutorState()

    def decide(
        self, cluster: ClusterLoad, state: ElasticutorState
    ) -> tuple[Plan, ElasticutorState]:
        """Counts that meet the target with the fewest cores, placed with little state moved."""
        view = View.of(cluster)
        smooth = self._smooth(view, state)
        found = self._allocate(view, smooth)
        wanted = np.ones(len(cluster.partitions), dtype=np.int64)
        for rows, _, each in found:
            wanted[rows] = each.cores
        targets, surplus = self._hold_back(view, wanted, state)
        placer = Placer(phi_0=self.phi_0, costs=self._costs, release=self.release_surplus)
        plan = placer.plan(
            view,
            targets,
            shortfalls=tuple(
                short
                for rows, _, each in found
                for short in shortfalls_of(
                    each,
                    int(view.node_cores.sum()),
                    self.target_s,
                    [cluster.partitions[j].partition for j in rows.tolist()],
                )
            ),
            notes=(
                (
                    "predicted_latency_mean",
                    mean_latency([(entering, each.sojourn_s) for _, entering, each in found]),
                ),
            ),
        )
        after = ElasticutorState(
            offered={
                part.partition: rate
                if cluster.counts(part)
                else state.offered.get(part.partition, rate)
                for part, rate in zip(cluster.partitions, smooth.tolist(), strict=True)
            },
            surplus=surplus,
        )
        return plan, after

    def _smooth(self, view: View, state: ElasticutorState) -> FloatArray:
        before = np.array(
            [state.offered.get(p.partition, p.offered_rate) for p in view.cluster.partitions],
            dtype=np.float64,
        )
        return before + self.smoothing * (view.offered - before)

    def _allocate(
        self, view: View, offered: FloatArray
    ) -> list[tuple[IntArray, float, Allocation]]:
        """Of each query: its partitions, the rows/s that enter it, what it gets."""
        cluster = view.cluster
        growth = np.array(hidden_growth(cluster, self.saturated_growth))
        rates = offered * growth
        queries = []
        targets = []
        for query, members in cluster.queries.items():
            rows = np.array(members)
            targets.append(latency_target([cluster.partitions[i] for i in members], self.target_s))
            entering = cluster.external_rate_of(query) * float(growth[rows].max(initial=1.0))
            if entering <= 0:  # nothing enters any more, smoothed rates fade out
                entering = float(rates[rows].sum())
            queries.append((rows, entering))
        found = allocate_shared(
            [
                Network(entering, rates[rows], view.service[rows], target_s, view.limits[rows])
                for (rows, entering), target_s in zip(queries, targets, strict=True)
            ],
            int(view.node_cores.sum()),
        )
        return [(*query, each) for query, each in zip(queries, found, strict=True)]

    def _hold_back(
        self, view: View, targets: IntArray, state: ElasticutorState
    ) -> tuple[IntArray, dict[PartitionId, Surplus]]:
        if not self.release_surplus:
            return targets, {}
        cluster = view.cluster
        names = [part.partition for part in cluster.partitions]
        held, surplus = hold_back(
            names,
            targets,
            view.cores,
            state.surplus,
            cluster.time_s,
            [patience_s(part, self.release_after_s) for part in cluster.partitions],
        )
        # Cores that are held back must not starve those who need more.
        if int(held.sum()) > int(view.node_cores.sum()):
            held = targets
        return held, surplus


NO_TARGET_S = 1e9
"""A target that every stable queue meets (s)."""


def latency_target(parts: Sequence[PartitionLoad], target_s: float) -> float:
    """The target of a query's rows (s): none in micro-batch, where they wait for their batch."""
    return NO_TARGET_S if any(part.batch is not None for part in parts) else target_s


def mean_latency(queries: Sequence[tuple[float, float]]) -> float:
    """Over all rows, from each query's rows/s and mean latency (s)."""
    if len(queries) == 1:
        return queries[0][1]
    entering = sum(rate for rate, _ in queries)
    return sum(rate * mean for rate, mean in queries if rate > 0) / entering if entering else 0.0


def shortfalls_of(
    found: Allocation, available: int, target_s: float, names: Sequence[str]
) -> tuple[Shortfall, ...]:
    """What an allocation did not reach, in words; ``names`` of what got cores, (m,)."""
    outcomes = [] if found.outcome is Outcome.MET else [found.outcome]
    if found.limited.any() and found.outcome is not Outcome.CORE_LIMIT:
        outcomes.append(Outcome.CORE_LIMIT)
    shortfalls = []
    for outcome in outcomes:
        reason, message = _WORDS[outcome]
        limited = ", ".join(names[j] for j in np.flatnonzero(found.limited).tolist())
        text = message.format(
            target=target_s,
            wanted=found.wanted_cores,
            available=available,
            latency=found.sojourn_s,
            least=found.least_s,
            names=limited,
        )
        wanted = None if outcome is Outcome.CORE_LIMIT else found.wanted_cores
        kind = f"{outcome.name} {limited if wanted is None else ''}"
        shortfalls.append(Shortfall(reason, wanted, available, text, kind))
    return tuple(shortfalls)


_WORDS = {
    Outcome.BUDGET: (
        Reason.BUDGET,
        "latency {latency:.4g} s instead of {target:g} s: {wanted} cores wanted, {available}"
        " available; add nodes or raise target_s",
    ),
    Outcome.UNREACHABLE: (
        Reason.UNREACHABLE_TARGET,
        "target_s {target:g} s is not above the {least:.4g} s that a row's processing alone takes:"
        " no number of cores reaches it; raise it or make rows cheaper",
    ),
    Outcome.OVERLOAD: (
        Reason.OVERLOAD,
        "{wanted} cores are needed just to keep up, {available} available: cores were shared in"
        " proportion to demand; add nodes or throttle the sources",
    ),
    Outcome.CORE_LIMIT: (
        Reason.CORE_LIMIT,
        "target_s {target:g} s cannot be met by {names}, which can use no more cores; raise"
        " max_cores or split the hottest key",
    ),
}
