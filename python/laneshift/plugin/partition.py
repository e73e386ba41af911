"""What one elastic partition does right now, as the plugin says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


class LoadMetric(StrEnum):
    """What load is: ``ROWS`` (rows/s) or ``CPU`` (CPU seconds per second)."""

    ROWS = "rows"
    CPU = "cpu"


@dataclass(frozen=True, slots=True)
class Pauses:
    """How long moved shards stood still: microseconds over ``count`` handoffs (0 if none)."""

    p50: float
    p99: float
    max: float
    count: int


@dataclass(frozen=True, slots=True)
class Latency:
    """Age of outputs (ms) when they left the operator, over the last full ten seconds.

    ``count`` outputs were measured: 0 if ``spark.sql.laneshift.latencyColumn`` names no column of
    theirs.
    """

    mean: float
    p50: float
    p99: float
    max: float
    count: int


@dataclass(frozen=True, slots=True)
class PartitionBatch:
    """The newest batch that a partition has finished (micro-batch mode only).

    Attributes:
        batch_id: its number.
        lanes: lanes that the partition had at its end (count).
        rows: rows of the batch that came to the partition.
        busy_s: how long all lanes together worked on them (lane-seconds), commits left out.
        took_s: from the begin of the partition's task to its end (s), without waits for its turn
            where it shares a task with others.
    """

    batch_id: int
    lanes: int
    rows: int
    busy_s: float
    took_s: float


@dataclass(frozen=True, slots=True)
class RemoteLane:
    """A lane of a partition that works on another executor.

    Attributes:
        lane: its number among the partition's lanes.
        executor: id of the executor that runs it.
        open: whether it takes part; its session is being opened otherwise.
        kept_bytes: rows that it was sent and has not acknowledged (bytes).
        rows_sent: rows that it was sent since its session began.
        frames: answers with what followed from them.
        state_reads: reads of state that it did not have.
        bytes_sent: bytes of all messages to it.
        bytes_received: bytes of all messages from it.
    """

    lane: int
    executor: str
    open: bool
    kept_bytes: int
    rows_sent: int
    frames: int
    state_reads: int
    bytes_sent: int
    bytes_received: int


@dataclass(frozen=True, slots=True)
class HotKey:
    """A key that has much of its partition's rows, lately: 10 to 20 s, or more where rows are few.

    Attributes:
        key: the hash that Spark's shuffle takes of it, as hexadecimal digits.
        value: the key itself, as ``show()`` prints it and its first 100 characters; None unless
            ``spark.sql.laneshift.hotKeys.show`` is ``values``.
        share: its part of the partition's rows (0 to 1), measured on a sample.
    """

    key: str
    value: str | None
    share: float


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
        pause_us: their pauses.
        state_rows: keys in its state stores at their last commit.
        state_memory_bytes: what RocksDB holds in memory for it then: new rows, indexes, cached
            blocks (bytes).
        state_file_bytes: RocksDB's table files of it then, without rows that are in memory only.
        latency_ms: how old its outputs are.
        last_batch: the newest batch that it has finished, None before the first and in Real-time
            Mode.
        auto: whether its lanes are left to the plugin (``spark.sql.laneshift.lanes=auto``), because
            nobody has set them.
        elsewhere: its lanes on other executors; ``lanes`` counts those that are open.
        max_elsewhere: lanes that it may have on other executors (count): 0 where its operator keeps
            them home.
        wanted_elsewhere: those that it is to have there, by executor, open or not.
        rows_taken_elsewhere, busy_elsewhere_s: of ``rows_taken`` and ``busy_s``, that of lanes on
            other executors, where the way over the network counts as work.
        elsewhere_note: why the last of them that was wanted and is not there is not.
        hot_keys: the keys with the most of its rows, the hottest first: all that have a twentieth
            of them or more.
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
    load_metric: LoadMetric
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
    pause_us: Pauses
    state_rows: int
    state_memory_bytes: int
    state_file_bytes: int
    latency_ms: Latency
    last_batch: PartitionBatch | None = None
    auto: bool = False
    elsewhere: tuple[RemoteLane, ...] = ()
    max_elsewhere: int = 0
    wanted_elsewhere: Mapping[str, int] = field(default_factory=dict)
    rows_taken_elsewhere: int = 0
    busy_elsewhere_s: float = 0.0
    elsewhere_note: str | None = None
    hot_keys: tuple[HotKey, ...] = ()

    @property
    def home_lanes(self) -> int:
        """Lanes on its own executor that shards may come to (count)."""
        return self.lanes - sum(0 <= there.lane < self.lanes for there in self.elsewhere)

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
