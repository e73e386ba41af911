"""What runs right now: the plugin's answer as frozen dataclasses with read-only numpy arrays.

Nothing here calls Spark. Units are in the attribute docs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from laneshift.plugin import table
from laneshift.plugin.partition import PartitionSnapshot
from laneshift.plugin.rescale import RescaleProgress

if TYPE_CHECKING:
    import pandas as pd


class Mode(StrEnum):
    """How a query runs."""

    MICRO_BATCH = "micro-batch"
    REAL_TIME = "real-time"


class HandoffMode(StrEnum):
    """When shards may move: ``MID_BATCH``, ``MID_BATCH_RESTART`` (any time, too, but the lane
    starts its operators again) or ``BETWEEN_BATCHES``; ``DEALT`` without state, and so without
    shards: rows go to any lane.
    """

    MID_BATCH = "mid-batch"
    MID_BATCH_RESTART = "mid-batch-restart"
    BETWEEN_BATCHES = "between-batches"
    DEALT = "dealt"


class RowWork(StrEnum):
    """Where row-wise work above an operator's state is done: ``WITH_STATE``, by the key's lane,
    ``APART``, by any lane, as an operator of its own, or ``NONE`` if none could go apart.
    """

    NONE = "none"
    WITH_STATE = "with-state"
    APART = "apart"


class TriggerKind(StrEnum):
    """What starts a query's batches."""

    INTERVAL = "interval"
    BACK_TO_BACK = "back-to-back"
    AVAILABLE_NOW = "available-now"
    REAL_TIME = "real-time"


@dataclass(frozen=True, slots=True)
class OperatorSnapshot:
    """An elastic operator of a query.

    ``handoff`` says when its shards may move. ``upstream`` are the ids of the elastic operators of
    the query that feed it. ``tasks`` is how many Spark tasks compute its partitions, a range of
    them in each: fewer than there are where these are more than four a slot, unless somebody wants
    it otherwise. ``partition_count`` is how many
    it has: ``partitions`` are those that were computed since the query started. ``inputs`` are
    shuffles that it reads: a join has two or more. ``above`` says where row-wise work above its
    state is done.
    """

    operator_id: int
    name: str
    handoff: HandoffMode
    upstream: tuple[int, ...]
    partitions: tuple[PartitionSnapshot, ...]
    tasks: int
    partition_count: int
    inputs: int = 1
    above: RowWork = RowWork.NONE

    @property
    def is_dealt(self) -> bool:
        """Whether its rows go to any lane: what is said of its one shard means nothing."""
        return self.handoff is HandoffMode.DEALT

    @property
    def lanes(self) -> int:
        """Lanes of all partitions together."""
        return sum(p.lanes for p in self.partitions)

    @property
    def handoffs(self) -> int:
        """Handoffs of all partitions since the query started."""
        return sum(p.handoffs for p in self.partitions)

    @property
    def rows_in(self) -> int:
        """Rows that entered all partitions since the query started."""
        return sum(p.rows_in for p in self.partitions)

    @property
    def rows_in_per_s(self) -> float:
        """Rows per second that enter all partitions."""
        return sum(p.rows_in_per_s for p in self.partitions)


@dataclass(frozen=True, slots=True)
class SourceSnapshot:
    """A source in its query's newest batch that has ended, as Spark reports it.

    Attributes:
        name: how Spark describes it.
        rows, rows_per_s: what the batch read of it (rows, rows/s).
        backlog_rows: rows that it had beyond those when the batch ended or was planned; None if the
            source does not tell (Kafka and laneshift's own do).
    """

    name: str
    rows: int
    rows_per_s: float
    backlog_rows: int | None


@dataclass(frozen=True, slots=True)
class StoresSnapshot:
    """The stores of a stateful operator, elastic or not, in one batch.

    Attributes:
        name: of the operator, as Spark reports it.
        partitions, stores: state partitions, and stores in them (count): a join has several each.
        commit_s: how long opening and committing all of them took, added up (s).
        written_bytes: what that wrote (bytes); 0 for providers other than RocksDB's.
    """

    name: str
    partitions: int
    stores: int
    commit_s: float
    written_bytes: int


@dataclass(frozen=True, slots=True)
class BatchSnapshot:
    """The newest batch of a query that has ended: its number, duration (s), sources, and the stores
    of each stateful operator.
    """

    batch_id: int
    duration_s: float
    sources: tuple[SourceSnapshot, ...]
    state: tuple[StoresSnapshot, ...] = ()


@dataclass(frozen=True, slots=True)
class Trigger:
    """What starts a query's batches.

    Attributes:
        kind: what starts them.
        interval_s: time from one batch to the next (s); None if no interval paces them.
    """

    kind: TriggerKind
    interval_s: float | None = None


@dataclass(frozen=True, slots=True)
class SourceCount:
    """Rows that a query's sources have given since it started.

    In Real-time Mode they are counted as they come and ``batch_id`` is None; in micro-batch they
    are those of all batches up to ``batch_id``.
    """

    rows: int
    batch_id: int | None


@dataclass(frozen=True, slots=True)
class QuerySnapshot:
    """A streaming query with elastic operators.

    ``batch`` is None until the first batch has ended, ``trigger`` if it is not known. ``given`` is
    None as long as nothing was counted: in Real-time Mode only laneshift's own sources count.
    ``rescale`` is the newest of this run, None if none was asked for.
    """

    id: str
    run_id: str
    name: str | None
    mode: Mode
    active: bool
    operators: tuple[OperatorSnapshot, ...]
    batch: BatchSnapshot | None = None
    given: SourceCount | None = None
    trigger: Trigger | None = None
    rescale: RescaleProgress | None = None

    @property
    def label(self) -> str:
        """How messages call the query: ``'name' (id)`` or the id."""
        return f"'{self.name}' ({self.id})" if self.name else self.id

    @property
    def partitions(self) -> tuple[PartitionSnapshot, ...]:
        """Partitions of all operators, one operator after the other."""
        return tuple(p for o in self.operators for p in o.partitions)

    def to_pandas(self) -> pd.DataFrame:
        """A row for each partition, columns as in ``repr``. Errors: ImportError without pandas."""
        return table.pandas([self])

    def __repr__(self) -> str:
        return table.text(self._head, [self])

    def _repr_html_(self) -> str:
        return table.html(self._head, [self])

    @property
    def _head(self) -> str:
        state = "running" if self.active else "stopped"
        batch = "" if self.batch is None else f", batch {self.batch.batch_id}"
        return f"query {self.label}, {self.mode}, {state}{batch}"


@dataclass(frozen=True, slots=True)
class ExecutorSnapshot:
    """An executor that runs the plugin, and what uses its cores now.

    Attributes:
        executor, host: its id, and where it is.
        cores, active_tasks: its cores as tasks count them, each of ``spark.task.cpus``, and the
            Spark tasks on it (counts).
        leaving: whether Spark gives it no tasks any more: it is decommissioned or excluded; or
            whether it is to be given back.
        asked: whether it is there because an autoscaler has asked for it.
        home_lanes: lanes of its own partitions, beyond the first of each (count).
        host_lanes: lanes of other executors' partitions (count).
        idle_cores: cores that neither tasks nor lanes have; 0 if it leaves or does not
            answer.
        remote_rows, remote_frames, remote_state_reads, remote_bytes_sent, remote_bytes_received:
            what has gone between its partitions and their lanes on other executors since it
            started: rows, answers with what followed from them, questions about state, bytes.
        remote_kept_bytes: rows that were sent there and are not answered for (bytes).
        remote_lost_hosts: such lanes that were lost with their executor (count).
    """

    executor: str
    host: str
    cores: int
    active_tasks: int
    leaving: bool = False
    asked: bool = False
    home_lanes: int = 0
    host_lanes: int = 0
    idle_cores: int = 0
    remote_rows: int = 0
    remote_frames: int = 0
    remote_state_reads: int = 0
    remote_bytes_sent: int = 0
    remote_bytes_received: int = 0
    remote_kept_bytes: int = 0
    remote_lost_hosts: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All elastic queries of a Spark application at ``time_ms`` (milliseconds since 1970, UTC).

        snapshot = app.snapshot()
        print(sum(executor.idle_cores for executor in snapshot.executors))

    ``silent`` are ids of executors that did not answer: nothing is said of what they have.
    ``count_ms`` goes on by one each millisecond, from whatever number, and never back;
    ``set_back_ms`` is how far the driver's clock is behind ``time_ms`` that goes by that.
    """

    time_ms: int
    version: str
    executors: tuple[ExecutorSnapshot, ...]
    queries: tuple[QuerySnapshot, ...]
    silent: tuple[str, ...] = ()
    count_ms: int | None = None
    set_back_ms: int = 0

    def to_pandas(self) -> pd.DataFrame:
        """A row for each partition of every query. Errors: ImportError without pandas."""
        return table.pandas(self.queries)

    def __repr__(self) -> str:
        return table.text(self._head, self.queries)

    def _repr_html_(self) -> str:
        return table.html(self._head, self.queries)

    @property
    def _head(self) -> str:
        cores, idle = (sum(getattr(e, n) for e in self.executors) for n in ("cores", "idle_cores"))
        return (
            f"laneshift {self.version}: {len(self.queries)} queries, {len(self.executors)} "
            f"executors, {cores} cores, {idle} of them idle"
        )
