"""Elastic partitions as they are seen in pictures of running queries, and what they are called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from laneshift.plugin.partition import PartitionSnapshot
from laneshift.plugin.snapshot import ExecutorSnapshot, OperatorSnapshot, QuerySnapshot, Snapshot
from laneshift.scheduler.ids import OperatorId, PartitionId

Key = tuple[str, int, int]
"""Run id of the query, operator and partition."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An elastic partition with the names of what it belongs to."""

    query: QuerySnapshot
    operator: OperatorSnapshot
    part: PartitionSnapshot

    @property
    def key(self) -> Key:
        """What tells it from all others, on whatever executor it runs."""
        return (self.query.run_id, self.operator.operator_id, self.part.partition)

    @property
    def name(self) -> PartitionId:
        """How policies and people call it."""
        return PartitionId(f"{self.operator_name}.{self.part.partition}")

    @property
    def operator_name(self) -> OperatorId:
        """How policies call its operator."""
        return OperatorId(f"{query_name(self.query)}:{self.operator.operator_id}")

    def has_run_since(self, was: PartitionSnapshot) -> bool:
        """Whether its task has run since then without the end of a batch."""
        return was.running and self.part.running and was.batch_id == self.part.batch_id

    def has_moved_since(self, was: PartitionSnapshot) -> bool:
        """Whether it runs on another executor than then, or has started anew."""
        return was.executor != self.part.executor or was.rows_in > self.part.rows_in


@dataclass(frozen=True, slots=True)
class Look:
    """A partition as it was at ``time_ms`` (ms since 1970, the driver's clock)."""

    part: PartitionSnapshot
    time_ms: int


@dataclass(frozen=True, slots=True)
class Window:
    """From one look at a partition, ``was`` at ``since_ms``, to another."""

    was: PartitionSnapshot
    since_ms: int
    now_ms: int

    @property
    def seconds(self) -> float:
        """Its length (s)."""
        return (self.now_ms - self.since_ms) / 1000


def seen_partitions(live: Snapshot) -> list[Seen]:
    """Those of all active queries, each under a name of its own.

    Spark has one query of a name in a session, and there may be many sessions: where several are
    called the same, the beginning of its run id tells one from the other.
    """
    active = [query for query in live.queries if query.active]
    named = Counter(query.name for query in active)
    own = [
        replace(query, name=f"{query.name}-{query.run_id[:8]}")
        if query.name and named[query.name] > 1
        else query
        for query in active
    ]
    return [
        Seen(query, operator, part)
        for query in own
        for operator in query.operators
        for part in operator.partitions
    ]


def query_name(query: QuerySnapshot) -> str:
    """The query's name, or the beginning of its run id."""
    return query.name or query.run_id[:8]


def slots(executors: Sequence[ExecutorSnapshot]) -> int:
    """Cores for Spark's tasks on executors that do not leave (count, >= 1)."""
    return max(1, sum(executor.cores for executor in executors if not executor.leaving))
