"""What the policies share that steer by the occupancy of bounded buffers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from laneshift.contract.partition_load import PartitionLoad
from laneshift.errors import InputError
from laneshift.inputcheck import choice, number
from laneshift.models.buffer import ROUNDINGS, rate_change, unit_change


def buffer_capacity(part: PartitionLoad) -> float:
    """Capacity of a partition's buffer (rows); raises `InputError` if it is unknown."""
    if part.queue_capacity_rows is None:
        raise InputError(
            f"queue_capacity_rows of partition {part.partition}",
            None,
            "a number > 0 rows",
            "This policy steers by buffer occupancy: record the capacity, or choose another one.",
        )
    return part.queue_capacity_rows


def check_band(low: float, target: float, high: float) -> None:
    """Raise `InputError` unless 0 <= low < target <= high <= 1: beyond a full buffer rows go."""
    number("occ_low", low, low=0, high=1)
    number("occ_high", high, low=low, low_open=True, high=1)
    number("occ_target", target, low=low, high=high, low_open=True)


class HasBand(Protocol):
    """A policy with the parameters of the local rule."""

    @property
    def occ_high(self) -> float: ...
    @property
    def occ_low(self) -> float: ...
    @property
    def occ_target(self) -> float: ...
    @property
    def rounding(self) -> str: ...
    @property
    def settle_guard(self) -> bool: ...


@dataclass(frozen=True, kw_only=True)
class Band:
    """The local rule of CRAA and its baselines: triggers, (10), (11), clamps.

    Attributes as in `laneshift.policies.craa.Craa`.
    """

    occ_high: float
    occ_low: float
    occ_target: float
    rounding: str
    settle_guard: bool
    literal_use_test: bool = False

    @classmethod
    def of(cls, policy: HasBand) -> Band:
        """The rule with a policy's parameters. Errors: InputError, as the constructor."""
        return cls(
            occ_high=policy.occ_high,
            occ_low=policy.occ_low,
            occ_target=policy.occ_target,
            rounding=policy.rounding,
            settle_guard=policy.settle_guard,
        )

    def __post_init__(self) -> None:
        check_band(self.occ_low, self.occ_target, self.occ_high)
        choice("rounding", self.rounding, ROUNDINGS)

    def trigger(self, part: PartitionLoad, raw: float, rate_ahead: float) -> int:
        """+1 to scale out, -1 to scale in, 0 for neither.

        Scale-in needs that a whole unit is superfluous: I / (e*P) < alpha = (PN - 1) / PN [R];
        ``literal_use_test`` takes the printed I / (alpha*P) < alpha.
        """
        occupancy = raw / buffer_capacity(part)
        if occupancy >= self.occ_high:
            return 1
        cores = max(1, part.cores)
        alpha = (cores - 1) / cores
        bound = alpha * alpha if self.literal_use_test else alpha
        use = rate_ahead / (part.service_rate_per_core * cores)
        return -1 if occupancy < self.occ_low and use < bound else 0

    def change(self, part: PartitionLoad, raw: float, rate_ahead: float, window_s: float) -> int:
        """CPN in whole units, 0 if nothing triggers or the rule contradicts the trigger.

        The settle guard never plans below the load ahead, CP = max(CP, I - P) [R].
        """
        direction = self.trigger(part, raw, rate_ahead)
        if direction == 0:
            return 0
        cores = max(1, part.cores)
        wanted = rate_change(raw, buffer_capacity(part), self.occ_target, window_s)
        if self.settle_guard:
            wanted = max(wanted, rate_ahead - part.service_rate_per_core * cores)
        units = unit_change(wanted, part.service_rate_per_core, self.rounding)
        units = max(units, 1 - cores)
        if part.max_cores is not None:
            units = min(units, max(0, part.max_cores - cores)) if units > 0 else units
        return units if units * direction > 0 else 0
