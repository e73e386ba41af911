"""Policy ``craa``: burst-aware allocation in which neighbours cooperate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.ids import PartitionId
from laneshift.contract.plan import Plan
from laneshift.contract.policy import BufferPolicy
from laneshift.inputcheck import choice, number
from laneshift.models.kalman import RateFilter
from laneshift.policies.cooperation import Cooperation
from laneshift.policies.kalman import FORECASTS
from laneshift.policies.occupancy import Band
from laneshift.policies.placing import Placer
from laneshift.policies.view import View


@dataclass(frozen=True)
class CraaState:
    """Memory of the policy.

    Attributes:
        level: queue length per partition at the end of the last window, BO(n-1) (rows).
        filters: one filter per head partition.
    """

    level: Mapping[PartitionId, float] = field(default_factory=dict)
    filters: Mapping[PartitionId, RateFilter] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Craa(BufferPolicy[CraaState]):
    """CRAA, 2018: feedback upstream, feed-forward downstream, a forecast at the head.

    Once per window, partitions in topological order. Four zones of the occupancy forecast for the
    next window: at or above occ_high scale out; between occ_target and occ_high ask upstreams
    to slow down for a window (FAA); below occ_low scale in if a whole unit is superfluous; else
    nothing. Non-heads know their next input from the upstreams' announced rates (feed-forward) and
    cancel an adjustment that the window after next would undo. Needs ``queue_capacity_rows`` and an
    acyclic graph; assumes one window from an upstream's output to the input, as the paper does.

    Attributes:
        occ_high: beta, 0.8 [P].
        occ_low: gamma, 0.2 [P].
        occ_target: delta, lower edge of the feedback zone and target of sizing, 0.7 [A: stated for
            the feedback test only].
        occ_ceiling: tau, occupancy up to which an upstream may fill when it throttles, 0.8 [P].
        timing: "edge" decides at the end of window n for n+1; "lead" decides a window earlier,
            which hides a reaction delay of up to a window and needs one more forecast step. The
            paper leaves it open [A].
        forecast: filter of head partitions, "level", "slope" or "none"; no model is given [A].
        filters: filters per head that replace ``forecast``, e.g. an oracle in experiments.
        feedback: whether FAA runs.
        feedback_amount: "limit" cuts each chosen upstream to its limit, as printed; "needed" lets
            the last one give only what is missing.
        trend_tolerance: eps: rates within this share count as flat, 0 [R]; 0.02 stops phantom
            trends that a filtered head causes at its downstream.
        rounding: "truncate" toward zero on scale-in [R], "floor" as printed: up to 2.9 times the
            loss in our simulation.
        settle_guard: never plan below the predicted input [R]; off for the paper's feedback test:
            with it buffers stay near empty and the feedback zone is rarely entered.
        literal_use_test: printed scale-in test I / (alpha*P) < alpha instead of I / P < alpha [R].
    """

    name: ClassVar[str] = "craa"
    summary: ClassVar[str] = "buffer thresholds, cooperating neighbours, forecast at the head"
    source: ClassVar[str] = "CRAA, 2018"

    occ_high: float = 0.8
    occ_low: float = 0.2
    occ_target: float = 0.7
    occ_ceiling: float = 0.8
    timing: str = "edge"
    forecast: str = "level"
    filters: Mapping[PartitionId, RateFilter] | None = None
    feedback: bool = True
    feedback_amount: str = "limit"
    trend_tolerance: float = 0.0
    rounding: str = "truncate"
    settle_guard: bool = True
    literal_use_test: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._band()
        number("occ_ceiling", self.occ_ceiling, low=0, low_open=True, high=1)
        number("trend_tolerance", self.trend_tolerance, low=0, high=1)
        choice("timing", self.timing, ("edge", "lead"))
        choice("forecast", self.forecast, FORECASTS)
        choice("feedback_amount", self.feedback_amount, ("limit", "needed"))

    def start(self) -> CraaState:
        """Buffers empty, filters as given."""
        return CraaState(filters=dict(self.filters or {}))

    def decide(self, cluster: ClusterLoad, state: CraaState) -> tuple[Plan, CraaState]:
        """Counts and throttles for the next window."""
        known = {
            head: state.filters.get(head, FORECASTS[self.forecast]()) for head in cluster.heads
        }
        filters = {
            head: before
            if cluster.partition(head).repeated and head in state.filters
            else before.observe(cluster.partition(head).offered_rate)
            for head, before in known.items()
        }
        work = Cooperation.begin(cluster, state.level, filters, lead=self.timing == "lead")
        found = work.run(
            self._band(),
            feedback=self.feedback,
            occ_ceiling=self.occ_ceiling,
            exact_amount=self.feedback_amount == "needed",
            trend_tolerance=self.trend_tolerance,
        )
        plan = Placer().plan(
            View.of(cluster),
            np.array(found.cores, dtype=np.int64),
            throttles=work.throttles(found),
            notes=(
                ("cancelled_adjustments", float(found.cancelled)),
                ("feedback_requests", float(found.requests)),
            ),
        )
        levels = {part.partition: part.queue_rows for part in cluster.partitions}
        if not cluster.whole:
            filters = {head: known[head] for head in known.keys() & state.filters.keys()}
        return plan, CraaState(levels, filters)

    def _band(self) -> Band:
        return replace(Band.of(self), literal_use_test=self.literal_use_test)
