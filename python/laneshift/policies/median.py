"""Policy ``median``: OERA's optimum of every window, its median fixed for the next interval."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import ClassVar

import numpy as np

from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.ids import PartitionId
from laneshift.contract.partition_load import PartitionLoad
from laneshift.contract.plan import Plan
from laneshift.inputcheck import whole
from laneshift.policies.occupancy import buffer_capacity
from laneshift.policies.oera import OeraRule, OeraState
from laneshift.policies.placing import Placer
from laneshift.policies.view import View


@dataclass(frozen=True)
class MedianState(OeraState):
    """The levels, and the counts of equation (2) since the interval began."""

    optimal: Mapping[PartitionId, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Median(OeraRule):
    """Baseline M of OERA, 2023: counts change once per interval, to the median optimum.

    The optimum is recorded in every window, whether or not the occupancy left its band; the median
    of an even number of counts is the mean of the two middle ones, rounded up; the first
    interval keeps the deployed counts [A]. In a running query a full buffer ends the interval at
    once, with the newest optimum [D]: the paper's buffers lose what does not fit, Spark's do not.

    Attributes:
        interval: windows per interval (count, >= 1), 10 [P].
    """

    __doc__ = (__doc__ or "") + (OeraRule.__doc__ or "").partition("Attributes:\n")[2]

    name: ClassVar[str] = "median"
    summary: ClassVar[str] = "the median of OERA's optimum, fixed for the next interval"
    source: ClassVar[str] = "OERA, 2023: its baseline M"

    interval: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("interval", self.interval, low=1, high=10_000, unit="windows")

    def start(self) -> MedianState:
        """All buffers empty, nothing recorded."""
        return MedianState()

    def decide(self, cluster: ClusterLoad, state: OeraState) -> tuple[Plan, MedianState]:
        """The empty plan, except at the end of an interval."""
        recorded = state.optimal if isinstance(state, MedianState) else {}
        levels: dict[PartitionId, float] = {}
        optimal: dict[PartitionId, tuple[int, ...]] = {}
        targets = []
        for part in cluster.partitions:
            before, _, stored = self._levels(cluster, part, state.level)
            levels[part.partition] = stored
            known = recorded.get(part.partition, ())
            found = (*known, self._size(cluster, part, before, stored))
            count = max(1, part.cores)
            if len(found) >= self.interval and cluster.counts(part):
                count, found = math.ceil(median(found)), ()
            elif _overflows(part) and found[-1] > count:
                count, found = found[-1], ()
            elif not cluster.counts(part):
                found = known
            optimal[part.partition] = found
            targets.append(count)
        plan = Placer().plan(View.of(cluster), np.array(targets, dtype=np.int64))
        return plan, MedianState(levels, optimal)


def _overflows(part: PartitionLoad) -> bool:
    """Whether a buffer is full that loses no rows, as a running query's."""
    return part.saturated or (part.rows_lost == 0 and part.queue_rows >= buffer_capacity(part))
