"""Micro-batches under a policy, as a fluid: is a policy steady, and what does it hold (ours [D])?

A batch takes the rows that came since the last one began; each partition works on its share with
the lanes that it has, as many tasks at a time as there are cores; then the rest of the batch, which
lanes do not shorten. The next batch begins with the next multiple of the trigger's interval, or at
once if that is over. Lanes wait for something outside (a service, say): they take no core from each
other. The loop's own turns measure it, decide and act: what it sees are snapshots, as of a running
query.

With stores, each partition's task commits, too. A rescale takes a core while it rewrites the state,
and then makes the query wait; from the next batch on there are other partitions.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from laneshift import inputcheck
from laneshift.autoscale.moves import Trace
from laneshift.autoscale.options import AutoscaleOptions
from laneshift.autoscale.turns import Turns
from laneshift.contract.batch_load import BatchLoad
from laneshift.contract.policy import Policy
from laneshift.errors import LaneshiftError
from laneshift.plugin.gateway import Applied, Gateway
from laneshift.plugin.partition import (
    Latency,
    LoadMetric,
    PartitionBatch,
    PartitionSnapshot,
    Pauses,
)
from laneshift.plugin.rescale import RescaleProgress, RescaleState
from laneshift.plugin.snapshot import (
    BatchSnapshot,
    ExecutorSnapshot,
    HandoffMode,
    Mode,
    OperatorSnapshot,
    QuerySnapshot,
    Snapshot,
    SourceSnapshot,
    StoresSnapshot,
    Trigger,
    TriggerKind,
)
from laneshift.plugin.v1 import control_pb2 as pb
from laneshift_lab.simulator.rates import Rate


@dataclass(frozen=True)
class StoreScene:
    """What the stores of a query take, whatever a policy believes.

    Attributes:
        per_store_s: each partition's commit, however little it has (s, >= 0).
        row_s: a commit takes so much more for each row (s, >= 0).
        row_bytes: what it writes for each (bytes, >= 0).
        state_bytes: of all partitions (bytes, >= 0).
        build_bytes_per_s: what a rescale rewrites (bytes/s, > 0).
        pause_s: for how long the query then waits (s, >= 0).
    """

    per_store_s: float
    row_s: float = 0.0
    row_bytes: float = 100.0
    state_bytes: float = 0.0
    build_bytes_per_s: float = 15e6
    pause_s: float = 0.8

    def __post_init__(self) -> None:
        for name in ("per_store_s", "row_s", "pause_s"):
            inputcheck.number(name, getattr(self, name), low=0, unit="s")
        for name in ("row_bytes", "state_bytes"):
            inputcheck.number(name, getattr(self, name), low=0, unit="bytes")
        inputcheck.number(
            "build_bytes_per_s", self.build_bytes_per_s, low=0, low_open=True, unit="bytes/s"
        )


@dataclass(frozen=True)
class BatchScene:
    """A query in micro-batches, on one executor.

    Attributes:
        rate: rows that its source gets (rows/s).
        shares: of its partitions, of the rows, (m,), adding up to 1.
        cost_s: lane-seconds that a row takes (s, > 0).
        interval_s: the trigger's interval (s, > 0), or none: back to back.
        fixed_s: what a batch takes beside its lanes' work (s, >= 0).
        cores: of the executor (>= 1).
        lanes: of each partition at the start (>= 1).
        turn_s: time from one turn of the loop to the next (s, > 0).
        most_rows: most rows that a batch reads (>= 1), or none.
        noise: standard deviation of a batch's cost and rows over their mean (>= 0).
        seed: of that noise.
        stores: what they take; none: nothing, and no policy rescales.
    """

    rate: Rate
    shares: tuple[float, ...]
    cost_s: float
    interval_s: float | None
    fixed_s: float = 0.3
    cores: int = 16
    lanes: int = 2
    turn_s: float = 1.0
    most_rows: float | None = None
    noise: float = 0.02
    seed: int = 1
    stores: StoreScene | None = None

    def __post_init__(self) -> None:
        inputcheck.vector("shares", self.shares, low=0)
        for name in ("cost_s", "turn_s"):
            inputcheck.number(name, getattr(self, name), low=0, low_open=True, unit="s")
        inputcheck.number("fixed_s", self.fixed_s, low=0, unit="s")
        inputcheck.number("noise", self.noise, low=0)
        for name in ("cores", "lanes"):
            inputcheck.whole(name, getattr(self, name), low=1)
        if self.interval_s is not None:
            inputcheck.number("interval_s", self.interval_s, low=0, low_open=True, unit="s")


@dataclass(frozen=True)
class BatchRow:
    """One batch.

    Attributes:
        begin_s, took_s: when it began and how long it took (s).
        rows: that it read.
        work_s: lane-seconds of each partition, (m,).
        lanes: that each partition had, (m,).
    """

    begin_s: float
    took_s: float
    rows: float
    work_s: tuple[float, ...]
    lanes: tuple[int, ...]


@dataclass(frozen=True)
class BatchRun:
    """A run: its batches, when lanes changed (s), partition by partition, and rescales: when they
    took over (s), and the numbers of partitions before and after.
    """

    scene: BatchScene
    batches: tuple[BatchRow, ...]
    changes: tuple[float, ...]
    rescales: tuple[tuple[float, int, int], ...] = ()

    def changes_after(self, time_s: float) -> int:
        """Turns in which lanes changed from ``time_s`` on (count)."""
        return len({at for at in self.changes if at >= time_s})

    def missed_after(self, time_s: float) -> int:
        """Batches from ``time_s`` on that took longer than the interval (count)."""
        most = math.inf if self.scene.interval_s is None else self.scene.interval_s
        return sum(b.took_s > most for b in self.batches if b.begin_s >= time_s)

    def core_s(self, time_s: float = 0.0) -> float:
        """Core-seconds that lanes held from ``time_s`` on."""
        ends = [b.begin_s for b in self.batches[1:]]
        return sum(
            sum(b.lanes) * (end - b.begin_s)
            for b, end in zip(self.batches, ends, strict=False)
            if b.begin_s >= time_s
        )

    def oracle_core_s(self, target_utilisation: float, time_s: float = 0.0) -> float:
        """Core-seconds of who knows each batch's work before it begins and keeps to the target."""
        ends = [b.begin_s for b in self.batches[1:]]
        total = 0.0
        for b, end in zip(self.batches, ends, strict=False):
            if b.begin_s >= time_s:
                paced = self.scene.interval_s is not None
                period = self.scene.interval_s or b.took_s
                load = BatchLoad(
                    0, period, paced, 0.0, 0.0, 0.0, self.scene.fixed_s if paced else 0.0
                )
                most = load.available_s(target_utilisation)
                total += sum(max(1, math.ceil(w / most - 1e-9)) for w in b.work_s) * (
                    end - b.begin_s
                )
        return total


def run_batches(policy: Policy[Any], scene: BatchScene, duration_s: float) -> BatchRun:
    """Simulate ``duration_s`` seconds (> 0). Deterministic by the scene's seed."""
    inputcheck.number("duration_s", duration_s, low=0, low_open=True, unit="s")
    return _Run(policy, scene).until(duration_s)


@dataclass(frozen=True)
class _Ended:
    """A batch that ends at ``end_s``, and what each partition did in it."""

    begin_s: float
    end_s: float
    batch: BatchSnapshot
    parts: Sequence[PartitionBatch]


class _Run:
    """The query, what the plugin would tell of it, and where commands go."""

    def __init__(self, policy: Policy[Any], scene: BatchScene) -> None:
        self._scene = scene
        self._rng = np.random.default_rng(scene.seed)
        gateway = cast(Gateway, self)  # of which it has what such a query is asked
        options = AutoscaleOptions(interval_s=scene.turn_s)
        self._loop = Turns(gateway, policy, options, "simulator", Trace(gateway, None))
        self._partitions(scene.shares)
        self._rescale: RescaleProgress | None = None
        self._now_s, self._ready_s = 0.0, math.inf  # of the turn, and when it takes over
        self._rescales: list[tuple[float, int, int]] = []
        self._batches: list[BatchRow] = []
        self._changes: list[float] = []
        self._ended: list[_Ended] = []
        self._newest: BatchSnapshot | None = None

    def until(self, duration_s: float) -> BatchRun:
        scene, begin, since, left = self._scene, 0.0, -(self._scene.interval_s or 1.0), 0.0
        turn = 0.0
        number = 0
        while begin < duration_s:
            # The loop's turns up to the begin of this batch see the newest that has ended.
            while turn <= begin:
                self._look(turn)
                turn += scene.turn_s
            if self._ready_s <= begin:
                begin = self._take_over(begin)
            arrived = scene.rate.mean(since, begin) * (begin - since) * self._chance()
            rows = arrived + left
            if scene.most_rows is not None:
                rows = min(rows, scene.most_rows)
            left += arrived - rows
            done = self._batch(number, begin, begin - since, rows)
            self._ended.append(done)
            work = tuple(part.busy_s for part in done.parts)
            took = done.end_s - begin
            self._batches.append(BatchRow(begin, took, rows, work, tuple(self._lanes)))
            number, since = number + 1, begin
            begin = done.end_s
            if scene.interval_s is not None:
                due = (math.floor(since / scene.interval_s + 1e-9) + 1) * scene.interval_s
                begin = max(due, begin)
        return BatchRun(scene, tuple(self._batches), tuple(self._changes), tuple(self._rescales))

    def _partitions(self, shares: tuple[float, ...]) -> None:
        """There are as many, each with the scene's lanes; nothing of them has been seen."""
        self._shares = shares
        self._lanes = [self._scene.lanes] * len(shares)
        self._done: list[PartitionBatch | None] = [None] * len(shares)
        self._rows = [0] * len(shares)
        self._busy_s = [0.0] * len(shares)

    def _take_over(self, now: float) -> float:
        """When the query goes on with other partitions: what one had beyond the mean stays."""
        assert self._scene.stores is not None and self._rescale is not None
        pause_s, partitions = self._scene.stores.pause_s, self._rescale.after
        self._rescales.append((now + pause_s, len(self._shares), partitions))
        beyond = max(self._shares) - 1.0 / len(self._shares)
        rest = (1.0 - beyond) / partitions
        self._partitions((rest + beyond, *[rest] * (partitions - 1)))
        self._rescale = replace(
            self._rescale, state=RescaleState.DONE, ended=True, pause_ms=1000.0 * pause_s
        )
        self._ready_s, self._ended = math.inf, []
        return now + pause_s

    def _chance(self) -> float:
        return float(max(0.5, 1.0 + self._scene.noise * self._rng.standard_normal()))

    def _batch(self, number: int, begin: float, arrived_s: float, rows: float) -> _Ended:
        """What the partitions do, and how long the batch takes."""
        scene, done, stores = self._scene, [], self._scene.stores
        free = [0.0] * max(1, scene.cores - (self._ready_s < math.inf))
        last = committed = 0.0
        for share, lanes in zip(self._shares, self._lanes, strict=True):
            busy = rows * share * scene.cost_s * self._chance()
            took = busy / lanes
            if stores is not None:
                commit = (stores.per_store_s + rows * share * stores.row_s) * self._chance()
                took, committed = took + commit, committed + commit
            ends = heapq.heappop(free) + took
            heapq.heappush(free, ends)
            last = max(last, ends)
            done.append(PartitionBatch(number, lanes, round(rows * share), busy, took))
        took = scene.fixed_s * self._chance() + last
        state: tuple[StoresSnapshot, ...] = ()
        if stores is not None:
            written = round(rows * stores.row_bytes)
            state = (StoresSnapshot("stores", len(done), len(done), committed, written),)
        source = SourceSnapshot("source", round(rows), round(rows) / arrived_s, None)
        return _Ended(begin, begin + took, BatchSnapshot(number, took, (source,), state), done)

    # ---- what the plugin would tell

    def _look(self, now: float) -> None:
        """A turn of the loop."""
        self._now_s = now
        while self._ended and self._ended[0].end_s <= now:
            ended = self._ended.pop(0)
            self._newest, self._done = ended.batch, list(ended.parts)
            for n, part in enumerate(ended.parts):
                self._rows[n] += part.rows
                self._busy_s[n] += part.busy_s
        for decision, _ in self._loop.turn(self._snapshot(now), sends=True):
            self._changes += [now] * len(decision.changes)

    def _snapshot(self, now: float) -> Snapshot:
        count, interval_s = len(self._shares), self._scene.interval_s
        runs = any(ended.begin_s <= now for ended in self._ended)
        parts = tuple(self._partition(n, runs) for n in range(count))
        kind = TriggerKind.BACK_TO_BACK if interval_s is None else TriggerKind.INTERVAL
        query = QuerySnapshot(
            "query", "run", "query", Mode.MICRO_BATCH, True,
            (OperatorSnapshot(
                0, "operator", HandoffMode.BETWEEN_BATCHES, (), parts, count, count
            ),),
            self._newest, trigger=Trigger(kind, interval_s), rescale=self._rescale,
        )  # fmt: skip
        cores = self._scene.cores
        node = ExecutorSnapshot("node", "node", cores, min(count, cores) if runs else 0)
        return Snapshot(round(1000 * now), "simulated", (node,), (query,))

    def _partition(self, number: int, runs: bool) -> PartitionSnapshot:
        lanes, rows, done = self._lanes[number], self._rows[number], self._done[number]
        stores = self._scene.stores
        state_bytes = 0.0 if stores is None else stores.state_bytes * self._shares[number]
        none, nothing = np.zeros(lanes, dtype=np.int64), np.zeros(lanes)
        return PartitionSnapshot(
            number, "node", "node", -1 if done is None else done.batch_id, runs, lanes,
            max_lanes=self._scene.cores, lane_of_shard=none[:1], shard_load=nothing[:1],
            load_metric=LoadMetric.ROWS, rows_in_per_s=0.0, rows_out_per_s=0.0, bytes_in_per_s=0.0,
            bytes_out_per_s=0.0, rows_in=rows, rows_out=rows, bytes_in=0, bytes_out=0,
            lane_rows=none, lane_busy=nothing, queue_rows=none, queue_bytes=none,
            queue_bytes_limit=1 << 20, rows_taken=rows, busy_s=self._busy_s[number],
            blocked_s=0.0, handoffs=0, handoffs_per_s=0.0, in_flight=0,
            pause_us=Pauses(0.0, 0.0, 0.0, 0), state_rows=0, state_memory_bytes=round(state_bytes),
            state_file_bytes=0, latency_ms=Latency(0.0, 0.0, 0.0, 0.0, 0), last_batch=done,
        )  # fmt: skip

    # ---- what it would be told

    def set_lanes(self, wishes: Sequence[pb.LanesWish]) -> list[Applied | LaneshiftError]:
        """The next batch has them."""
        for wish in wishes:
            self._lanes[wish.partition] = wish.lanes
        return [Applied.NEXT_BATCH] * len(wishes)

    def rescale(self, _query: str, partitions: int) -> None:
        """It begins, unless one is under way or there are no stores."""
        stores = self._scene.stores
        if stores is not None and (self._rescale is None or self._rescale.ended):
            seconds = stores.state_bytes / stores.build_bytes_per_s
            self._ready_s = self._now_s + seconds
            self._rescale = RescaleProgress(
                len(self._shares), partitions, RescaleState.BUILDING, False, None, 0, partitions,
                0, None, 0.0,
            )  # fmt: skip
