"""Two pictures of running queries become what a policy sees, executor by executor."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from laneshift.loop.batches import QueryBatches, in_batches
from laneshift.loop.budget import Budget, idle_lanes
from laneshift.loop.island import Island, PartitionRef, SourceRef
from laneshift.loop.rates import PartitionMeter
from laneshift.loop.seen import Key, Seen, Window, query_name, seen_partitions
from laneshift.loop.topology import SOURCE, SourceShare, edges, entering
from laneshift.plugin.snapshot import Snapshot
from laneshift.scheduler.cluster_load import ClusterLoad, Node
from laneshift.scheduler.ids import NodeId, SourceId
from laneshift.scheduler.partition_load import PartitionLoad


class Meter:
    """Remembers the picture before, and what is known of each partition.

    Args:
        query: run id of the only query to measure, None for all.
        cores: most cores of an executor that lanes may use, None for all of them.
    """

    def __init__(self, query: str | None = None, cores: int | None = None) -> None:
        self._query = query
        self._budget = Budget(cores)
        self._before: Snapshot | None = None
        self._rates: defaultdict[Key, PartitionMeter] = defaultdict(PartitionMeter)
        self._shares: defaultdict[Key, SourceShare] = defaultdict(SourceShare)
        self._batches: dict[str, QueryBatches] = {}

    def measure(self, live: Snapshot) -> tuple[Island, ...]:
        """The islands of ``live``, in the order of their executors; windows end at its time."""
        before, self._before = self._before, live
        everything = seen_partitions(live)
        parts = self._mine(everything)
        self._forget_all_but({s.key for s in parts})
        earlier = {s.key: s.part for s in self._mine(seen_partitions(before))} if before else {}
        since_ms = before.time_ms if before else live.time_ms
        # A query's sources and partitions do not all end at the same moment: one is enough to tell.
        resting = {
            s.query.run_id
            for s in parts
            if s.query.mode == "real-time"
            and s.key in earlier
            and not s.has_run_since(earlier[s.key])
        }
        news = self._look_at_batches(live, parts)
        found = []
        for executor in live.executors:
            here = [s for s in parts if s.part.executor == executor.executor]
            if here:
                beside = [s for s in everything if s.part.executor == executor.executor]
                cores = self._budget.of(executor, live.time_ms, beside)
                windows = {
                    s.key: Window(earlier[s.key], since_ms, live.time_ms)
                    for s in here
                    if s.key in earlier and live.time_ms > since_ms
                }
                found.append(self._island(executor.executor, cores, here, windows, resting, news))
        return tuple(found)

    def _look_at_batches(self, live: Snapshot, parts: Sequence[Seen]) -> set[str]:
        """Run ids of micro-batch queries of which a batch has ended since the last look."""
        cores = {executor.executor: executor.cores for executor in live.executors}
        there = {s.query.run_id: s.query for s in parts}
        for gone in self._batches.keys() - there.keys():
            del self._batches[gone]
        news = set()
        for run, query in there.items():
            if not in_batches(query):
                continue
            known = self._batches.setdefault(run, QueryBatches(query))
            if known.look(query, [s for s in parts if s.query.run_id == run], cores, live.time_ms):
                news.add(run)
        return news

    def _mine(self, parts: Sequence[Seen]) -> list[Seen]:
        return [s for s in parts if self._query in (None, s.query.run_id, s.query.id)]

    def _forget_all_but(self, there: set[Key]) -> None:
        for memory in (self._rates, self._shares):
            for key in memory.keys() - there:
                del memory[key]

    def _island(
        self,
        executor: str,
        cores: int,
        here: Sequence[Seen],
        windows: Mapping[Key, Window],
        resting: set[str],
        news: set[str],
    ) -> Island:
        measured = []
        for s in here:
            window = windows.get(s.key)
            if s.query.run_id in self._batches:
                in_batch = self._batches[s.query.run_id].shown(s)
                measured += [] if in_batch is None else [in_batch]
                if window is not None and s.has_moved_since(window.was):
                    self._shares[s.key].begin(s)
            elif window is not None and s.has_moved_since(window.was):
                # It counts from nothing there; what was measured says the old executor is its home.
                self._shares[s.key].begin(s)
                self._rates[s.key].begin()
            elif window is not None:
                shown = self._rates[s.key].shown(s, window, ran=s.query.run_id not in resting)
                measured += [] if shown is None else [shown]
            self._shares[s.key].count(s)
        refs = {
            s.name: PartitionRef(
                s.query.id,
                s.operator.operator_id,
                s.part.partition,
                s.part.lanes,
                s.part.auto,
                s.query.run_id,
            )
            for s in here
        }
        budget = max(cores + idle_lanes(here, measured, cores), len(here))
        is_new = any(s.query.run_id in news or s.query.run_id not in self._batches for s in here)
        shares = {s.name: share for s in here if (share := self._shares[s.key].share) is not None}
        if not measured or not windows:
            return Island(executor, budget, cores, refs, None, {}, shares)
        measured = [_at_most(part, cores) for part in measured]
        cluster, sources = _cluster(executor, budget, here, measured, next(iter(windows.values())))
        return Island(executor, budget, cores, refs, cluster, sources, shares, is_new)


def _at_most(part: PartitionLoad, cores: int) -> PartitionLoad:
    """In micro-batch, ``part`` as one that no more lanes than the executor's cores help."""
    if part.batch is None:
        return part
    most = max(1, cores)
    return replace(part, max_cores=most if part.max_cores is None else min(part.max_cores, most))


def _cluster(
    executor: str,
    budget: int,
    here: Sequence[Seen],
    measured: Sequence[PartitionLoad],
    window: Window,
) -> tuple[ClusterLoad, dict[SourceId, SourceRef]]:
    """What a policy sees of an executor, and the sources of it that a command can reach."""
    fed = edges(here, {part.partition for part in measured})
    sources = entering(here, measured, fed)
    cluster = ClusterLoad(
        time_s=window.now_ms / 1000,
        window_s=window.seconds,
        nodes=(Node(NodeId(executor), max(budget, sum(p.cores for p in measured))),),
        partitions=tuple(measured),
        edges=fed,
        sources=tuple(source for source, _ in sources),
    )
    reached = {
        source.source: SourceRef(query.id, query_name(query), query.given is not None)
        for source, query in sources
        if source.source.endswith(SOURCE)
    }
    return cluster, reached
