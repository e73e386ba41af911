"""What one run of a query shows of its batches, its state partitions and its tasks.

In micro-batch it is measured once per finished batch, and held until the next.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from laneshift.autoscale.batch_rates import BatchRates, Done
from laneshift.autoscale.cores import placement
from laneshift.autoscale.pictures import Lanes, Seen, newest_batches, query_name, slots
from laneshift.autoscale.rates import UNKNOWN_RATE
from laneshift.autoscale.store_rates import StoreRates, StoresDone
from laneshift.autoscale.task_rates import TaskPeaks, TaskRates, TasksDone
from laneshift.contract.batch_load import BatchLoad
from laneshift.contract.ids import NodeId, OperatorId, PartitionId, QueryId
from laneshift.contract.partition_load import PartitionLoad
from laneshift.contract.store_load import StoreLoad
from laneshift.contract.tasks_load import TasksLoad
from laneshift.plugin.rescale import RescaleProgress, RescaleState
from laneshift.plugin.snapshot import (
    ExecutorSnapshot,
    Mode,
    OperatorSnapshot,
    QuerySnapshot,
    TriggerKind,
)

IDLE_PERIODS, IDLE_S = 3.0, 10.0
"""A query of which no batch has ended for so many periods and so long (s) has nothing to do."""

NEARLY = 0.9
"""Rows that came within this share of what the batch before took came after a while without (ours):
batches that run back to back begin as the one before has ended."""


def in_batches(query: QuerySnapshot) -> bool:
    """Whether the plugin tells what the query's batches did: older ones do not."""
    return query.mode is Mode.MICRO_BATCH and query.trigger is not None


class QueryBatches:
    """Of one run of a query."""

    def __init__(self, query: QuerySnapshot) -> None:
        assert query.trigger is not None
        paced = query.trigger.kind is TriggerKind.INTERVAL and query.trigger.interval_s
        self._interval_s = query.trigger.interval_s if paced else None
        self._rates = BatchRates(self._interval_s)
        self._seen = self._counted = -1
        self._since_ms = 0
        self._idle = self._waited = False
        self._took_s = math.inf  # the batch before
        self.loads: dict[PartitionId, BatchLoad] = {}

    @property
    def newest(self) -> int:
        """The newest batch that was measured, -1 before the first."""
        return self._counted

    def look(self, query: QuerySnapshot, parts: Sequence[Seen], cores: Mapping[str, int],
             now_ms: int) -> bool:  # fmt: skip
        """Whether something is new: a batch has ended, or none for a while.

        ``parts``: the query's; ``cores``: tasks that each executor runs at a time.
        """
        batch = query.batch
        if batch is None:
            return False
        if batch.batch_id > self._seen:
            parts = _computed(parts, batch.batch_id)
            done = [
                Done(
                    s.name,
                    s.operator_name,
                    s.part.executor,
                    max(1, cores.get(s.part.executor, 1)),
                    max(1, s.part.last_batch.lanes),
                    s.part.last_batch.rows,
                    s.part.last_batch.busy_s,
                    s.part.last_batch.took_s,
                )
                for s in parts
                if s.part.last_batch is not None and s.part.last_batch.batch_id >= batch.batch_id
            ]
            if len(done) < len(parts) and not self._waited:
                self._waited = bool(done)
                return False  # the executors' news is still on its way; of who is silent, for ever
            if not done:
                return False
            self._waited = False
            rows = sum(source.rows for source in batch.sources)
            rate = sum(source.rows_per_s for source in batch.sources)
            if rows == 0 and not any(part.rows for part in done):
                self._seen = batch.batch_id  # a batch without rows, for watermarks and timers
                return False
            arrived = rows / rate if rows > 0 and rate > 0 else None
            idle = arrived is not None and arrived < NEARLY * self._took_s
            if arrived is not None and self._interval_s is None and idle:
                # Spark counts from when it last looked for rows: 10 ms ago if there were none.
                arrived = max(arrived, batch.duration_s)
            self._took_s = batch.duration_s
            if query.trigger is not None and query.trigger.kind is TriggerKind.AVAILABLE_NOW:
                arrived = None  # all of them were there: what counts is how fast they go
            # Nobody has seen the batch before it, or there was none for a while.
            amid = self._interval_s is not None and (self._seen < 0 or self._idle)
            commit_s = sum(s.commit_s / max(1, s.partitions) for s in batch.state)
            self.loads |= self._rates.add(
                batch.batch_id, batch.duration_s, arrived, done, amid, commit_s
            )
            here = {s.name for s in parts}
            self.loads = {name: load for name, load in self.loads.items() if name in here}
            self._seen, self._since_ms, self._idle = batch.batch_id, now_ms, False
            self._counted = batch.batch_id
            return True
        period = max((load.period_s for load in self.loads.values()), default=0.0)
        quiet_s = (now_ms - self._since_ms) / 1000
        if self._idle or not self.loads or any(s.part.running for s in parts):
            return False
        if quiet_s <= max(IDLE_S, IDLE_PERIODS * period):
            return False
        self.loads = self._rates.idle(self._seen, list(self.loads))
        self._idle = True
        return True

    def shown(self, seen: Seen) -> PartitionLoad | None:
        """What a policy sees of a partition; None before its first batch has ended."""
        load = self.loads.get(seen.name)
        if load is None:
            return None
        part, node = seen.part, NodeId(seen.part.executor)
        rate = load.rows / load.period_s
        per_row = 1.0 / max(1, part.rows_in)
        cost = self._rates.cost_s(seen.name)
        return PartitionLoad(
            partition=seen.name,
            query=seen.query_id,
            operator=seen.operator_name,
            home=node,
            placement=placement(Lanes.of(part), part.executor),
            offered_rate=rate,
            service_rate_per_core=1.0 / cost if cost else UNKNOWN_RATE,
            queue_rows=0.0,
            selectivity=part.rows_out * per_row,
            state_bytes=float(part.state_memory_bytes + part.state_file_bytes),
            input_bytes_per_s=rate * part.bytes_in * per_row,
            output_bytes_per_s=rate * part.bytes_out * per_row,
            latency_p99_s=part.latency_ms.p99 / 1000 if part.latency_ms.count else None,
            max_cores=part.max_lanes,
            batch=load,
        )


class QueryStores:
    """Of one run of a query."""

    def __init__(self) -> None:
        self._rates = StoreRates()
        self._rescales = _Rescales()
        self._operators: tuple[OperatorId, ...] = ()
        self._sizes: tuple[float, float] = (0.0, 0.0)  # of all partitions, of the largest

    def ended(
        self, query: QuerySnapshot, parts: Sequence[Seen], executors: Sequence[ExecutorSnapshot]
    ) -> None:
        """A batch with rows has ended. ``parts``: the query's."""
        batch = query.batch
        if batch is None or not batch.state:
            return  # without state, or of a plugin that does not tell
        done = [
            s
            for s in parts
            if not s.operator.is_dealt
            and s.part.last_batch is not None
            and s.part.last_batch.batch_id >= batch.batch_id
        ]
        if not done:
            return
        tasks_s: dict[int, list[float]] = {}
        for s in done:
            assert s.part.last_batch is not None
            tasks_s.setdefault(s.operator.operator_id, []).append(s.part.last_batch.took_s)
        operators = {s.operator.operator_id: s.operator for s in done}
        # Of fewer tasks than partitions each has a core: more cores do not run more of them.
        grouped = [o.tasks for o in operators.values() if o.tasks < o.partition_count]
        self._rates.add(
            StoresDone(
                max(1, *(stores.partitions for stores in batch.state)),
                max(1, min([slots(executors), *grouped])),
                max(batch.duration_s, 1e-3),
                sum(map(sum, tasks_s.values())),
                sum(max(took) - sum(took) / len(took) for took in tasks_s.values()),
                sum(stores.commit_s for stores in batch.state),
                float(sum(stores.written_bytes for stores in batch.state)),
            )
        )
        sizes = [float(s.part.state_memory_bytes + s.part.state_file_bytes) for s in done]
        self._sizes = sum(sizes), max(sizes)
        name = query_name(query)
        self._operators = tuple(OperatorId(f"{name}:{number}") for number in sorted(operators))

    def load(self, query: QuerySnapshot, now_ms: int) -> StoreLoad | None:
        """What a policy sees; None before a batch has been measured."""
        whole, largest = self._sizes
        rescale = self._rescales.look(query.rescale, whole, now_ms)
        paced = query.trigger is not None and query.trigger.kind is TriggerKind.INTERVAL
        interval_s = query.trigger.interval_s if query.trigger is not None and paced else None
        load = self._rates.load(QueryId(query_name(query)), self._operators, interval_s)
        if load is None:
            return None
        return replace(load, state_bytes=whole, largest_bytes=largest, **rescale)


class _Rescales:
    """The rescales of one run, whoever has asked for them."""

    def __init__(self) -> None:
        self._began_ms: int | None = None
        self._over: tuple[RescaleProgress, int] | None = None
        self._bytes_per_s: float | None = None

    def look(
        self, newest: RescaleProgress | None, state_bytes: float, now_ms: int
    ) -> dict[str, Any]:
        """What a store load says of the newest one, by field."""
        if newest is None:
            return {}
        if not newest.ended:
            if self._began_ms is None:
                self._began_ms = now_ms
            return {"under_way": True}
        done = newest.state is RescaleState.DONE
        if self._began_ms is not None or self._over is None or self._over[0] != newest:
            if done and self._began_ms is not None and state_bytes > 0:
                took_s = max(now_ms - self._began_ms, 1) / 1000
                self._bytes_per_s = state_bytes / took_s
            self._over, self._began_ms = (newest, now_ms), None
        since = {"since_s": (now_ms - self._over[1]) / 1000}
        if not done:
            return since
        took = {"build_bytes_per_s": self._bytes_per_s, "pause_s": newest.pause_ms / 1000}
        return since | took


class QueryTasks:
    """The tasks of one run of a query."""

    def __init__(self) -> None:
        self._rates = TaskRates()
        self._peaks = TaskPeaks()
        self._load: TasksLoad | None = None

    def ended(
        self, query: QuerySnapshot, parts: Sequence[Seen], executors: Sequence[ExecutorSnapshot]
    ) -> None:
        """A micro-batch with rows has ended. ``parts``: the query's."""
        batch = query.batch
        stateful = _operators(parts)
        if batch is None or not stateful:
            return
        rows = [0.0] * stateful[0].partition_count
        tasks_s = 0.0
        for s in parts:
            done = s.part.last_batch
            if s.operator.is_dealt or done is None or done.batch_id < batch.batch_id:
                continue
            rows[s.part.partition] += done.rows / max(1, done.lanes)
            tasks_s += done.took_s
        self._rates.add(
            TasksDone(
                batch.batch_id,
                min(operator.tasks for operator in stateful),
                slots(executors),
                max(batch.duration_s, 1e-3),
                tasks_s,
                sum(stores.commit_s for stores in batch.state),
                tuple(rows),
            )
        )
        self._load = self._rates.load(QueryId(query_name(query)), _ids(query, stateful))

    def looked(
        self,
        query: QuerySnapshot,
        parts: Sequence[Seen],
        shown: Mapping[PartitionId, PartitionLoad],
        executors: Sequence[ExecutorSnapshot],
        now_ms: int,
    ) -> None:
        """A Real-time query was looked at: ``shown`` is what its partitions need."""
        stateful = _operators(parts)
        mine = [s for s in parts if not s.operator.is_dealt]
        self._load = None
        if not stateful or any(s.name not in shown for s in mine):
            return
        cores = [0.0] * stateful[0].partition_count
        for s in mine:
            each = shown[s.name]
            cores[s.part.partition] = max(
                cores[s.part.partition], each.offered_load / max(1, each.cores)
            )
        looks, most = self._peaks.add(now_ms / 1000, cores)
        self._load = TasksLoad(
            QueryId(query_name(query)),
            _ids(query, stateful),
            max(s.part.batch_id for s in mine),
            min(operator.tasks for operator in stateful),
            slots(executors),
            looks,
            most,
        )

    @property
    def load(self) -> TasksLoad | None:
        """What a policy sees; None before there is something to see."""
        return self._load


def _computed(parts: Sequence[Seen], batch_id: int) -> list[Seen]:
    """Without operators that the batch before has left out, as of work with the state again."""
    newest = newest_batches(lambda s: s.operator_name, parts)
    return [s for s in parts if newest[s.operator_name] >= batch_id - 1]


def _operators(parts: Sequence[Seen]) -> list[OperatorSnapshot]:
    """Those with state, if they have as many partitions each, none of them unseen."""
    found = {s.operator.operator_id: s.operator for s in parts if not s.operator.is_dealt}
    counts = {operator.partition_count for operator in found.values()}
    whole = all(len(o.partitions) == o.partition_count for o in found.values())
    return list(found.values()) if len(counts) == 1 and whole else []


def _ids(query: QuerySnapshot, operators: Sequence[OperatorSnapshot]) -> tuple[OperatorId, ...]:
    return tuple(OperatorId(f"{query_name(query)}:{o.operator_id}") for o in operators)


class QueryMeter:
    """What is known of one run of a query beside its partitions.

    Attributes:
        batches: None unless it runs in micro-batches.
        stores: None before a batch with rows has ended.
        tasks: of either mode.
    """

    def __init__(self) -> None:
        self.batches: QueryBatches | None = None
        self.stores: QueryStores | None = None
        self.tasks = QueryTasks()

    def look(
        self,
        query: QuerySnapshot,
        parts: Sequence[Seen],
        executors: Sequence[ExecutorSnapshot],
        now_ms: int,
    ) -> bool:
        """Whether a batch has ended since the last look, or none for a while.

        ``parts``: the query's.
        """
        if not in_batches(query):
            return False
        self.batches = self.batches or QueryBatches(query)
        was = self.batches.newest
        cores = {executor.executor: executor.cores for executor in executors}
        news = self.batches.look(query, parts, cores, now_ms)
        if news and self.batches.newest != was:
            self.stores = self.stores or QueryStores()
            self.stores.ended(query, parts, executors)
            self.tasks.ended(query, parts, executors)
        return news
