"""Policy ``threshold``: CRAA's baseline TA, each partition alone on measured values."""

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
from laneshift.policies.occupancy import Band
from laneshift.policies.placing import Placer
from laneshift.policies.view import View


@dataclass(frozen=True)
class ThresholdState:
    """Queue length per partition at the end of the last window, BO(n-1) (rows)."""

    level: Mapping[PartitionId, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Threshold(BufferPolicy[ThresholdState]):
    """Baseline TA of CRAA, 2018 [R]: the paper names it without defining it.

    At the end of window n: raw = BO(n-1) + (I(n) - P(n))*dt; outside the band the count is sized
    with (10), (11) and valid from n+1 on. No forecast, no cooperation, no trend check.
    Needs ``queue_capacity_rows``.

    Attributes:
        occ_high: scale out at or above it, beta, 0.8 [P].
        occ_low: scale in below it, if a whole unit is superfluous, gamma, 0.2 [P].
        occ_target: level that sizing aims at, delta, 0.7 [A: stated for one test only].
        sizing: "matched" sizes in one go [R], "unit" changes by one.
        rounding: "truncate" toward zero on scale-in [R], "floor" as printed.
        settle_guard: never plan below the measured input [R]; without it TA keeps adjusting under
            most constant loads.
    """

    name: ClassVar[str] = "threshold"
    summary: ClassVar[str] = "TA: buffer thresholds on measured values, each partition alone"
    source: ClassVar[str] = "CRAA, 2018: its baseline TA"

    occ_high: float = 0.8
    occ_low: float = 0.2
    occ_target: float = 0.7
    sizing: str = "matched"
    rounding: str = "truncate"
    settle_guard: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        Band.of(self)
        choice("sizing", self.sizing, ("matched", "unit"))

    def start(self) -> ThresholdState:
        """All buffers empty."""
        return ThresholdState()

    def decide(self, cluster: ClusterLoad, state: ThresholdState) -> tuple[Plan, ThresholdState]:
        """Counts for the next window."""
        band, targets = Band.of(self), []
        for part in cluster.partitions:
            rate = part.service_rate_per_core * part.cores
            before = state.level.get(part.partition, 0.0)
            raw = raw_level(before, part.offered_rate, rate, cluster.window_s)
            units = band.change(part, raw, part.offered_rate, cluster.window_s)
            if self.sizing == "unit":
                units = int(np.sign(units))
            targets.append(max(1, part.cores) + units)
        plan = Placer().plan(View.of(cluster), np.array(targets, dtype=np.int64))
        return plan, ThresholdState({p.partition: p.queue_rows for p in cluster.partitions})
