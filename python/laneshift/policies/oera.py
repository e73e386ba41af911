"""Policy ``oera``: each partition alone keeps its buffer between two occupancies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.ids import PartitionId
from laneshift.contract.partition_load import PartitionLoad
from laneshift.contract.plan import Plan
from laneshift.contract.policy import BufferPolicy
from laneshift.inputcheck import choice
from laneshift.models.buffer import raw_level, units_for_target, units_to_keep_up
from laneshift.policies.occupancy import buffer_capacity, check_band
from laneshift.policies.placing import Placer
from laneshift.policies.view import View


@dataclass(frozen=True)
class OeraState:
    """Estimated buffer level per partition at the end of the last window (rows)."""

    level: Mapping[PartitionId, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class OeraRule(BufferPolicy[OeraState]):
    """What `oera` and `median` share: the estimate of the level and equation (2).

    Attributes:
        occ_high: scale out above it (alpha, 0.8 [P]).
        occ_low: scale in below it (beta, 0.2 [P]).
        occ_target: level that sizing aims at (upsilon, 0.7 [P]).
        residue: "fresh" sizes with the level at the end of this window [R], "stale" with that of
            the window before, as printed: an undamped cycle of 6 windows.
        settle_guard: never shrink below what keeps up with the load [R]; off as printed: cycles
            under constant load whenever occ_target * capacity / (P_E*dt) >= the load's fraction.
        rounding: "ceil" [R], "floor" doubles the loss.
        level: R(n-1) in equation (1): "estimated" integrates rates as in the paper [P], "measured"
            takes the queue's real length, so that errors do not add up [R].
        clip: keep the stored estimate within the buffer [R]; off winds up.
    """

    occ_high: float = 0.8
    occ_low: float = 0.2
    occ_target: float = 0.7
    residue: str = "fresh"
    settle_guard: bool = True
    rounding: str = "ceil"
    level: str = "estimated"
    clip: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_band(self.occ_low, self.occ_target, self.occ_high)
        choice("residue", self.residue, ("fresh", "stale"))
        choice("rounding", self.rounding, ("ceil", "floor"))
        choice("level", self.level, ("estimated", "measured"))

    def _levels(
        self, cluster: ClusterLoad, part: PartitionLoad, before: Mapping[PartitionId, float]
    ) -> tuple[float, float, float]:
        """(level before, raw level now, level to store), rows."""
        capacity = buffer_capacity(part)
        start = before.get(part.partition, 0.0)
        rate = part.service_rate_per_core * part.cores
        raw = raw_level(start, part.offered_rate, rate, cluster.window_s)
        if part.saturated:
            raw = max(raw, capacity)  # back-pressure: it is full, whatever the rates add up to
        if self.level == "measured":
            return start, raw, part.queue_rows
        return start, raw, min(max(raw, 0.0), capacity) if self.clip else raw

    def _size(self, cluster: ClusterLoad, part: PartitionLoad, before: float, stored: float) -> int:
        """Equation (2) with the chosen residue, guard and limit."""
        unit = part.service_rate_per_core
        count = units_for_target(
            part.offered_rate,
            stored if self.residue == "fresh" else before,
            buffer_capacity(part),
            self.occ_target,
            unit,
            cluster.window_s,
            self.rounding,
        )
        if self.settle_guard and count < part.cores:
            count = max(count, min(part.cores, units_to_keep_up(part.offered_rate, unit)))
        return count if part.max_cores is None else min(count, part.max_cores)

    def start(self) -> OeraState:
        """All buffers empty."""
        return OeraState()


@dataclass(frozen=True, kw_only=True)
class Oera(OeraRule):
    """OERA, 2023: outside the band, one step to the count that would have ended at the target.

    The direction is not enforced [P]: a rise in a nearly empty buffer may yield more units.
    Needs ``queue_capacity_rows``. Parameters: see `OeraRule`.
    """

    __doc__ = (__doc__ or "") + "\n" + (OeraRule.__doc__ or "").partition("\n\n")[2]

    name: ClassVar[str] = "oera"
    summary: ClassVar[str] = "each partition alone keeps its buffer occupancy in a band"
    source: ClassVar[str] = "OERA, 2023"

    def decide(self, cluster: ClusterLoad, state: OeraState) -> tuple[Plan, OeraState]:
        """Counts for the next window."""
        targets, levels = [], {}
        for part in cluster.partitions:
            before, raw, stored = self._levels(cluster, part, state.level)
            levels[part.partition] = stored
            occupancy = raw / buffer_capacity(part)
            count = max(1, part.cores)
            if occupancy > self.occ_high or occupancy < self.occ_low:
                count = self._size(cluster, part, before, stored)
            targets.append(count)
        plan = Placer().plan(View.of(cluster), np.array(targets, dtype=np.int64))
        return plan, OeraState(levels)
