"""Policy ``kalman``: CRAA's baseline KPA, each partition alone on its own forecast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.ids import PartitionId
from laneshift.contract.plan import Plan
from laneshift.contract.policy import BufferPolicy
from laneshift.inputcheck import choice
from laneshift.models.buffer import raw_level
from laneshift.models.forecast import LastRate
from laneshift.models.kalman import LevelFilter, RateFilter, SlopeFilter
from laneshift.policies.occupancy import Band
from laneshift.policies.placing import Placer
from laneshift.policies.view import View

FORECASTS: dict[str, type[LevelFilter | SlopeFilter | LastRate]] = {
    "level": LevelFilter,
    "slope": SlopeFilter,
    "none": LastRate,
}
"""Filters by name, with the noise that we assume for CRAA [A]."""


@dataclass(frozen=True)
class KalmanState:
    """One filter per partition."""

    filters: Mapping[PartitionId, RateFilter] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Kalman(BufferPolicy[KalmanState]):
    """Baseline KPA of CRAA, 2018 [R]: CRAA's trigger and sizing, own forecast, no more.

    I(n+1) is a Kalman forecast of the partition's own input; there is no feedback and no trend
    check. Needs ``queue_capacity_rows``.

    Attributes:
        occ_high: scale out at or above it, beta, 0.8 [P].
        occ_low: scale in below it, if a whole unit is superfluous, gamma, 0.2 [P].
        occ_target: level that sizing aims at, delta, 0.7 [A].
        forecast: "level", "slope" or "none" (the last rate); the paper gives no model [A].
        rounding: "truncate" toward zero on scale-in [R], "floor" as printed.
        settle_guard: never plan below the forecast [R].
    """

    name: ClassVar[str] = "kalman"
    summary: ClassVar[str] = "KPA: buffer thresholds on a Kalman forecast, each partition alone"
    source: ClassVar[str] = "CRAA, 2018: its baseline KPA"

    occ_high: float = 0.8
    occ_low: float = 0.2
    occ_target: float = 0.7
    forecast: str = "level"
    rounding: str = "truncate"
    settle_guard: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        Band.of(self)
        choice("forecast", self.forecast, FORECASTS)

    def start(self) -> KalmanState:
        """No filter has seen anything."""
        return KalmanState()

    def decide(self, cluster: ClusterLoad, state: KalmanState) -> tuple[Plan, KalmanState]:
        """Counts for the next window."""
        band, targets = Band.of(self), []
        filters: dict[PartitionId, RateFilter] = {}
        for part in cluster.partitions:
            known = state.filters.get(part.partition, FORECASTS[self.forecast]())
            is_seen = part.repeated and part.partition in state.filters
            seen = known if is_seen else known.observe(part.offered_rate)
            if cluster.whole or part.partition in state.filters:
                filters[part.partition] = seen if cluster.whole else known
            ahead = seen.forecast(1)
            rate = part.service_rate_per_core * part.cores
            raw = raw_level(part.queue_rows, ahead, rate, cluster.window_s)
            targets.append(max(1, part.cores) + band.change(part, raw, ahead, cluster.window_s))
        plan = Placer().plan(View.of(cluster), np.array(targets, dtype=np.int64))
        return plan, KalmanState(filters)
