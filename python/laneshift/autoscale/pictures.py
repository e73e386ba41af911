"""Pictures of running queries: their partitions by name, at a time that never goes back.

A snapshot becomes a picture in two steps: :class:`Steady` gives it a time that the driver's clock
cannot set back, :class:`Silence` the partitions of executors that do not answer just now.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from laneshift.contract.ids import OperatorId, PartitionId, QueryId
from laneshift.plugin.partition import PartitionSnapshot
from laneshift.plugin.snapshot import (
    ExecutorSnapshot,
    HandoffMode,
    OperatorSnapshot,
    QuerySnapshot,
    Snapshot,
)

Key = tuple[str, int, int]
"""Run id of the query, operator and partition."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """Lanes at home (>= 1), and on other executors by their ids (each >= 1).

    >>> str(Lanes(2, {"3": 1, "2": 4}))
    '7 lanes, 4 on executor 2, 1 on executor 3'
    """

    home: int
    elsewhere: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, part: PartitionSnapshot) -> Lanes:
        """What a partition has at home and is to have elsewhere: sessions that open now count."""
        return cls(max(1, part.home_lanes), dict(part.wanted_elsewhere))

    @property
    def total(self) -> int:
        """All of them."""
        return self.home + sum(self.elsewhere.values())

    def on(self, executor: str, home: str) -> int:
        """Those on one executor, where the partition's own is ``home``."""
        return self.home if executor == home else self.elsewhere.get(executor, 0)

    @property
    def words(self) -> str:
        """Those elsewhere; empty if there are none."""
        return ", ".join(f"{n} on executor {e}" for e, n in sorted(self.elsewhere.items()))

    def __str__(self) -> str:
        return f"{self.total} lanes" + (f", {self.words}" if self.elsewhere else "")


@dataclass(frozen=True)
class Seen:
    """An elastic partition with the names of what it belongs to."""

    query: QuerySnapshot
    operator: OperatorSnapshot
    part: PartitionSnapshot

    @cached_property
    def key(self) -> Key:
        """What tells it from all others, on whatever executor it runs."""
        return (self.query.run_id, self.operator.operator_id, self.part.partition)

    @cached_property
    def name(self) -> PartitionId:
        """How policies and people call it."""
        return PartitionId(f"{self.operator_name}.{self.part.partition}")

    @property
    def operator_name(self) -> OperatorId:
        """How policies call its operator."""
        return OperatorId(f"{query_name(self.query)}:{self.operator.operator_id}")

    @property
    def query_id(self) -> QueryId:
        """How policies call its query."""
        return QueryId(query_name(self.query))

    @property
    def home(self) -> str:
        """The executor that it is on."""
        return self.part.executor

    @cached_property
    def lanes(self) -> Lanes:
        """Its lanes, here and elsewhere."""
        return Lanes.of(self.part)

    @property
    def acts_now(self) -> bool:
        """Whether other lanes begin within the batch, not with the next one."""
        return self.part.running and self.operator.handoff is not HandoffMode.BETWEEN_BATCHES

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


def newest_batches(name: Callable[[Seen], str], parts: Iterable[Seen]) -> dict[str, int]:
    """The newest batch that any of ``parts`` has worked on, by that name of theirs."""
    found: dict[str, int] = {}
    for s in parts:
        found[name(s)] = max(s.part.batch_id, found.get(name(s), -1))
    return found


def query_name(query: QuerySnapshot) -> str:
    """The query's name, or the beginning of its run id."""
    return query.name or query.run_id[:8]


def slots(executors: Sequence[ExecutorSnapshot]) -> int:
    """Cores for Spark's tasks on executors that do not leave (count, >= 1)."""
    return max(1, sum(executor.cores for executor in executors if not executor.leaving))


BEHIND_MS = 60_000
"""If the driver's clock is ahead by more, its machine has slept (ms, ours): it is followed."""


class Steady:
    """Gives pictures the time that has passed since the first one, by the driver's own count."""

    def __init__(self) -> None:
        self._ahead_ms: int | None = None  # of the count

    def of(self, live: Snapshot) -> Snapshot:
        """``live`` at a time that is not before that of the picture before."""
        if live.count_ms is None:
            return live  # of a plugin that does not count
        ahead = live.time_ms - live.count_ms
        if self._ahead_ms is None or ahead > self._ahead_ms + BEHIND_MS:
            self._ahead_ms = ahead
        now_ms = live.count_ms + self._ahead_ms
        return replace(live, time_ms=now_ms, set_back_ms=now_ms - live.time_ms)


class Silence:
    """Remembers the partitions of the newest picture, to show those of silent executors.

    An executor is silent while it collects garbage for long, or has lost its network for a while.
    The plugin then says nothing of its partitions, or what another executor still has of them from
    before. They have not gone: Spark says so if they have.
    """

    def __init__(self) -> None:
        self._known: dict[Key, Seen] = {}

    def filled(self, live: Snapshot) -> Snapshot:
        """``live`` with the partitions of silent executors as they were last seen."""
        if live.silent:
            live = replace(live, queries=tuple(self._filled(q, live.silent) for q in live.queries))
        self._known = {s.key: s for s in seen_partitions(live)}
        return live

    def _filled(self, query: QuerySnapshot, silent: tuple[str, ...]) -> QuerySnapshot:
        there = {operator.operator_id: operator for operator in query.operators}
        said = {
            Seen(query, operator, part).key: part
            for operator in query.operators
            for part in operator.partitions
        }
        missed: dict[int, list[PartitionSnapshot]] = {}
        mode = query.mode
        for key, was in self._known.items():
            number, part = was.operator.operator_id, was.part
            if not query.active or key[0] != query.run_id or part.executor not in silent:
                continue
            # What was computed elsewhere before is no news of it.
            if key not in said or said[key].batch_id < part.batch_id:
                there.setdefault(number, replace(was.operator, partitions=()))
                missed.setdefault(number, []).append(part)
                mode = was.query.mode  # of which its operators tell
        if not missed:
            return query
        operators = []
        for number, operator in sorted(there.items()):
            parts = {part.partition: part for part in operator.partitions}
            parts |= {part.partition: part for part in missed.get(number, ())}
            known = tuple(parts[each] for each in sorted(parts))
            operators.append(replace(operator, partitions=known))
        return replace(query, mode=mode, operators=tuple(operators))
