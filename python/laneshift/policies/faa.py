"""Policy ``faa``: the threshold rule with CRAA's feedback, and nothing else of CRAA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.ids import PartitionId
from laneshift.contract.plan import Plan
from laneshift.contract.policy import BufferPolicy
from laneshift.inputcheck import choice, number
from laneshift.models.forecast import LastRate
from laneshift.policies.cooperation import Cooperation
from laneshift.policies.occupancy import Band
from laneshift.policies.placing import Placer
from laneshift.policies.threshold import ThresholdState
from laneshift.policies.view import View


@dataclass(frozen=True, kw_only=True)
class Faa(BufferPolicy[ThresholdState]):
    """Feedback alone: what Algorithm 1 of CRAA is worth without forecast and trend check [D].

    The next window's input is taken to be the last one's, at heads and elsewhere. Triggers and
    sizing are CRAA's; a partition whose occupancy lies between occ_target and occ_high asks its
    upstreams to slow down for a window. The paper never runs FAA by itself.
    Needs ``queue_capacity_rows`` and an acyclic graph.

    Attributes:
        occ_high: beta, 0.8 [P].
        occ_low: gamma, 0.2 [P].
        occ_target: delta, 0.7 [P for the feedback test].
        occ_ceiling: tau, occupancy up to which an upstream may fill when it throttles, 0.8 [P].
        feedback_amount: "limit" as printed, "needed" gives no more than what is missing.
        rounding: "truncate" [R] or "floor" as printed.
        settle_guard: never plan below the last input [R]; with it the feedback zone is rarely
            entered, so switch it off to study feedback.
    """

    name: ClassVar[str] = "faa"
    summary: ClassVar[str] = "buffer thresholds with feedback to upstreams, no forecast"
    source: ClassVar[str] = "CRAA, 2018: Algorithm 1 alone"

    occ_high: float = 0.8
    occ_low: float = 0.2
    occ_target: float = 0.7
    occ_ceiling: float = 0.8
    feedback_amount: str = "limit"
    rounding: str = "truncate"
    settle_guard: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        Band.of(self)
        number("occ_ceiling", self.occ_ceiling, low=0, low_open=True, high=1)
        choice("feedback_amount", self.feedback_amount, ("limit", "needed"))

    def start(self) -> ThresholdState:
        """All buffers empty."""
        return ThresholdState()

    def decide(self, cluster: ClusterLoad, state: ThresholdState) -> tuple[Plan, ThresholdState]:
        """Counts and throttles for the next window."""
        parts = cluster.partitions
        last: dict[PartitionId, LastRate] = {p.partition: LastRate(p.offered_rate) for p in parts}
        work = Cooperation.begin(cluster, state.level, last, lead=False)
        work.ahead = [part.offered_rate for part in parts]
        found = work.run(
            Band.of(self),
            feedback=True,
            occ_ceiling=self.occ_ceiling,
            exact_amount=self.feedback_amount == "needed",
            trend_tolerance=None,
        )
        plan = Placer().plan(
            View.of(cluster),
            np.array(found.cores, dtype=np.int64),
            throttles=work.throttles(found),
            notes=(("feedback_requests", float(found.requests)),),
        )
        return plan, ThresholdState({p.partition: p.queue_rows for p in parts})
