"""What a policy answers: a diff against the cluster load. An empty plan changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from laneshift.contract.ids import (
    KeyId,
    LaneRef,
    NodeId,
    PartitionId,
    QueryId,
    ShardId,
    SourceId,
)
from laneshift.errors import InputError
from laneshift.inputcheck import number, whole


@dataclass(frozen=True, slots=True)
class CoreChange:
    """The core count of a partition goes from ``before`` (>= 0) to ``after`` (>= 0)."""

    partition: PartitionId
    before: int
    after: int

    def __post_init__(self) -> None:
        _change(f"partition {self.partition}", self.before, self.after)


@dataclass(frozen=True, slots=True)
class PlacementChange:
    """The cores that a partition holds on one node go from ``before`` to ``after``."""

    partition: PartitionId
    node: NodeId
    before: int
    after: int

    def __post_init__(self) -> None:
        _change(f"partition {self.partition} on node {self.node}", self.before, self.after)


class MoveScope(Enum):
    """What stands still while a shard moves."""

    SHARD = "shard"
    """Only the shard: labelled handoff (Elasticutor, 2019, 3.4)."""

    OPERATOR = "operator"
    """All upstreams of the operator: global synchronisation of the resource-centric paradigm."""


@dataclass(frozen=True, slots=True)
class ShardMove:
    """Shard ``shard`` goes from lane ``source`` to lane ``target``.

    Source and target belong to one partition in executor-centric plans and may belong to two
    partitions of one operator in resource-centric plans. New lanes have the lowest unused ids of
    the partition, node by node in the cluster load's order of nodes
    (:func:`laneshift.policies.lanes.with_lanes`).
    """

    shard: ShardId
    source: LaneRef
    target: LaneRef
    scope: MoveScope = MoveScope.SHARD

    def __post_init__(self) -> None:
        if self.source == self.target:
            raise InputError("target", self.target, "a lane other than the source", "Drop it.")


ALL_KEYS = KeyId("*")
"""In place of a key: every one."""


@dataclass(frozen=True, slots=True)
class KeySplit:
    """Key ``key`` of ``partition`` is processed by ``ways`` lanes (>= 1; 1 merges it back).

    `ALL_KEYS` are all keys of the partition.
    """

    partition: PartitionId
    key: KeyId
    ways: int

    def __post_init__(self) -> None:
        whole(f"ways of key {self.key}", self.ways, low=1, unit="lanes")


@dataclass(frozen=True, slots=True)
class Throttle:
    """Slow down a source or a partition.

    Attributes:
        target: a source (rows that enter) or a partition (rows that it processes).
        rate: highest rate while the throttle lasts (rows/s, >= 0).
        windows: windows that it lasts (>= 1); then it ends by itself.
    """

    target: SourceId | PartitionId
    rate: float
    windows: int = 1

    def __post_init__(self) -> None:
        number(f"rate of throttle {self.target}", self.rate, low=0, unit="rows/s")
        whole(f"windows of throttle {self.target}", self.windows, low=1, unit="windows")


@dataclass(frozen=True, slots=True)
class PartitionsChange:
    """A query is to have ``after`` state partitions (>= 1) instead of ``before``: all of its state
    is written again while it runs. ``reason`` says why in words.

    >>> str(PartitionsChange(QueryId("orders"), 200, 8, "commits take most of a batch"))
    'orders 200 -> 8 state partitions: commits take most of a batch'
    """

    query: QueryId
    before: int
    after: int
    reason: str

    def __post_init__(self) -> None:
        of = f"of query {self.query}"
        whole(f"before {of}", self.before, low=1, unit="state partitions")
        whole(f"after {of}", self.after, low=1, unit="state partitions")
        if self.before == self.after:
            raise InputError(f"after {of}", self.after, "another number than before", "Drop it.")

    @property
    def what(self) -> str:
        """The change without its reason."""
        return f"{self.query} {self.before} -> {self.after} state partitions"

    def __str__(self) -> str:
        return f"{self.what}: {self.reason}"


@dataclass(frozen=True, slots=True)
class TasksChange:
    """A query's state partitions, ``partitions`` of them, are to be computed in ``after`` tasks
    (>= 1) instead of ``before``, from its next batch on. ``reason`` says why in words.
    """

    query: QueryId
    before: int
    after: int
    partitions: int
    reason: str

    def __post_init__(self) -> None:
        of = f"of query {self.query}"
        whole(f"partitions {of}", self.partitions, low=1, unit="state partitions")
        for name in ("before", "after"):
            whole(f"{name} {of}", getattr(self, name), low=1, high=self.partitions, unit="tasks")
        if self.before == self.after:
            raise InputError(f"after {of}", self.after, "another number than before", "Drop it.")

    @property
    def what(self) -> str:
        """The change without its reason."""
        return f"{self.query} {self.before} -> {self.after} tasks"

    def __str__(self) -> str:
        return f"{self.what}: {self.reason}"


class Reason(Enum):
    """Why a plan falls short of what the policy was asked for."""

    OVERLOAD = "overload"
    """The least stable allocation alone needs more cores than there are."""

    BUDGET = "budget"
    """Stable, but the latency target needs more cores than there are."""

    UNREACHABLE_TARGET = "unreachable-target"
    """The target is below the sum of service times: no number of cores reaches it."""

    PLACEMENT = "placement"
    """The counts fit the cluster but no assignment to nodes was found."""

    CORE_LIMIT = "core-limit"
    """A partition needs more cores than its own maximum."""

    HOT_KEY = "hot-key"
    """A key, or a shard of keys, is hotter than a lane may be, and cannot be split."""

    UNFIT = "unfit"
    """The policy cannot decide for such an operator, or for so few lanes."""


@dataclass(frozen=True, slots=True)
class Shortfall:
    """A plan that falls short says so.

    Attributes:
        reason: the kind.
        wanted_cores: cores that would be needed, None if no number would do.
        available_cores: cores that there are.
        message: one sentence with the numbers and the way out.
        kind: two of a kind and reason differ in their numbers only; empty: the message itself.
    """

    reason: Reason
    wanted_cores: int | None
    available_cores: int
    message: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """Changes to make, in this order: placement up, shard moves, placement down, the rest.

    Attributes:
        core_changes: partitions whose core count changes.
        placement_changes: (partition, node) pairs whose count changes; they sum to core_changes.
        shard_moves: moves of shards between lanes; removing a lane without naming the moves leaves
            them to the partition's own planner.
        key_splits: keys to split or merge.
        throttles: sources and partitions to slow down.
        shortfalls: what the plan does not reach, empty if everything is reached.
        notes: (metric name, value) pairs that explain the decision, e.g. the predicted latency.
        reasons: (partition, words) why its cores or shards are where they are, where there is a
            choice.
        rescales: queries that are to have another number of state partitions.
        tasks: queries whose state partitions are to be computed in another number of tasks.
    """

    core_changes: tuple[CoreChange, ...] = ()
    placement_changes: tuple[PlacementChange, ...] = ()
    shard_moves: tuple[ShardMove, ...] = ()
    key_splits: tuple[KeySplit, ...] = ()
    throttles: tuple[Throttle, ...] = ()
    shortfalls: tuple[Shortfall, ...] = ()
    notes: tuple[tuple[str, float], ...] = ()
    reasons: tuple[tuple[PartitionId, str], ...] = ()
    rescales: tuple[PartitionsChange, ...] = ()
    tasks: tuple[TasksChange, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True if nothing changes (shortfalls and notes do not count)."""
        return not (
            self.core_changes
            or self.placement_changes
            or self.shard_moves
            or self.key_splits
            or self.throttles
            or self.rescales
            or self.tasks
        )

    @property
    def feasible(self) -> bool:
        """True if the plan reaches what the policy was asked for."""
        return not self.shortfalls

    def note(self, name: str) -> float | None:
        """The value of the note ``name``, None if the policy did not leave it."""
        return dict(self.notes).get(name)


def _change(of: str, before: int, after: int) -> None:
    whole(f"before of {of}", before, low=0, unit="cores")
    whole(f"after of {of}", after, low=0, unit="cores")
    if before == after:
        raise InputError(f"after of {of}", after, "a value other than before", "Drop no-ops.")
