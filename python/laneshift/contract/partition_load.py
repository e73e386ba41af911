"""What was measured of one elastic partition over a window: what it holds, gets and takes."""

from __future__ import annotations

from dataclasses import dataclass

from laneshift.contract.batch_load import BatchLoad
from laneshift.contract.ids import (
    KeyId,
    LaneId,
    NodeId,
    OperatorId,
    PartitionId,
    QueryId,
    ShardId,
)
from laneshift.contract.measured import REMEDY, optional
from laneshift.contract.shard_table import ShardTable
from laneshift.errors import InputError
from laneshift.inputcheck import number, unique, whole

NO_QUERY = QueryId("")
"""Of partitions whose query is not known."""


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
class LaneLoad:
    """A lane: one thread on one core.

    Attributes:
        lane: its id within the partition.
        node: where it runs.
        busy_share: share of the time in which it processed rows (0 to 1): in Real-time Mode of the
            plugin's last interval, 0 in the simulators, which do not know it. Micro-batches have
            no lanes here.
        queue_rows: rows waiting in its own queue at the end of the window (rows, >= 0).
    """

    lane: LaneId
    node: NodeId
    busy_share: float = 0.0
    queue_rows: float = 0.0

    def __post_init__(self) -> None:
        whole("lane", self.lane, low=0)
        number(f"busy_share of lane {self.lane}", self.busy_share, low=0, high=1, remedy=REMEDY)
        number(f"queue_rows of lane {self.lane}", self.queue_rows, low=0, remedy=REMEDY)


@dataclass(frozen=True, slots=True)
class HotKey:
    """A key heavy enough to be named.

    Attributes:
        key: its name.
        load_cores: its demand in cores (CPU seconds per second, >= 0).
        ways: lanes that process it (>= 1; more than 1 where it is split).
        shard: the shard that it is in, None if that is not known.
    """

    key: KeyId
    load_cores: float
    ways: int = 1
    shard: ShardId | None = None

    def __post_init__(self) -> None:
        whole(f"ways of key {self.key}", self.ways, low=1, unit="lanes")
        number(f"load_cores of key {self.key}", self.load_cores, low=0, remedy=REMEDY)


@dataclass(frozen=True)
class PartitionLoad:
    """One elastic partition (paper: elastic executor; in CRAA and OERA: operator, component).

    Attributes:
        partition, operator: ids.
        query: the query that it is part of; partitions that name none are of one query together.
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
        kept_at_home: cores on its home that it never gives up (count, >= 0): in a running query the
            one of its task's own lane.
        stays_home: whether its operator can have no core but on its home.
        batch: what its batches ask for, if its query runs in micro-batches; then the offered rate
            is a batch's rows over the period from one batch to the next.
        inputs: streams whose rows meet in its operator (count, >= 1): a join has two or more.
        repeated: whether nothing was measured since the window before, which is shown again.
        works_above: of row-wise work that is apart from the state below it, the partition with that
            state.
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
    lanes: tuple[LaneLoad, ...] = ()
    shards: ShardTable | None = None
    hot_keys: tuple[HotKey, ...] = ()
    query: QueryId = NO_QUERY
    batch: BatchLoad | None = None
    kept_at_home: int = 0
    stays_home: bool = False
    inputs: int = 1
    works_above: PartitionId | None = None
    repeated: bool = False

    def __post_init__(self) -> None:
        of = f"of partition {self.partition}"
        for name, unit in _PARTITION_NUMBERS:
            number(f"{name} {of}", getattr(self, name), low=0, unit=unit, remedy=REMEDY)
        number(
            f"service_rate_per_core {of}",
            self.service_rate_per_core,
            low=0,
            low_open=True,
            unit="rows/s",
            remedy="Keep the last measured rate when no row was processed.",
        )
        number(f"efficiency {of}", self.efficiency, low=0, low_open=True, high=1)
        optional(f"queue_capacity_rows {of}", self.queue_capacity_rows, "rows")
        for name, unit in (("output_rate", "rows/s"), ("latency_p99_s", "s")):
            if getattr(self, name) is not None:
                number(f"{name} {of}", getattr(self, name), low=0, unit=unit, remedy=REMEDY)
        if self.max_cores is not None:
            whole(f"max_cores {of}", self.max_cores, low=1, unit="cores")
        unique(f"placement {of}", [held.node for held in self.placement])
        whole(f"inputs {of}", self.inputs, low=1, unit="streams")
        whole(
            f"kept_at_home {of}",
            self.kept_at_home,
            low=0,
            high=self.cores_on(self.home),
            unit="cores",
            remedy="It keeps cores that it has.",
        )
        if self.stays_home and self.cores_on(self.home) != self.cores:
            raise InputError(
                f"placement {of}",
                self.cores,
                f"the {self.cores_on(self.home)} cores on its home, where it stays",
                "Record it where it is.",
            )
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
            known = {lane.lane for lane in self.lanes}
            strays = [lane for lane in self.shards.lane.tolist() if lane not in known]
            if strays:
                raise InputError(
                    f"shards.lane {of}",
                    strays[0],
                    f"one of the lanes {sorted(known)}",
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
