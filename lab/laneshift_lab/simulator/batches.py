"""Micro-batches under a policy, as a fluid: is a policy steady, and what does it hold (ours [D])?

A batch takes the rows that came since the last one began; each partition works on its share with
the lanes that it has, as many tasks at a time as there are cores; then the rest of the batch, which
lanes do not shorten. The next batch begins with the next multiple of the trigger's interval, or at
once if that is over. Lanes wait for something outside (a service, say): they take no core from each
other. What a policy sees is made by the code that measures running queries.

With stores, each partition's task commits, too. A rescale takes a core while it rewrites the state,
and then makes the query wait; from the next batch on there are other partitions.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from laneshift import inputcheck
from laneshift.scheduler.batch_budget import lanes_not_running
from laneshift.scheduler.batch_load import BatchLoad
from laneshift.scheduler.batch_rates import BatchRates, Done
from laneshift.scheduler.cluster_load import ClusterLoad, Node, SourceLoad
from laneshift.scheduler.ids import NodeId, OperatorId, PartitionId, QueryId, SourceId
from laneshift.scheduler.partition_load import NodeCores, PartitionLoad
from laneshift.scheduler.plan import Plan
from laneshift.scheduler.policies.base import Policy
from laneshift.scheduler.store_rates import RescaleSeen, StoreRates, StoresDone, StoreSizes
from laneshift_lab.simulator.rates import Rate

_NODE = NodeId("node")
_OPERATOR = OperatorId("query:0")


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
        turn_s: time from one look of the scheduler to the next (s, > 0).
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


class _Run:
    def __init__(self, policy: Policy[Any], scene: BatchScene) -> None:
        self._policy, self._scene = policy, scene
        self._state = policy.start()
        self._rng = np.random.default_rng(scene.seed)
        self._partitions(scene.shares)
        self._stores = StoreRates()
        self._building: tuple[float, int] | None = None  # when it is ready, and what for
        self._rescales: list[tuple[float, int, int]] = []
        self._answered_s: float | None = None
        self._batches: list[BatchRow] = []
        self._changes: list[float] = []

    def until(self, duration_s: float) -> BatchRun:
        scene, begin, since, left = self._scene, 0.0, -(self._scene.interval_s or 1.0), 0.0
        turn = scene.turn_s
        ended: list[tuple[float, int, float, float, list[Done], StoresDone | None]] = []
        number = 0
        while begin < duration_s:
            # The scheduler's turns up to the begin of this batch see the newest that has ended.
            while turn <= begin:
                seen = [each for each in ended if each[0] <= turn]
                if seen:
                    self._decide(turn, *seen[-1][1:])
                    ended = [each for each in ended if each[0] > turn]
                turn += scene.turn_s
            if self._building is not None and self._building[0] <= begin:
                begin = self._take_over(begin, self._building[1])
                ended = []
            arrived = scene.rate.mean(since, begin) * (begin - since) * self._chance()
            rows = arrived + left
            if scene.most_rows is not None:
                rows = min(rows, scene.most_rows)
            left += arrived - rows
            done, took, stores = self._batch(rows)
            ended.append((begin + took, number, took, begin - since, done, stores))
            self._batches.append(
                BatchRow(begin, took, rows, tuple(d.busy_s for d in done), tuple(self._lanes))
            )
            number, since = number + 1, begin
            end = begin + took
            if scene.interval_s is None:
                begin = end
            else:
                due = (math.floor(begin / scene.interval_s + 1e-9) + 1) * scene.interval_s
                begin = max(due, end)
        return BatchRun(scene, tuple(self._batches), tuple(self._changes), tuple(self._rescales))

    def _partitions(self, shares: tuple[float, ...]) -> None:
        """There are as many, each with the scene's lanes; nothing of them has been seen."""
        self._shares = shares
        self._names = [PartitionId(f"query:0.{n}") for n in range(len(shares))]
        self._lanes = [self._scene.lanes] * len(shares)
        self._rates = BatchRates(self._scene.interval_s)

    def _take_over(self, now: float, partitions: int) -> float:
        """When the query goes on with other partitions: what one had beyond the mean stays."""
        assert self._scene.stores is not None
        now += self._scene.stores.pause_s
        self._rescales.append((now, len(self._shares), partitions))
        beyond = max(self._shares) - 1.0 / len(self._shares)
        rest = (1.0 - beyond) / partitions
        self._partitions((rest + beyond, *[rest] * (partitions - 1)))
        self._building = None
        return now

    def _chance(self) -> float:
        return float(max(0.5, 1.0 + self._scene.noise * self._rng.standard_normal()))

    def _batch(self, rows: float) -> tuple[list[Done], float, StoresDone | None]:
        """What the partitions do, how long the batch takes (s), and what it was to the stores."""
        scene, done, stores = self._scene, [], self._scene.stores
        free = [0.0] * max(1, scene.cores - (self._building is not None))
        last = committed = 0.0
        for name, share, lanes in zip(self._names, self._shares, self._lanes, strict=True):
            busy = rows * share * scene.cost_s * self._chance()
            took = busy / lanes
            if stores is not None:
                commit = (stores.per_store_s + rows * share * stores.row_s) * self._chance()
                took, committed = took + commit, committed + commit
            ends = heapq.heappop(free) + took
            heapq.heappush(free, ends)
            last = max(last, ends)
            done.append(Done(name, _OPERATOR, _NODE, scene.cores, lanes, rows * share, busy, took))
        all_s = scene.fixed_s * self._chance() + last
        return done, all_s, self._stores_done(rows, done, all_s, committed)

    def _stores_done(
        self, rows: float, done: list[Done], took_s: float, commit_s: float
    ) -> StoresDone | None:
        if self._scene.stores is None:
            return None
        tasks = [part.took_s for part in done]
        return StoresDone(
            len(done),
            self._scene.cores,
            max(took_s, 1e-3),
            sum(tasks),
            max(tasks) - sum(tasks) / len(tasks),
            commit_s,
            rows * self._scene.stores.row_bytes,
        )

    def _decide(
        self,
        now: float,
        number: int,
        took: float,
        arrived: float,
        done: list[Done],
        stores: StoresDone | None,
    ) -> None:
        commit_s = 0.0 if stores is None else stores.commit_s / stores.partitions
        loads = self._rates.add(number, took, arrived, done, commit_s=commit_s)
        parts = [
            self._part(name, lanes, loads[name])
            for name, lanes in zip(self._names, self._lanes, strict=True)
        ]
        cores = self._scene.cores
        cores = max(cores + lanes_not_running([parts], cores), sum(self._lanes))
        window = now - self._answered_s if self._answered_s is not None else self._scene.turn_s
        self._answered_s = now
        cluster = ClusterLoad(
            time_s=now,
            window_s=window,
            nodes=(Node(_NODE, cores),),
            partitions=tuple(parts),
            sources=(
                SourceLoad(
                    SourceId("source"),
                    sum(part.offered_rate for part in parts),
                    feeds=tuple(self._names),
                ),
            ),
        )
        plan, self._state = self._policy.answer(self._with_stores(cluster, stores), self._state)
        self._ask(now, plan)
        for change in plan.core_changes:
            self._lanes[self._names.index(change.partition)] = max(1, change.after)
            self._changes.append(now)

    def _with_stores(self, cluster: ClusterLoad, done: StoresDone | None) -> ClusterLoad:
        stores = self._scene.stores
        if stores is None or done is None:
            return cluster
        self._stores.add(done)
        over = self._rescales[-1][0] if self._rescales else None
        load = self._stores.load(
            QueryId("query"),
            (_OPERATOR,),
            self._scene.interval_s,
            StoreSizes(stores.state_bytes, stores.state_bytes * max(self._shares)),
            RescaleSeen(
                self._building is not None,
                None if over is None else max(0.0, cluster.time_s - over),
                None if over is None else stores.build_bytes_per_s,
                None if over is None else stores.pause_s,
            ),
        )
        return cluster if load is None else replace(cluster, stores=(load,))

    def _ask(self, now: float, plan: Plan) -> None:
        stores = self._scene.stores
        for change in plan.rescales if stores is not None and self._building is None else ():
            assert stores is not None
            self._building = (now + stores.state_bytes / stores.build_bytes_per_s, change.after)

    def _part(self, name: PartitionId, lanes: int, load: BatchLoad) -> PartitionLoad:
        return PartitionLoad(
            partition=name,
            query=QueryId("query"),
            operator=_OPERATOR,
            home=_NODE,
            placement=(NodeCores(_NODE, lanes),),
            offered_rate=load.rows / load.period_s,
            service_rate_per_core=1.0 / (self._rates.cost_s(name) or 1e-6),
            max_cores=self._scene.cores,
            batch=load,
        )
