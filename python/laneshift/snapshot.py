"""What runs right now: the plugin's answer as frozen dataclasses with read-only numpy arrays.

Nothing here calls Spark. Units are in the attribute docs; arrays are indexed by shard or by lane.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Pauses:
    """How long moved shards stood still: microseconds over ``count`` handoffs (0 if none)."""

    p50_us: float
    p99_us: float
    max_us: float
    count: int


@dataclass(frozen=True, slots=True)
class Latency:
    """Age of outputs (ms) when they left the operator, over the last full ten seconds.

    ``count`` outputs were measured: 0 if ``spark.sql.laneshift.latencyColumn`` names no column of
    theirs.
    """

    mean_ms: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class PartitionSnapshot:
    """One elastic partition: one state partition of an elastic operator.

    Attributes:
        partition: its number, from 0.
        executor, host: the Spark executor that runs it and that executor's host.
        batch_id: the batch that it last worked on.
        running: whether its task runs at this moment.
        lanes, max_lanes: lanes that it has and may have (count).
        lane_of_shard: lane that owns each shard, int64 (shards,).
        shard_load: load of each shard per second, smoothed, float64 (shards,), in ``load_metric``.
        load_metric: ``rows`` (rows/s) or ``cpu`` (CPU seconds per second).
        rows_in_per_s, rows_out_per_s: rates of the last interval (rows/s).
        bytes_in_per_s, bytes_out_per_s: the same in bytes of Spark's binary row format (bytes/s).
        rows_in, rows_out, bytes_in, bytes_out: rows and bytes since the query started.
        lane_rows: rows that each lane took since the query started, int64 (lanes,).
        lane_busy: share of the last interval that each lane worked (0 to 1), float64 (lanes,).
        queue_rows, queue_bytes: what waits in each lane's queue, int64 (lanes,).
        queue_bytes_limit: bound of one lane's queue (bytes).
        rows_taken, busy_s: rows that lanes have taken since the query started, and how long all
            lanes together have worked on them (s): waits for rows and for room behind them are left
            out, waits inside the operators' own code are not.
        blocked_s: how long the input has waited for room in queues (s).
        handoffs, in_flight: handoffs done since the query started, and going on now (count).
        handoffs_per_s: handoffs per second of the last interval.
        pauses: their pauses.
        state_rows: keys in its state stores at their last commit.
        state_memory_bytes: what RocksDB holds in memory for it then: new rows, indexes, cached
            blocks (bytes).
        state_file_bytes: RocksDB's table files of it then, without rows that are in memory only.
        latency: how old its outputs are.
    """

    partition: int
    executor: str
    host: str
    batch_id: int
    running: bool
    lanes: int
    max_lanes: int
    lane_of_shard: IntArray
    shard_load: FloatArray
    load_metric: str
    rows_in_per_s: float
    rows_out_per_s: float
    bytes_in_per_s: float
    bytes_out_per_s: float
    rows_in: int
    rows_out: int
    bytes_in: int
    bytes_out: int
    lane_rows: IntArray
    lane_busy: FloatArray
    queue_rows: IntArray
    queue_bytes: IntArray
    queue_bytes_limit: int
    rows_taken: int
    busy_s: float
    blocked_s: float
    handoffs: int
    handoffs_per_s: float
    in_flight: int
    pauses: Pauses
    state_rows: int
    state_memory_bytes: int
    state_file_bytes: int
    latency: Latency

    @property
    def shards(self) -> int:
        """Number of shards."""
        return int(self.lane_of_shard.size)

    @property
    def lane_load(self) -> FloatArray:
        """Load of each lane's shards together, float64 (lanes,), in ``load_metric``."""
        size = max(self.lanes, int(self.lane_of_shard.max(initial=-1)) + 1)
        load = np.bincount(self.lane_of_shard, weights=self.shard_load, minlength=size)
        return load.astype(np.float64)

    @property
    def imbalance(self) -> float:
        """Load of the busiest lane over the mean of all lanes (1 = even; 1 if there is no load)."""
        load = self.lane_load
        mean = float(load.mean()) if load.size else 0.0
        return float(load.max()) / mean if mean > 0 else 1.0


@dataclass(frozen=True, slots=True)
class OperatorSnapshot:
    """An elastic operator of a query.

    ``handoff`` says when its shards may move: ``mid-batch``, ``mid-batch-restart`` (any time, too,
    but the lane starts its operators again) or ``between-batches``. ``upstream`` are the ids of the
    elastic operators of the query that feed it.
    """

    operator_id: int
    name: str
    handoff: str
    upstream: tuple[int, ...]
    partitions: tuple[PartitionSnapshot, ...]

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
class BatchSnapshot:
    """The newest batch of a query that has ended: its number, duration (s) and sources."""

    batch_id: int
    duration_s: float
    sources: tuple[SourceSnapshot, ...]


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
    """A streaming query with elastic operators. ``mode`` is ``micro-batch`` or ``real-time``.

    ``batch`` is None until the first batch has ended. ``given`` is None as long as nothing was
    counted: in Real-time Mode only ``laneshift-workload`` and ``laneshift-replay`` count.
    """

    id: str
    run_id: str
    name: str | None
    mode: str
    active: bool
    operators: tuple[OperatorSnapshot, ...]
    batch: BatchSnapshot | None = None
    given: SourceCount | None = None

    @property
    def label(self) -> str:
        """How messages call the query: ``'name' (id)`` or the id."""
        return f"'{self.name}' ({self.id})" if self.name else self.id


@dataclass(frozen=True, slots=True)
class ExecutorSnapshot:
    """An executor that runs the plugin: its ``cores`` and the Spark tasks on it now (counts)."""

    executor: str
    host: str
    cores: int
    active_tasks: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All elastic queries of a Spark application at ``time_ms`` (milliseconds since 1970, UTC)."""

    time_ms: int
    version: str
    executors: tuple[ExecutorSnapshot, ...]
    queries: tuple[QuerySnapshot, ...]

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Snapshot:
        """Read the plugin's answer. Errors: KeyError, TypeError, ValueError if malformed."""
        return Snapshot(
            int(data["time_ms"]),
            str(data["version"]),
            tuple(
                ExecutorSnapshot(
                    str(e["executor"]), str(e["host"]), int(e["cores"]), int(e["active_tasks"])
                )
                for e in data["executors"]
            ),
            tuple(map(_query, data["queries"])),
        )


@dataclass(frozen=True, slots=True)
class Handoff:
    """One shard that moved. Times in microseconds; ``pause_us`` is what the shard's rows waited.

    Attributes:
        seq: its number within its executor, from 0, rising.
        time_ms: when it ended (milliseconds since 1970, UTC).
        query_id, operator_id, partition, shard: what moved.
        source, target: lane that gave and lane that took it.
        reason: ``balance``, ``motion``, ``user`` or ``scale``.
        batch_id: the batch in which it moved.
        drain_us: how long the source lane took to come to the end of a row; the shard's rows went
            on meanwhile.
        flush_us, switch_us: the pause is their sum: the source lane's outputs are put out; the
            rows go to the new lane.
        moved_rows: rows that went along, worked on by neither lane yet.
    """

    seq: int
    time_ms: int
    query_id: str
    operator_id: int
    partition: int
    shard: int
    source: int
    target: int
    reason: str
    batch_id: int
    drain_us: float
    flush_us: float
    switch_us: float
    pause_us: float
    moved_rows: int

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Handoff:
        """Read one entry of the plugin's history. Errors as :meth:`Snapshot.from_json`."""
        return Handoff(
            seq=int(data["seq"]),
            time_ms=int(data["time_ms"]),
            query_id=str(data["query_id"]),
            operator_id=int(data["operator_id"]),
            partition=int(data["partition"]),
            shard=int(data["shard"]),
            source=int(data["from"]),
            target=int(data["to"]),
            reason=str(data["reason"]),
            batch_id=int(data["batch_id"]),
            drain_us=float(data["drain_us"]),
            flush_us=float(data["flush_us"]),
            switch_us=float(data["switch_us"]),
            pause_us=float(data["pause_us"]),
            moved_rows=int(data["moved_rows"]),
        )


def _query(data: Mapping[str, Any]) -> QuerySnapshot:
    return QuerySnapshot(
        id=str(data["id"]),
        run_id=str(data["run_id"]),
        name=None if data.get("name") is None else str(data["name"]),
        mode=str(data["mode"]),
        active=bool(data["active"]),
        operators=tuple(
            OperatorSnapshot(
                int(o["operator_id"]),
                str(o["name"]),
                str(o["handoff"]),
                tuple(map(int, o["upstream"])),
                tuple(map(_partition, o["partitions"])),
            )
            for o in data["operators"]
        ),
        batch=None if data.get("batch") is None else _batch(data["batch"]),
        given=None if data.get("given") is None else _given(data["given"]),
    )


def _given(data: Mapping[str, Any]) -> SourceCount:
    batch = data["batch_id"]
    return SourceCount(int(data["rows"]), None if batch is None else int(batch))


def _batch(data: Mapping[str, Any]) -> BatchSnapshot:
    return BatchSnapshot(
        int(data["batch_id"]),
        float(data["duration_s"]),
        tuple(
            SourceSnapshot(
                str(s["name"]),
                int(s["rows"]),
                float(s["rows_per_s"]),
                None if s["backlog_rows"] is None else int(s["backlog_rows"]),
            )
            for s in data["sources"]
        ),
    )


def _partition(data: Mapping[str, Any]) -> PartitionSnapshot:
    pause, age = data["pause_us"], data["latency_ms"]
    lane_of_shard = _ints(data["lane_of_shard"])
    if int(data["shards"]) != lane_of_shard.size:
        raise ValueError(
            f"{lane_of_shard.size} entries in lane_of_shard of {data['shards']} shards"
        )
    whole = ("partition", "batch_id", "lanes", "max_lanes", "rows_in", "rows_out", "handoffs")
    limits = ("rows_taken", "in_flight", "queue_bytes_limit", "bytes_in", "bytes_out")
    state = ("state_rows", "state_memory_bytes", "state_file_bytes")
    return PartitionSnapshot(
        executor=str(data["executor"]),
        host=str(data["host"]),
        running=bool(data["running"]),
        lane_of_shard=lane_of_shard,
        shard_load=_floats(data["shard_load"]),
        load_metric=str(data["load_metric"]),
        lane_rows=_ints(data["lane_rows"]),
        lane_busy=_floats(data["lane_busy"]),
        queue_rows=_ints(data["queue_rows"]),
        queue_bytes=_ints(data["queue_bytes"]),
        busy_s=float(data["busy_s"]),
        blocked_s=float(data["blocked_s"]),
        pauses=Pauses(
            float(pause["p50"]), float(pause["p99"]), float(pause["max"]), int(pause["count"])
        ),
        latency=Latency(
            float(age["mean"]),
            float(age["p50"]),
            float(age["p99"]),
            float(age["max"]),
            int(age["count"]),
        ),
        rows_in_per_s=float(data["rows_in_per_s"]),
        rows_out_per_s=float(data["rows_out_per_s"]),
        bytes_in_per_s=float(data["bytes_in_per_s"]),
        bytes_out_per_s=float(data["bytes_out_per_s"]),
        handoffs_per_s=float(data["handoffs_per_s"]),
        **{name: int(data[name]) for name in whole + limits + state},
    )


def _ints(values: Any) -> IntArray:
    array = np.array(values, dtype=np.int64)
    array.setflags(write=False)
    return array


def _floats(values: Any) -> FloatArray:
    array = np.array(values, dtype=np.float64)
    array.setflags(write=False)
    return array
