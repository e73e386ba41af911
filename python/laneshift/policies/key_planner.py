"""What planners of key distribution have in common as policies.

They decide where keys go, not how many lanes there are: on which lane a partition's shards are, and
which keys' work is apart from their state (`laneshift.policies.key_plan`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.ids import KeyId, PartitionId
from laneshift.contract.partition_load import PartitionLoad
from laneshift.contract.plan import (
    ALL_KEYS,
    CoreChange,
    KeySplit,
    PlacementChange,
    Plan,
    Reason,
    Shortfall,
)
from laneshift.contract.policy import Policy
from laneshift.errors import InputError
from laneshift.inputcheck import number
from laneshift.partitioning.model import Partitioner
from laneshift.policies.key_plan import Found, Held, by_keys, by_scheme, by_shards
from laneshift.policies.registry import policy, policy_class

TOLERANCE = 0.2
"""Default of ``tolerance``: loads are measured, so chance alone exceeds the paper's 0.05 (ours)."""

COLD = 3
"""Work comes back after so many decisions without a key that is too hot (ours)."""


@dataclass(frozen=True)
class PlannerState:
    """Memory of a planner.

    Attributes:
        apart: by partition, keys whose work is to be apart, and over how many lanes.
        cold: by partition, decisions in a row in which none of them was too hot.
        sizing: state of the policy that says how many lanes there are.
    """

    apart: Mapping[PartitionId, Mapping[KeyId, int]] = field(default_factory=dict)
    cold: Mapping[PartitionId, int] = field(default_factory=dict)
    sizing: Any = None


@dataclass(frozen=True, kw_only=True)
class KeyPlanner(Policy[PlannerState]):
    """A partitioner over the shards and lanes of each partition.

    Attributes:
        tolerance: a lane may have this share more than the mean before anything moves, and
            afterwards (>= 0).
        sizing: a policy by name that says how many lanes there are, with its defaults, or none:
            lanes are as they are, and those that are laneshift's own (``lanes=auto``) stay so.
    """

    distributes: ClassVar[bool] = True

    tolerance: float = TOLERANCE
    sizing: str | None = None

    def __post_init__(self) -> None:
        number("tolerance", self.tolerance, "0.2 allows 20 % above the mean.", low=0)
        if self.sizing is not None and policy_class(self.sizing).distributes:
            raise InputError(
                "sizing", self.sizing, "a policy that says how many lanes there are, or none",
                "A planner decides where keys go. Try laneshift or elasticutor.",
            )  # fmt: skip
        _ = self.partitioner  # its parameters are checked here

    @property
    @abstractmethod
    def partitioner(self) -> Partitioner:
        """The algorithm, with its parameters."""

    @property
    def sizes(self) -> bool:
        """Only if there is a policy for it."""
        return self.sizing is not None

    def see(self, cluster: ClusterLoad) -> ClusterLoad:
        """As measured: the policy that sizes has its own view."""
        return cluster

    def start(self) -> PlannerState:
        """Nothing is apart."""
        return PlannerState()

    def decide(self, cluster: ClusterLoad, state: PlannerState) -> tuple[Plan, PlannerState]:
        """Shards to move, keys to split and merge, and lanes for work that is apart."""
        sized, sizing = self._sized(cluster, state)
        changing = {change.partition for change in sized.core_changes}
        found = {
            part.partition: seen
            for part in cluster.partitions
            if part.partition not in changing and (seen := self._look(part)) is not None
        }
        splits, apart, cold = _settled(cluster, found, state)
        lanes, short = ([], []) if self.sizes else _lanes_above(cluster, apart)
        short = [each for seen in found.values() for each in seen.shortfalls] + short
        plan = Plan(
            core_changes=sized.core_changes
            + tuple(CoreChange(p.partition, p.cores, after) for p, after in lanes),
            placement_changes=sized.placement_changes
            + tuple(_at_home(part, after) for part, after in lanes),
            shard_moves=tuple(move for seen in found.values() for move in seen.moves),
            key_splits=splits,
            throttles=sized.throttles,
            shortfalls=sized.shortfalls + tuple(dict.fromkeys(short)),
            notes=sized.notes,
            reasons=sized.reasons
            + tuple((name, seen.words) for name, seen in found.items() if seen.words)
            + tuple((p.partition, "work of hot keys is apart") for p, _ in lanes),
        )
        return plan, PlannerState(apart, cold, sizing)

    def _sized(self, cluster: ClusterLoad, state: PlannerState) -> tuple[Plan, Any]:
        if self.sizing is None:
            return Plan(), None
        sizing = policy(self.sizing)
        return sizing.answer(cluster, sizing.start() if state.sizing is None else state.sizing)

    def _look(self, part: PartitionLoad) -> Found | None:
        """What is to be done in one partition, None if that cannot be said."""
        held = Held.of(part, self.tolerance)
        if held is None:
            return None
        return Found() if held.is_even else self._read(held)

    def _read(self, held: Held) -> Found:
        return by_shards(self.partitioner, held, self.tolerance)


@dataclass(frozen=True, kw_only=True)
class ScatterPlanner(KeyPlanner):
    """A partitioner that sends later rows of a key to one of several targets, and moves nothing.

    Attributes:
        tolerance, sizing: as in every planner (docs/policies/planners.md).
    """

    def _read(self, held: Held) -> Found:
        return by_keys(self.partitioner, held, self.tolerance)


@dataclass(frozen=True, kw_only=True)
class JoinPlanner(KeyPlanner):
    """A scheme of joins that knows no keys.

    Attributes:
        tolerance, sizing: as in every planner (docs/policies/planners.md).
    """

    def _look(self, part: PartitionLoad) -> Found | None:
        """Skew makes no difference to it."""
        held = Held.of(part, self.tolerance)
        return None if held is None else by_scheme(self.partitioner, held, self.tolerance)


def _settled(
    cluster: ClusterLoad, found: Mapping[PartitionId, Found], state: PlannerState
) -> tuple[tuple[KeySplit, ...], dict[PartitionId, Mapping[KeyId, int]], dict[PartitionId, int]]:
    """Splits and merges, and what is apart then: work comes back once no key is hot for a while."""
    splits: list[KeySplit] = []
    apart: dict[PartitionId, Mapping[KeyId, int]] = {}
    cold: dict[PartitionId, int] = {}
    for part in cluster.partitions:
        name = part.partition
        before, seen = state.apart.get(name, {}), found.get(name)
        now = dict(before)
        if seen is not None and seen.ways:
            now |= {key: max(ways, before.get(key, 1)) for key, ways in seen.ways.items()}
        elif seen is not None and before:
            cold[name] = state.cold.get(name, 0) + 1
            now = {} if cold[name] >= COLD else now
        elif before:
            cold[name] = state.cold.get(name, 0)
        splits += [KeySplit(name, key, now.get(key, 1)) for key in now | dict(before)
                   if now.get(key) != before.get(key)]  # fmt: skip
        if now:
            apart[name] = now
        else:
            cold.pop(name, None)
    return tuple(splits), apart, cold


def _lanes_above(
    cluster: ClusterLoad, apart: Mapping[PartitionId, Mapping[KeyId, int]]
) -> tuple[list[tuple[PartitionLoad, int]], list[Shortfall]]:
    """Lanes for work that is apart: as many as its state has, for all keys are in it, or as many as
    a scheme says for all keys, as far as cores are free.
    """
    held = {part.partition: part.cores for part in cluster.partitions}
    free = {node.node: node.cores for node in cluster.nodes}
    for part in cluster.partitions:
        for cell in part.placement:
            free[cell.node] -= cell.cores
    lanes, short = [], []
    for part in cluster.partitions:
        ways = apart.get(part.works_above, {}) if part.works_above is not None else {}
        if part.works_above is None or not ways:
            continue
        most = 2**31 if part.max_cores is None else part.max_cores
        wanted = min(ways.get(ALL_KEYS, max(part.cores, held.get(part.works_above, 1))), most)
        after = min(wanted, part.cores + max(0, free[part.home]))
        if after != part.cores:
            lanes.append((part, after))
            free[part.home] -= after - part.cores
        if wanted > after:
            short.append(
                Shortfall(
                    Reason.BUDGET, wanted, after,
                    f"work of {part.works_above} is to go over {wanted} lanes, and no core is free"
                    " for some of them: raise cores, or give its state fewer lanes",
                    f"work of {part.works_above}",
                )
            )  # fmt: skip
    return lanes, short


def _at_home(part: PartitionLoad, after: int) -> PlacementChange:
    there = part.cores - part.cores_on(part.home)
    return PlacementChange(part.partition, part.home, part.cores_on(part.home), after - there)
