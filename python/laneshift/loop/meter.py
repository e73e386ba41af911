"""Two pictures of running queries become what a policy sees: rates over the window between them.

Lanes run in the process of their partition's own task, so a core of one executor is of no use to a
partition of another: each executor is a cluster of one node to a policy (an island).

Measured so (ours): a partition's offered rate is what its input took in, told from chance
(`arrivals`) and from pauses between batches (`rests`), and "at least that" while the input had to
wait for room. The service rate of a core is rows over the time that lanes worked,
waits for rows and for room left out. It is not CPU time: a lane that waits inside the user's code
is held by that row all the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from laneshift.loop.arrivals import Arrivals
from laneshift.loop.rests import Rest, with_cores
from laneshift.plugin.partition import PartitionSnapshot as LivePartition
from laneshift.plugin.snapshot import ExecutorSnapshot, OperatorSnapshot, QuerySnapshot
from laneshift.plugin.snapshot import Snapshot as LiveSnapshot
from laneshift.scheduler.ids import LaneId, NodeId, OperatorId, PartitionId, SourceId
from laneshift.scheduler.snapshot import (
    Edge,
    LaneSnapshot,
    NodeCores,
    NodeSnapshot,
    PartitionSnapshot,
    ShardTable,
    Snapshot,
    SourceSnapshot,
)

BLOCKED_SHARE = 0.05
"""The input waited for more than this share of the window: the partition is saturated (ours)."""

ONE_LANE_BUSY = 0.95
"""In Real-time Mode a single lane may have no queue: it is the input itself that works on rows, and
is saturated if it does so for more than this share of the window (ours)."""

MICRO_BATCH_BUSY = 0.7
"""Lanes that worked for more than this share are saturated (ours). In micro-batch lanes rest while
Spark plans, reads and commits, and a batch always fills the queues: waits say nothing there."""

SERVICE_HALF_LIFE_S = 3.0
"""For the service rate, rows and the time that lanes worked on them count half after so long
(ours): rows count when a lane takes a block of them, its time as it works on them, so that a short
window in which a block begins shows a rate far too high, and those after it one far too low."""

FEW_ROWS = 20
SHORT_S = 1.0
"""Fewer rows than this in less work than that leave the service rate as it was (ours)."""

UNKNOWN_RATE = 1e6
"""Rows per second of a core before the first measurement: no reason for a second one (ours)."""

UNKNOWN_ROW_BYTES = 128.0
"""Bytes of a queued row as long as none was seen in a queue (ours)."""

FEW_SOURCE_ROWS = 100
"""With fewer rows counted, it is not known how many of the source's come to a partition (ours)."""

SOURCE, ELSEWHERE = ":source", ":elsewhere"
"""What follows a query's name in the id of its source, and of its operators on other executors."""

OTHERS_MS = 10_000
"""For so long a core that another task was seen on counts as taken (ours)."""


@dataclass(frozen=True, slots=True)
class PartitionRef:
    """What a command needs to name a partition; ``lanes`` is how many it has."""

    query_id: str
    operator_id: int
    partition: int
    lanes: int


@dataclass(frozen=True, slots=True)
class SourceRef:
    """What a command needs to name a query's source; ``query`` is how partitions name it.

    ``counted`` is False if it is not known how many rows the source gives.
    """

    query_id: str
    query: str
    counted: bool


@dataclass(frozen=True)
class Island:
    """One executor's elastic partitions as a policy sees them.

    Attributes:
        executor: its id.
        budget: cores that lanes may use here: those that Spark runs nothing else on (count).
        partitions: how to name them in commands.
        sources: how to name the sources of the snapshot that a command can reach.
        shares: rows that came to a partition per row that its query's sources gave, since the query
            started; only of partitions to which enough came.
        snapshot: the measurement, or None if no partition has been seen twice yet.
    """

    executor: str
    budget: int
    partitions: Mapping[PartitionId, PartitionRef]
    snapshot: Snapshot | None
    sources: Mapping[SourceId, SourceRef] = field(default_factory=dict)
    shares: Mapping[PartitionId, float] = field(default_factory=dict)

    @property
    def lanes(self) -> dict[PartitionId, int]:
        """Lanes of each partition."""
        return {name: ref.lanes for name, ref in self.partitions.items()}


_Key = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class _Seen:
    """An elastic partition with the names of what it belongs to."""

    query: QuerySnapshot
    operator: OperatorSnapshot
    part: LivePartition

    @property
    def key(self) -> _Key:
        return (self.query.run_id, self.operator.operator_id, self.part.partition)


@dataclass(frozen=True, slots=True)
class _Window:
    """From one look at a partition, ``was`` at ``since_ms``, to another."""

    was: LivePartition
    since_ms: int
    now_ms: int

    @property
    def seconds(self) -> float:
        return (self.now_ms - self.since_ms) / 1000


class Meter:
    """Remembers the picture before, and the rates that a quiet window does not show.

    Args:
        query: run id of the only query to measure, None for all.
        cores: most cores of an executor that lanes may use, None for all of them.
    """

    def __init__(self, query: str | None = None, cores: int | None = None) -> None:
        self._query = query
        self._cores = cores
        self._before: LiveSnapshot | None = None
        self._worked: dict[_Key, tuple[float, float]] = {}  # rows and seconds, the newest most
        self._service: dict[_Key, float] = {}
        self._row_bytes: dict[_Key, float] = {}
        self._began: dict[_Key, int] = {}  # what the source had given when the partition moved
        self._share: dict[_Key, float] = {}
        self._arrivals: dict[_Key, Arrivals] = {}
        self._last: dict[_Key, PartitionSnapshot] = {}
        self._rests: dict[_Key, Rest] = {}
        self._others: dict[str, deque[tuple[int, int]]] = {}

    def measure(self, live: LiveSnapshot) -> tuple[Island, ...]:
        """The islands of ``live``, in the order of their executors; windows end at its time."""
        before, self._before = self._before, live
        everything = _partitions(live)
        parts = self._mine(everything)
        there = {s.key for s in parts}
        memories: tuple[dict[_Key, Any], ...]
        memories = (
            self._worked, self._service, self._row_bytes, self._began, self._share,
            self._arrivals, self._last, self._rests,
        )  # fmt: skip
        for memory in memories:
            for key in memory.keys() - there:
                del memory[key]
        earlier = {s.key: s.part for s in self._mine(_partitions(before))} if before else {}
        since_ms = before.time_ms if before else live.time_ms
        # A query's sources and partitions do not all end at the same moment: one is enough to tell.
        resting = {
            s.query.run_id
            for s in parts
            if s.query.mode == "real-time" and s.key in earlier and not _ran(s, earlier[s.key])
        }
        found = []
        for executor in live.executors:
            here = [s for s in parts if s.part.executor == executor.executor]
            if here:
                budget = max(self._budget(executor, live.time_ms, everything), len(here))
                windows = {
                    s.key: _Window(earlier[s.key], since_ms, live.time_ms)
                    for s in here
                    if s.key in earlier and live.time_ms > since_ms
                }
                found.append(self._island(executor.executor, budget, here, windows, resting))
        return tuple(found)

    def _mine(self, parts: Sequence[_Seen]) -> list[_Seen]:
        return [s for s in parts if self._query in (None, s.query.run_id, s.query.id)]

    def _island(
        self,
        executor: str,
        budget: int,
        here: Sequence[_Seen],
        windows: Mapping[_Key, _Window],
        resting: set[str],
    ) -> Island:
        names = {s.key: _name(s) for s in here}
        refs = {
            names[s.key]: PartitionRef(
                s.query.id, s.operator.operator_id, s.part.partition, s.part.lanes
            )
            for s in here
        }
        measured = []
        for s in here:
            window = windows.get(s.key)
            if window is not None and _moved(s, window.was):
                # It counts from nothing there; what was measured says the old executor is its home.
                self._began[s.key] = s.query.given.rows if s.query.given else 0
                for memory in (self._arrivals, self._last, self._rests):
                    memory.pop(s.key, None)
            elif window is not None:
                shown = self._shown(s, window, ran=s.query.run_id not in resting)
                measured += [] if shown is None else [shown]
            self._count(s)
        snapshot = None
        sources: dict[SourceId, SourceRef] = {}
        if measured:
            held = sum(part.cores for part in measured)
            edges = _edges(here, names, {p.partition for p in measured})
            entering = _sources(here, names, measured, edges)
            for source, query in entering:
                if source.source.endswith(SOURCE):
                    sources[source.source] = SourceRef(
                        query.id, _query_name(query), query.given is not None
                    )
            window = next(iter(windows.values()))
            snapshot = Snapshot(
                time_s=window.now_ms / 1000,
                window_s=window.seconds,
                nodes=(NodeSnapshot(NodeId(executor), max(budget, held)),),
                partitions=tuple(measured),
                edges=edges,
                sources=tuple(source for source, _ in entering),
            )
        shares = {names[s.key]: self._share[s.key] for s in here if s.key in self._share}
        return Island(executor, budget, refs, snapshot, sources, shares)

    def _count(self, seen: _Seen) -> None:
        """What came to a partition of what its query's sources gave since it counts."""
        given, part = seen.query.given, seen.part
        if given is None or (given.batch_id is not None and part.batch_id > given.batch_id):
            return  # the partition has counted rows of a batch that the source has not
        rows = given.rows - self._began.get(seen.key, 0)
        if part.rows_in >= FEW_SOURCE_ROWS and rows > 0:
            self._share[seen.key] = part.rows_in / rows

    def _budget(self, executor: ExecutorSnapshot, now_ms: int, everything: Sequence[_Seen]) -> int:
        """Cores without other tasks; each partition's own task is there for its first lane.

        The most of other tasks in a while count: at the end of a batch its source's tasks are gone,
        and back with the next one.
        """
        here = [s for s in everything if s.part.executor == executor.executor]
        running = sum(s.part.running for s in here)
        others = self._others.setdefault(executor.executor, deque())
        whole = all(s.part.running for s in here if s.query.mode == "real-time")
        if running and (whole or not others or others[-1][0] < now_ms - OTHERS_MS):
            # Between batches Spark's tasks are of other stages, and those of partitions that begin
            # are not known as theirs yet: no time to judge by.
            others.append((now_ms, max(0, executor.active_tasks - running)))
        while len(others) > 1 and others[0][0] < now_ms - OTHERS_MS:
            others.popleft()
        budget = executor.cores - max((count for _, count in others), default=0)
        return budget if self._cores is None else min(budget, self._cores)

    def _shown(self, seen: _Seen, window: _Window, ran: bool) -> PartitionSnapshot | None:
        """What a policy sees of a partition; None if there was nothing to measure yet."""
        part, saturated = seen.part, _saturated(seen, window)
        rest = self._rests.get(seen.key)
        if not ran and (rest is None or rest.over_ms is not None):
            if rest is not None:  # the next pause, before it has caught up with the last one
                whole = _Window(rest.was, rest.began_ms, window.since_ms)
                self._measure(replace(seen, part=window.was), whole, saturated)
            if seen.key not in self._last:
                return None
            rest = Rest(window.was, window.since_ms, self._last[seen.key])
            self._rests[seen.key] = rest
        if rest is not None:
            if not rest.is_over(part, ran, window.now_ms, saturated):
                return rest.shown(part)
            del self._rests[seen.key]
            window = _Window(rest.was, rest.began_ms, window.now_ms)
        return self._measure(seen, window, saturated)

    def _measure(self, seen: _Seen, window: _Window, saturated: bool) -> PartitionSnapshot:
        part, was, seconds = seen.part, window.was, window.seconds
        name, node = _name(seen), NodeId(part.executor)
        rows_in = max(0, part.rows_in - was.rows_in)
        taken = part.rows_taken - was.rows_taken
        busy = max(0.0, part.busy_s - was.busy_s)
        rows, worked = self._worked.get(seen.key, (0.0, 0.0))
        keep = 0.5 ** (seconds / SERVICE_HALF_LIFE_S)
        rows, worked = keep * rows + taken, keep * worked + busy
        self._worked[seen.key] = rows, worked
        if rows > 0 and worked > 0 and (rows >= FEW_ROWS or worked >= SHORT_S):
            self._service[seen.key] = rows / worked
        rate = self._service.get(seen.key, UNKNOWN_RATE)
        queued = int(part.queue_rows.sum())
        if queued:
            self._row_bytes[seen.key] = float(part.queue_bytes.sum()) / queued
        row_bytes = self._row_bytes.get(seen.key, UNKNOWN_ROW_BYTES)
        offered_rate = rows_in / seconds
        if seen.query.mode == "real-time":  # a micro-batch comes at once, which is no chance
            offered_rate = self._arrivals.setdefault(seen.key, Arrivals()).add(rows_in, seconds)
        rows_out = max(0, part.rows_out - was.rows_out)
        lanes = tuple(
            LaneSnapshot(
                LaneId(lane), node, float(part.lane_busy[lane]), float(part.queue_rows[lane])
            )
            for lane in range(part.lanes)
        )
        capacity = part.lanes * part.queue_bytes_limit / max(row_bytes, 1.0)
        self._last[seen.key] = PartitionSnapshot(
            partition=name,
            operator=OperatorId(name.rpartition(".")[0]),
            home=node,
            placement=(NodeCores(node, part.lanes),),
            offered_rate=offered_rate,
            service_rate_per_core=rate,
            saturated=saturated,
            queue_rows=min(float(queued), capacity),
            queue_capacity_rows=capacity,
            selectivity=rows_out / rows_in if rows_in else 1.0,
            output_rate=rows_out / seconds,
            state_bytes=float(part.state_memory_bytes + part.state_file_bytes),
            input_bytes_per_s=max(0, part.bytes_in - was.bytes_in) / seconds,
            output_bytes_per_s=max(0, part.bytes_out - was.bytes_out) / seconds,
            latency_p99_s=part.latency.p99_ms / 1000 if part.latency.count else None,
            max_cores=part.max_lanes,
            lanes=lanes,
            shards=_shards(part, rate),
        )
        return self._last[seen.key]


def _partitions(live: LiveSnapshot) -> list[_Seen]:
    """Those of all active queries."""
    return [
        _Seen(query, operator, part)
        for query in live.queries
        if query.active
        for operator in query.operators
        for part in operator.partitions
    ]


def _ran(seen: _Seen, was: LivePartition) -> bool:
    """Whether its task has run since then without the end of a batch."""
    return was.running and seen.part.running and was.batch_id == seen.part.batch_id


def _moved(seen: _Seen, was: LivePartition) -> bool:
    return was.executor != seen.part.executor or was.rows_in > seen.part.rows_in


def _saturated(seen: _Seen, window: _Window) -> bool:
    part, was = seen.part, window.was
    blocked = part.blocked_s - was.blocked_s > BLOCKED_SHARE * window.seconds
    share = (part.busy_s - was.busy_s) / (part.lanes * window.seconds)
    if seen.query.mode == "micro-batch":
        return share > MICRO_BATCH_BUSY
    return blocked or (part.lanes == 1 and share > ONE_LANE_BUSY)


def _query_name(query: QuerySnapshot) -> str:
    return query.name or query.run_id[:8]


def _name(seen: _Seen) -> PartitionId:
    query = _query_name(seen.query)
    return PartitionId(f"{query}:{seen.operator.operator_id}.{seen.part.partition}")


def _sources(
    here: Sequence[_Seen],
    names: Mapping[_Key, PartitionId],
    measured: Sequence[PartitionSnapshot],
    edges: Sequence[Edge],
) -> list[tuple[SourceSnapshot, QuerySnapshot]]:
    """What enters the island: of each query its source and, apart, other executors' operators."""
    rates = {part.partition: part.offered_rate for part in measured}
    fed = {edge.downstream for edge in edges}
    queries: dict[SourceId, QuerySnapshot] = {}
    feeds: dict[SourceId, list[PartitionId]] = {}
    for seen in here:
        name = names[seen.key]
        if name in rates and name not in fed:
            kind = ELSEWHERE if seen.operator.upstream else SOURCE
            source = SourceId(_query_name(seen.query) + kind)
            queries[source] = seen.query
            feeds.setdefault(source, []).append(name)
    return [
        (SourceSnapshot(source, sum(rates[p] for p in parts), feeds=tuple(parts)), queries[source])
        for source, parts in feeds.items()
    ]


def _shards(part: LivePartition, rate: float) -> ShardTable | None:
    if part.lane_of_shard.max(initial=-1) >= part.lanes:
        return None  # shards are leaving a lane that goes
    load = part.shard_load if part.load_metric == "cpu" else part.shard_load / rate
    return ShardTable(np.arange(part.shards), part.lane_of_shard, load, np.zeros(part.shards))


def _edges(
    here: Sequence[_Seen], names: Mapping[_Key, PartitionId], measured: set[PartitionId]
) -> tuple[Edge, ...]:
    """Each upstream partition feeds each of an operator's partitions its share: a hash shuffle."""
    edges = []
    for down in here:
        for up in here:
            ends = (names[up.key], names[down.key])
            feeds = (
                up.query.run_id == down.query.run_id
                and up.operator.operator_id in down.operator.upstream
            )
            if feeds and measured.issuperset(ends):
                edges.append(Edge(*ends, ratio=1 / len(down.operator.partitions)))
    return tuple(edges)


def within_budget(lanes: Mapping[PartitionId, int], budget: int) -> dict[PartitionId, int]:
    """Lanes (each >= 1) cut to ``budget`` cores in all, one by one from who has most.

    ``budget`` is at least the number of partitions. Ties go to the partition named last.

    >>> within_budget({PartitionId("q:0.0"): 5, PartitionId("q:0.1"): 2}, budget=5)
    {'q:0.0': 3, 'q:0.1': 2}
    >>> within_budget({PartitionId("q:0.0"): 2}, budget=5)
    {'q:0.0': 2}
    """
    cut = dict(lanes)
    while sum(cut.values()) > budget:
        most = max(cut, key=lambda name: (cut[name], name))
        cut[most] -= 1
    return cut


def held(snapshot: Snapshot, lanes: Mapping[PartitionId, int], budget: int) -> Snapshot:
    """``snapshot`` once its partitions have ``lanes`` lanes, on a node of ``budget`` cores.

    What is known of single lanes is left out where their number differs.
    """
    parts = tuple(with_cores(part, lanes[part.partition]) for part in snapshot.partitions)
    others = sum(n for name, n in lanes.items() if all(p.partition != name for p in parts))
    node = replace(snapshot.nodes[0], cores=budget - others)
    return replace(snapshot, nodes=(node,), partitions=parts)
