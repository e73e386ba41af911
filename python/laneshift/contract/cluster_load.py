"""What a policy sees: one frozen picture of the cluster at the end of a measuring window.

Rates are means over the window; levels (queues, state) are values at its end. Units are in the
field docs and, by metric name, in :mod:`laneshift.contract.metrics`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

from laneshift.contract.ids import NodeId, OperatorId, PartitionId, QueryId, SourceId
from laneshift.contract.measured import REMEDY, optional
from laneshift.contract.partition_load import PartitionLoad
from laneshift.contract.store_load import StoreLoad
from laneshift.contract.tasks_load import TasksLoad
from laneshift.errors import InputError
from laneshift.inputcheck import number, unique, whole

N = TypeVar("N")


@dataclass(frozen=True, slots=True)
class Node:
    """A node and what it offers.

    Attributes:
        node: its id.
        cores: cores that partitions may hold here (count, >= 0; 0 for a node that is leaving).
        network_bytes_per_s: rate of its network link, or None if unknown (bytes/s, > 0).
    """

    node: NodeId
    cores: int
    network_bytes_per_s: float | None = None

    def __post_init__(self) -> None:
        whole(f"cores of node {self.node}", self.cores, low=0, unit="cores")
        optional(f"network_bytes_per_s of node {self.node}", self.network_bytes_per_s, "bytes/s")


@dataclass(frozen=True, slots=True)
class Edge:
    """Rows flow from ``upstream`` to ``downstream``: partitions, or operators, which are all of
    their partitions. From one operator to another is one edge, however many partitions they have.

    ``ratio`` is the arriving rate over the rate that upstream emits (CRAA: b; >= 0). With a hash
    shuffle from one partition to n, each of the n edges carries about 1/n.
    """

    upstream: PartitionId | OperatorId
    downstream: PartitionId | OperatorId
    ratio: float = 1.0

    def __post_init__(self) -> None:
        number(f"ratio of edge {self.upstream} -> {self.downstream}", self.ratio, low=0)


@dataclass(frozen=True, slots=True)
class Feeds:
    """What feeds whom, by indices of partitions.

    Attributes:
        groups: upstream partitions that feed the same ones at the same ratio.
        to: what each of them feeds.
        of: the groups that feed each partition, with the ratio of each of their partitions.
    """

    groups: tuple[tuple[int, ...], ...]
    to: tuple[tuple[int, ...], ...]
    of: tuple[tuple[tuple[int, float], ...], ...]

    def pairs(self, i: int) -> list[tuple[int, float]]:
        """Each partition that feeds partition ``i``, with its ratio."""
        return [(u, ratio) for group, ratio in self.of[i] for u in self.groups[group]]


@dataclass(frozen=True, slots=True)
class SourceLoad:
    """A stream that enters the topology.

    Attributes:
        source: its id.
        rate: rows per second that enter (rows/s, >= 0).
        backlog_rows: rows that wait outside, e.g. Kafka lag (rows, >= 0).
        limit: throttle in force, None for none (rows/s, > 0).
        feeds: partitions that read it directly.
    """

    source: SourceId
    rate: float
    backlog_rows: float = 0.0
    limit: float | None = None
    feeds: tuple[PartitionId, ...] = ()

    def __post_init__(self) -> None:
        of = f"of source {self.source}"
        number(f"rate {of}", self.rate, low=0, unit="rows/s", remedy=REMEDY)
        number(f"backlog_rows {of}", self.backlog_rows, low=0, unit="rows", remedy=REMEDY)
        optional(f"limit {of}", self.limit, "rows/s")


@dataclass(frozen=True)
class ClusterLoad:
    """The cluster at the end of one measuring window.

    Attributes:
        time_s: end of the window, in seconds of the stream's own clock (s).
        window_s: length of the window (s, > 0).
        nodes, partitions: at least one node; order is significant only for ties.
        edges: between partitions or operators; empty if they are independent.
        sources: what enters; empty if unknown (the head partitions' offered rates then count).
        latency_mean_s, latency_p99_s: end-to-end latency in the window (s), or None.
        stores: of queries in micro-batches whose state partitions were measured; each query is in
            one cluster load only, should there be several at a time.
        tasks: of queries whose tasks were measured; the same holds.
        whole: False for a look between two windows, at what has happened in a moment: what counts
            windows does not count it.
        island: the executor of those that share its cores and nothing else, where each is a cluster
            load of its own at the same time; empty for one of all.
    """

    time_s: float
    window_s: float
    nodes: tuple[Node, ...]
    partitions: tuple[PartitionLoad, ...]
    edges: tuple[Edge, ...] = ()
    sources: tuple[SourceLoad, ...] = ()
    latency_mean_s: float | None = None
    latency_p99_s: float | None = None
    stores: tuple[StoreLoad, ...] = ()
    tasks: tuple[TasksLoad, ...] = ()
    whole: bool = True
    island: str = ""
    _index: dict[PartitionId, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        number("time_s", self.time_s, unit="s")
        number("window_s", self.window_s, low=0, low_open=True, unit="s")
        if not self.nodes:
            raise InputError("nodes", 0, "at least one node", "Record the inventory first.")
        unique("nodes", [node.node for node in self.nodes])
        unique("partitions", [part.partition for part in self.partitions])
        unique("stores", [each.query for each in self.stores])
        unique("tasks", [each.query for each in self.tasks])
        index = {part.partition: i for i, part in enumerate(self.partitions)}
        object.__setattr__(self, "_index", index)
        for name in ("latency_mean_s", "latency_p99_s"):
            if getattr(self, name) is not None:
                number(name, getattr(self, name), low=0, unit="s", remedy=REMEDY)
        self._check_nodes()
        for edge in self.edges:
            for end in (edge.upstream, edge.downstream):
                if not self.at(end):
                    self._check_partition("edges", end)
        for source in self.sources:
            for fed in source.feeds:
                self._check_partition(f"feeds of source {source.source}", fed)

    def _check_nodes(self) -> None:
        free = {node.node: node.cores for node in self.nodes}
        for part in self.partitions:
            where = f"of partition {part.partition}"
            if part.home not in free:
                raise InputError(
                    f"home {where}", part.home, f"one of the nodes {list(free)}", "Add the node."
                )
            for held in part.placement:
                if held.node not in free:
                    raise InputError(
                        f"placement {where}", held.node, f"one of {list(free)}", "Add the node."
                    )
                free[held.node] -= held.cores
        for node in self.nodes:
            if free[node.node] < 0:
                raise InputError(
                    f"placement on node {node.node}",
                    node.cores - free[node.node],
                    f"at most its {node.cores} cores",
                    "Record nodes and placement at the same moment.",
                )

    def _check_partition(self, where: str, partition: PartitionId | OperatorId) -> None:
        if partition not in self._index:
            raise InputError(where, partition, "a partition of the cluster", "Add it or drop it.")

    def partition(self, partition: PartitionId) -> PartitionLoad:
        """The partition of that id; raises `InputError` if there is none."""
        self._check_partition("partition", partition)
        return self.partitions[self._index[partition]]

    def counts(self, part: PartitionLoad) -> bool:
        """Whether a partition's window is one more to who counts windows."""
        return self.whole and not part.repeated

    def at(self, end: PartitionId | OperatorId) -> tuple[int, ...]:
        """Indices of the partition, or of the operator's partitions; empty if there are none."""
        index = self._index.get(PartitionId(end))
        return self.operators.get(OperatorId(end), ()) if index is None else (index,)

    @cached_property
    def operators(self) -> dict[OperatorId, tuple[int, ...]]:
        """Indices of each operator's partitions; both in cluster load order."""
        return _rows(part.operator for part in self.partitions)

    @cached_property
    def feeds(self) -> Feeds:
        """What feeds whom."""
        groups: dict[PartitionId | OperatorId, int] = {}
        to: list[list[int]] = []
        of: list[list[tuple[int, float]]] = [[] for _ in self.partitions]
        for edge in self.edges:
            group = groups.setdefault(edge.upstream, len(groups))
            fed = self.at(edge.downstream)
            to += [[]] * (group == len(to))
            to[group] = [*to[group], *fed]
            for down in fed:
                of[down].append((group, edge.ratio))
        return Feeds(tuple(map(self.at, groups)), tuple(map(tuple, to)), tuple(map(tuple, of)))

    @cached_property
    def total_cores(self) -> int:
        """Cores of all nodes."""
        return sum(node.cores for node in self.nodes)

    @cached_property
    def heads(self) -> tuple[PartitionId, ...]:
        """Partitions that no other partition feeds, in cluster load order."""
        parts = zip(self.partitions, self.feeds.of, strict=True)
        return tuple(part.partition for part, fed_by in parts if not fed_by)

    @cached_property
    def external_rate(self) -> float:
        """Rows per second that enter the topology (paper: lambda_0)."""
        if self.sources:
            return sum(source.rate for source in self.sources)
        return sum(self.partition(head).offered_rate for head in self.heads)

    @cached_property
    def queries(self) -> dict[QueryId, tuple[int, ...]]:
        """Indices of each query's partitions; queries and partitions in cluster load order."""
        return _rows(part.query for part in self.partitions)

    def external_rate_of(self, query: QueryId) -> float:
        """Rows per second that enter ``query``: of the sources that feed it, else of its heads."""
        if self.queries.keys() == {query}:
            return self.external_rate
        mine = {self.partitions[i].partition for i in self.queries.get(query, ())}
        feeding = [source.rate for source in self.sources if not mine.isdisjoint(source.feeds)]
        if feeding:
            return sum(feeding)
        return sum(self.partition(head).offered_rate for head in self.heads if head in mine)

    def without(self, queries: Collection[QueryId]) -> ClusterLoad:
        """All but these queries, on the same nodes."""
        parts = tuple(part for part in self.partitions if part.query not in queries)
        left: set[str] = {part.partition for part in parts}
        ends = left | {part.operator for part in parts}
        return replace(
            self,
            partitions=parts,
            edges=tuple(e for e in self.edges if {e.upstream, e.downstream} <= ends),
            sources=tuple(
                replace(source, feeds=tuple(fed for fed in source.feeds if fed in left))
                for source in self.sources
                if not source.feeds or not left.isdisjoint(source.feeds)
            ),
            stores=tuple(load for load in self.stores if load.query not in queries),
            tasks=tuple(load for load in self.tasks if load.query not in queries),
        )

    def topological_order(self) -> tuple[PartitionId, ...]:
        """Partitions, each after all its upstreams; ties in cluster load order.

        Raises:
            InputError: the edges form a cycle.
        """
        names = [part.partition for part in self.partitions]
        feeds = self.feeds
        waiting = [len(fed_by) for fed_by in feeds.of]
        unsettled = [len(group) for group in feeds.groups]
        within: list[list[int]] = [[] for _ in names]
        for group, members in enumerate(feeds.groups):
            for u in members:
                within[u].append(group)
        ready = [i for i, count in enumerate(waiting) if count == 0]
        for current in ready:
            for group in within[current]:
                unsettled[group] -= 1
                for after in feeds.to[group] if unsettled[group] == 0 else ():
                    waiting[after] -= 1
                    if waiting[after] == 0:
                        ready.append(after)
        if len(ready) < len(names):
            stuck = next(names[i] for i, count in enumerate(waiting) if count > 0)
            raise InputError("edges", f"a cycle through {stuck}", "an acyclic graph", "Cut it.")
        return tuple(names[i] for i in ready)


def _rows(names: Iterable[N]) -> dict[N, tuple[int, ...]]:
    """Where each name stands."""
    found: dict[N, list[int]] = {}
    for i, name in enumerate(names):
        found.setdefault(name, []).append(i)
    return {name: tuple(rows) for name, rows in found.items()}
