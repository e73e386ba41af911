"""Another number of state partitions, where that pays: what a policy may add to its plans."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeVar

from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.plan import PartitionsChange, Plan
from laneshift.contract.store_load import StoreLoad
from laneshift.errors import InputError
from laneshift.inputcheck import number, whole
from laneshift.models.stores import GAIN, payback_s
from laneshift.policies.tasking import TaskingPolicy

S = TypeVar("S")

RESCALING = (
    "rescale",
    "min_partitions",
    "max_partitions",
    "rescale_payback_s",
    "max_store_bytes",
)
"""What a `RescalingPolicy` has beyond others."""

MOST_PARTITIONS = 1 << 15
"""Bound of ``max_partitions`` (ours)."""

SETTLED = 3
"""So many batches with the number that there is, before another one is thought of (ours)."""

ROOM = 0.7
"""Of ``max_store_bytes``, so much the largest partition may have after a rescale (ours)."""


@dataclass(frozen=True, kw_only=True)
class RescalingPolicy(TaskingPolicy[S]):
    """A policy that may change the number of state partitions of queries in micro-batches.

    Attributes:
        rescale: whether it does. Off by default: all state is written again.
        min_partitions, max_partitions: bounds of the number (>= 1); none: no upper one.
        rescale_payback_s: a rescale is to earn what it costs within so long (s, > 0), and there is
            no other one of the query sooner.
        max_store_bytes: no partition is to have more state (bytes, > 0), whatever that costs: one
            that moves or restarts is to be read. Or none.
    """

    rescale: bool = False
    min_partitions: int = 1
    max_partitions: int | None = None
    rescale_payback_s: float = 600.0
    max_store_bytes: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        unit = "state partitions"
        whole("min_partitions", self.min_partitions, low=1, high=MOST_PARTITIONS, unit=unit)
        if self.max_partitions is not None:
            whole("max_partitions", self.max_partitions, low=1, high=MOST_PARTITIONS, unit=unit)
            if self.max_partitions < self.min_partitions:
                raise InputError(
                    "max_partitions",
                    self.max_partitions,
                    f"at least min_partitions, {self.min_partitions}",
                    "Raise it, or lower min_partitions.",
                )
        number("rescale_payback_s", self.rescale_payback_s, low=0, low_open=True, unit="s")
        if self.max_store_bytes is not None:
            number("max_store_bytes", self.max_store_bytes, low=0, low_open=True, unit="bytes")

    def answer(self, cluster: ClusterLoad, state: S) -> tuple[Plan, S]:
        """As `TaskingPolicy.answer`, with rescales where they pay."""
        plan, after = super().answer(cluster, state)
        if not self.rescale:
            return plan, after
        found = map(self.rescaled, cluster.stores)
        rescales = tuple(change for change in found if change is not None)
        return replace(plan, rescales=rescales) if rescales else plan, after

    def rescaled(self, load: StoreLoad, fewest: int = 1) -> PartitionsChange | None:
        """The change that pays, if there is one; ``fewest`` is a bound where it is within ours."""
        if load.under_way or load.batches < SETTLED:
            return None
        if load.since_s is not None and load.since_s < self.rescale_payback_s:
            return None
        now, most = load.partitions, self.max_partitions
        least = max(self.min_partitions, fewest)
        small = self._small_enough(load)
        if self.max_store_bytes is not None and load.largest_bytes > self.max_store_bytes:
            if small is None or small <= now or (most is not None and small > most):
                return None
            # The size is what was asked for: what it costs does not matter, how many more does.
            after = max(small, load.cost.best(max(least, small), most))
            return _change(load, after, _too_large(load, self.max_store_bytes, after))
        after = load.cost.best(max(least, min(now if small is None else small, now)), most)
        saved_s = load.took_s - load.cost.batch_s(after)
        if after == now or saved_s < GAIN * load.took_s:
            return None
        price_s = load.rebuild.cost_s(load.cost, load.state_bytes, after)
        earned_s = payback_s(price_s, saved_s, load.period_s)
        if earned_s > self.rescale_payback_s:
            return None
        return _change(load, after, _pays(load, after, price_s, earned_s))

    def _small_enough(self, load: StoreLoad) -> int | None:
        """The fewest partitions of which none has too much state; None: no number does."""
        if self.max_store_bytes is None:
            return 1
        room = ROOM * self.max_store_bytes - load.beyond_bytes
        if room <= 0.0 or load.state_bytes > room * MOST_PARTITIONS:
            return None
        return max(1, math.ceil(load.state_bytes / room))


def _change(load: StoreLoad, after: int, reason: str) -> PartitionsChange | None:
    if after == load.partitions:
        return None
    return PartitionsChange(load.query, load.partitions, after, reason)


def _pays(load: StoreLoad, after: int, price_s: float, earned_s: float) -> str:
    """In words, why a batch is shorter with ``after`` partitions."""
    commits = load.commit_s / load.slots
    return (
        f"a batch takes {load.took_s:.3g} s, {min(commits, load.took_s):.3g} s of it commits of"
        f" {load.partitions} stores in {load.slots} tasks at a time; with {after},"
        f" {load.cost.batch_s(after):.2g} s are expected; the rescale costs {price_s:.2g} s of"
        f" batches, earned in {max(earned_s, 0.1):.2g} s"
    )


def _too_large(load: StoreLoad, most: float, after: int) -> str:
    return (
        f"the largest has {load.largest_bytes / 1e6:,.0f} MB of state, and {most / 1e6:,.0f} MB are"
        f" the most that one is to have; with {after} it has {load.largest(after) / 1e6:,.0f} MB"
    )
