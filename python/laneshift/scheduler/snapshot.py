"""What a policy sees: one frozen picture of the cluster at the end of a measuring window.

Rates are means over the window; levels (queues, state) are values at its end. Units are in the
field docs and, by metric name, in :mod:`laneshift.scheduler.metrics`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from laneshift.errors import InputError
from laneshift.inputcheck import number, unique, whole
from laneshift.scheduler.ids import KeyId, LaneId, NodeId, OperatorId, PartitionId, SourceId

_MEASURE = "Clean the measurement: keep the last valid value instead."


@dataclass(frozen=True, slots=True)
class NodeSnapshot:
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
        _optional(f"network_bytes_per_s of node {self.node}", self.network_bytes_per_s, "bytes/s")


@dataclass(frozen=True, slots=True)
class NodeCores:
    """A number of cores (>= 1) on one node."""

    node: NodeId
    cores: int

    def __post_init__(self) -> None:
        whole(
            f"cores on node {self.node}",
            self.cores,
            low=1,
            unit="cores",
            remedy="Leave out the nodes on which nothing is held.",
        )


@dataclass(frozen=True, slots=True)
class LaneSnapshot:
    """A lane: one thread on one core.

    Attributes:
        lane: its id within the partition.
        node: where it runs.
        busy_share: share of the window in which it processed rows (0 to 1).
        queue_rows: rows waiting in its own queue at the end of the window (rows, >= 0).
    """

    lane: LaneId
    node: NodeId
    busy_share: float = 0.0
    queue_rows: float = 0.0

    def __post_init__(self) -> None:
        whole("lane", self.lane, low=0)
        number(f"busy_share of lane {self.lane}", self.busy_share, low=0, high=1, remedy=_MEASURE)
        number(f"queue_rows of lane {self.lane}", self.queue_rows, low=0, remedy=_MEASURE)


@dataclass(frozen=True, slots=True)
class HotKey:
    """A key heavy enough to be named.

    Attributes:
        key: its name.
        load_cores: its demand in cores (CPU seconds per second, >= 0).
        ways: lanes that process it (>= 1; more than 1 where it is split).
    """

    key: KeyId
    load_cores: float
    ways: int = 1

    def __post_init__(self) -> None:
        whole(f"ways of key {self.key}", self.ways, low=1, unit="lanes")
        number(f"load_cores of key {self.key}", self.load_cores, low=0, remedy=_MEASURE)


@dataclass(frozen=True, eq=False)
class ShardTable:
    """The shards of one partition as columns of equal length z (arrays are made read-only).

    Attributes:
        shard: shard ids, int64 (z,), unique. Ids of one operator's partitions may be disjoint
            (resource-centric moves between partitions need that) or each start at 0.
        lane: lane that owns the shard, int64 (z,).
        load_cores: CPU seconds per second that the shard's rows cost, float64 (z,), >= 0.
        state_bytes: bytes of state of the shard, float64 (z,), >= 0.
    """

    shard: NDArray[np.int64]
    lane: NDArray[np.int64]
    load_cores: NDArray[np.float64]
    state_bytes: NDArray[np.float64]

    def __post_init__(self) -> None:
        size = np.asarray(self.shard).size
        for name in ("shard", "lane", "load_cores", "state_bytes"):
            kind = np.int64 if name in ("shard", "lane") else np.float64
            column = np.array(getattr(self, name), dtype=kind)
            if column.shape != (size,):
                raise InputError(
                    f"shards.{name}", f"shape {column.shape}", f"shape ({size},)", "Align columns."
                )
            bad = ~(column >= 0) | ~np.isfinite(column)
            if bad.any():
                where = int(np.argmax(bad))
                raise InputError(
                    f"shards.{name}[{where}]", column[where].item(), "finite and >= 0", _MEASURE
                )
            column.setflags(write=False)
            object.__setattr__(self, name, column)
        if np.unique(self.shard).size != size:
            raise InputError("shards.shard", "a repeated id", "unique ids", "Name a shard once.")

    def __len__(self) -> int:
        return int(self.shard.size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ShardTable):
            return NotImplemented
        names = ("shard", "lane", "load_cores", "state_bytes")
        return all(np.array_equal(getattr(self, n), getattr(other, n)) for n in names)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class PartitionSnapshot:
    """One elastic partition (paper: elastic executor; in CRAA and OERA: operator, component).

    Attributes:
        partition, operator: ids.
        home: node of the Spark task that owns the partition; lanes elsewhere are remote.
        placement: cores held now, per node; nodes without a core are left out.
        offered_rate: rows that arrive per second, counted before any queue (rows/s, >= 0).
        service_rate_per_core: rows per second that one busy core processes, i.e. 1 / mean CPU time
            of a row, waiting excluded (rows/s, > 0).
        saturated: True if back-pressure acted: the offered rate is then "at least this".
        queue_rows: rows waiting at the end of the window (rows, >= 0).
        queue_capacity_rows: rows that the queue holds before rows wait upstream or are lost
            (rows, > 0), None if unbounded or unknown.
        selectivity: rows out per row in (>= 0).
        efficiency: share of the cores' rate that a throttle leaves in force, in (0, 1].
        output_rate: rows emitted per second, None if not measured (rows/s, >= 0).
        state_bytes: total state (bytes, >= 0).
        input_bytes_per_s, output_bytes_per_s: traffic in and out (bytes/s, >= 0).
        max_cores: most cores that the partition can use, None for no limit (count, >= 1).
        rows_lost: rows dropped in the window (rows, >= 0); 0 where nothing is ever dropped.
        latency_p99_s: 99th percentile of the partition's latency in the window (s), or None.
        lanes: the lanes, one per held core; empty if the recorder does not look inside.
        shards: the shards, or None if the recorder does not look inside.
        hot_keys: the heaviest keys and all that are split, heaviest first; may be empty.
    """

    partition: PartitionId
    operator: OperatorId
    home: NodeId
    placement: tuple[NodeCores, ...]
    offered_rate: float
    service_rate_per_core: float
    saturated: bool = False
    queue_rows: float = 0.0
    queue_capacity_rows: float | None = None
    selectivity: float = 1.0
    efficiency: float = 1.0
    output_rate: float | None = None
    state_bytes: float = 0.0
    input_bytes_per_s: float = 0.0
    output_bytes_per_s: float = 0.0
    max_cores: int | None = None
    rows_lost: float = 0.0
    latency_p99_s: float | None = None
    lanes: tuple[LaneSnapshot, ...] = ()
    shards: ShardTable | None = None
    hot_keys: tuple[HotKey, ...] = ()

    def __post_init__(self) -> None:
        of = f"of partition {self.partition}"
        for name, unit in _PARTITION_NUMBERS:
            number(f"{name} {of}", getattr(self, name), low=0, unit=unit, remedy=_MEASURE)
        number(
            f"service_rate_per_core {of}",
            self.service_rate_per_core,
            low=0,
            low_open=True,
            unit="rows/s",
            remedy="Keep the last measured rate when no row was processed.",
        )
        number(f"efficiency {of}", self.efficiency, low=0, low_open=True, high=1)
        _optional(f"queue_capacity_rows {of}", self.queue_capacity_rows, "rows")
        for name, unit in (("output_rate", "rows/s"), ("latency_p99_s", "s")):
            if getattr(self, name) is not None:
                number(f"{name} {of}", getattr(self, name), low=0, unit=unit, remedy=_MEASURE)
        if self.max_cores is not None:
            whole(f"max_cores {of}", self.max_cores, low=1, unit="cores")
        unique(f"placement {of}", [held.node for held in self.placement])
        if self.lanes:
            self._check_lanes(of)

    def _check_lanes(self, of: str) -> None:
        unique(f"lanes {of}", [str(lane.lane) for lane in self.lanes])
        counted: dict[NodeId, int] = {}
        for lane in self.lanes:
            counted[lane.node] = counted.get(lane.node, 0) + 1
        held = {entry.node: entry.cores for entry in self.placement}
        if counted != held:
            raise InputError(
                f"lanes {of}", counted, f"one lane per held core, {held}", "Record both together."
            )
        if self.shards is not None:
            known = np.array([lane.lane for lane in self.lanes], dtype=np.int64)
            strays = self.shards.lane[~np.isin(self.shards.lane, known)]
            if strays.size:
                raise InputError(
                    f"shards.lane {of}",
                    int(strays[0]),
                    f"one of the lanes {known.tolist()}",
                    "Record lanes and shards together.",
                )

    @property
    def cores(self) -> int:
        """Cores held now, over all nodes (paper: X_j)."""
        return sum(held.cores for held in self.placement)

    def cores_on(self, node: NodeId) -> int:
        """Cores held on one node (paper: x_ij)."""
        return next((held.cores for held in self.placement if held.node == node), 0)

    @property
    def offered_load(self) -> float:
        """Demand in cores, offered rate / rate per core (paper: a_j)."""
        return self.offered_rate / self.service_rate_per_core


_PARTITION_NUMBERS = (
    ("offered_rate", "rows/s"),
    ("queue_rows", "rows"),
    ("selectivity", "rows/row"),
    ("state_bytes", "bytes"),
    ("input_bytes_per_s", "bytes/s"),
    ("output_bytes_per_s", "bytes/s"),
    ("rows_lost", "rows"),
)


@dataclass(frozen=True, slots=True)
class Edge:
    """Rows flow from ``upstream`` to ``downstream``.

    ``ratio`` is the arriving rate over the rate that upstream emits (CRAA: b; >= 0). With a hash
    shuffle from one partition to n, each of the n edges carries about 1/n.
    """

    upstream: PartitionId
    downstream: PartitionId
    ratio: float = 1.0

    def __post_init__(self) -> None:
        number(f"ratio of edge {self.upstream} -> {self.downstream}", self.ratio, low=0)


@dataclass(frozen=True, slots=True)
class SourceSnapshot:
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
        number(f"rate {of}", self.rate, low=0, unit="rows/s", remedy=_MEASURE)
        number(f"backlog_rows {of}", self.backlog_rows, low=0, unit="rows", remedy=_MEASURE)
        _optional(f"limit {of}", self.limit, "rows/s")


@dataclass(frozen=True)
class Snapshot:
    """The cluster at the end of one measuring window.

    Attributes:
        time_s: end of the window, in seconds of the stream's own clock (s).
        window_s: length of the window (s, > 0).
        nodes, partitions: at least one node; order is significant only for ties.
        edges: between partitions; empty if they are independent.
        sources: what enters; empty if unknown (the head partitions' offered rates then count).
        latency_mean_s, latency_p99_s: end-to-end latency in the window (s), or None.
    """

    time_s: float
    window_s: float
    nodes: tuple[NodeSnapshot, ...]
    partitions: tuple[PartitionSnapshot, ...]
    edges: tuple[Edge, ...] = ()
    sources: tuple[SourceSnapshot, ...] = ()
    latency_mean_s: float | None = None
    latency_p99_s: float | None = None
    _index: dict[PartitionId, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        number("time_s", self.time_s, unit="s")
        number("window_s", self.window_s, low=0, low_open=True, unit="s")
        if not self.nodes:
            raise InputError("nodes", 0, "at least one node", "Record the inventory first.")
        unique("nodes", [node.node for node in self.nodes])
        unique("partitions", [part.partition for part in self.partitions])
        index = {part.partition: i for i, part in enumerate(self.partitions)}
        object.__setattr__(self, "_index", index)
        for name in ("latency_mean_s", "latency_p99_s"):
            if getattr(self, name) is not None:
                number(name, getattr(self, name), low=0, unit="s", remedy=_MEASURE)
        self._check_nodes()
        for edge in self.edges:
            self._check_partition("edges", edge.upstream)
            self._check_partition("edges", edge.downstream)
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

    def _check_partition(self, where: str, partition: PartitionId) -> None:
        if partition not in self._index:
            raise InputError(where, partition, "a partition of the snapshot", "Add it or drop it.")

    def partition(self, partition: PartitionId) -> PartitionSnapshot:
        """The partition of that id; raises `InputError` if there is none."""
        self._check_partition("partition", partition)
        return self.partitions[self._index[partition]]

    @cached_property
    def total_cores(self) -> int:
        """Cores of all nodes."""
        return sum(node.cores for node in self.nodes)

    @cached_property
    def heads(self) -> tuple[PartitionId, ...]:
        """Partitions that no other partition feeds, in snapshot order."""
        fed = {edge.downstream for edge in self.edges}
        return tuple(p.partition for p in self.partitions if p.partition not in fed)

    @cached_property
    def external_rate(self) -> float:
        """Rows per second that enter the topology (paper: lambda_0)."""
        if self.sources:
            return sum(source.rate for source in self.sources)
        return sum(self.partition(head).offered_rate for head in self.heads)

    def upstream_of(self, partition: PartitionId) -> tuple[Edge, ...]:
        """Edges that end in ``partition``."""
        return tuple(edge for edge in self.edges if edge.downstream == partition)

    def topological_order(self) -> tuple[PartitionId, ...]:
        """Partitions, each after all its upstreams; ties in snapshot order.

        Raises:
            InputError: the edges form a cycle.
        """
        waiting = {part.partition: 0 for part in self.partitions}
        downstream: dict[PartitionId, list[PartitionId]] = {p: [] for p in waiting}
        for edge in self.edges:
            waiting[edge.downstream] += 1
            downstream[edge.upstream].append(edge.downstream)
        ready = [p for p, count in waiting.items() if count == 0]
        order: list[PartitionId] = []
        for current in ready:
            order.append(current)
            for after in downstream[current]:
                waiting[after] -= 1
                if waiting[after] == 0:
                    ready.append(after)
        if len(order) < len(waiting):
            stuck = next(p for p, count in waiting.items() if count > 0)
            raise InputError("edges", f"a cycle through {stuck}", "an acyclic graph", "Cut it.")
        return tuple(order)


def _optional(name: str, value: float | None, unit: str) -> None:
    if value is not None:
        number(name, value, low=0, low_open=True, unit=unit, remedy="Use None for unknown.")
