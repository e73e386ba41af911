"""The tasks of running queries: measured, asked for by what a policy says, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace

from laneshift.errors import LaneshiftError
from laneshift.loop.island import Island
from laneshift.loop.memories import Memories
from laneshift.loop.rescales import AGAIN_S, queries_of
from laneshift.loop.seen import Seen, query_name, slots
from laneshift.plugin.gateway import Gateway
from laneshift.plugin.snapshot import ExecutorSnapshot, OperatorSnapshot, QuerySnapshot
from laneshift.scheduler.ids import OperatorId, PartitionId, QueryId
from laneshift.scheduler.measured import changed
from laneshift.scheduler.partition_load import PartitionLoad
from laneshift.scheduler.plan import TasksChange
from laneshift.scheduler.task_rates import TaskPeaks, TaskRates, TasksDone
from laneshift.scheduler.tasks_load import TasksLoad

NEXT = 2
"""The next batch may be planned already, the one behind it may not (ours)."""


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


def _operators(parts: Sequence[Seen]) -> list[OperatorSnapshot]:
    """Those with state, if they have as many partitions each, none of them unseen."""
    found = {s.operator.operator_id: s.operator for s in parts if not s.operator.is_dealt}
    counts = {operator.partition_count for operator in found.values()}
    whole = all(len(o.partitions) == o.partition_count for o in found.values())
    return list(found.values()) if len(counts) == 1 and whole else []


def _ids(query: QuerySnapshot, operators: Sequence[OperatorSnapshot]) -> tuple[OperatorId, ...]:
    return tuple(OperatorId(f"{query_name(query)}:{o.operator_id}") for o in operators)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What was asked for, and the newest batch that was known then."""

    after: int
    batch_id: int


class Tasker:
    """What a policy wants of tasks becomes commands; remembers what is still to come, and what has
    not come.
    """

    def __init__(self, gateway: Gateway, memories: Memories) -> None:
        self._gateway = gateway
        self._asked: MutableMapping[str, _Asked | None] = memories.by_run(lambda: None)
        self._until_s: MutableMapping[str, float] = memories.by_run(float)
        self._said: MutableMapping[str, str] = memories.by_run(str)

    def seen(self, island: Island) -> tuple[Island, tuple[str, ...]]:
        """``island`` as a policy is to see it, and notes: with what is still to come of what was
        asked for, and without queries to which that has not come.
        """
        if island.cluster is None or not island.cluster.tasks:
            return island, ()
        runs = {query: run for query, (run, _) in queries_of(island).items()}
        loads, notes = [], []
        now_s = island.cluster.time_s
        for each in island.cluster.tasks:
            load, run = each, runs.get(each.query, "")
            asked = self._asked.get(run)
            if asked is not None and load.tasks == min(asked.after, load.partitions):
                self._asked.pop(run)
            elif asked is not None and load.batch_id >= asked.batch_id + NEXT:
                self._asked.pop(run)
                self._until_s[run] = now_s + AGAIN_S
                notes.append(
                    f"{load.query} has {load.tasks} tasks instead of {asked.after}: there are no"
                    " slots for more, or what is above its state works on whole partitions"
                    " (EXPLAIN says so)"
                )
            if self._until_s.get(run, now_s) <= now_s:
                coming = self._asked.get(run)
                if coming is not None:
                    load = replace(load, coming=min(coming.after, load.partitions))
                loads.append(load)
        cluster = changed(island.cluster, tasks=tuple(loads))
        return replace(island, cluster=cluster), tuple(notes)

    def would(self, changes: Sequence[TasksChange], island: Island) -> tuple[TasksChange, ...]:
        """Those that were not said before: nothing is sent, and each batch wants them again."""
        runs = {query: run for query, (run, _) in queries_of(island).items()}
        mine = [change for change in changes if change.query in runs]
        new = [change for change in mine if self._said.get(runs[change.query]) != change.what]
        self._said.update((runs[change.query], change.what) for change in new)
        return tuple(new)

    def send(
        self, changes: Sequence[TasksChange], island: Island
    ) -> tuple[tuple[TasksChange, ...], tuple[str, ...]]:
        """Asks for them; those that were taken, and why others were not."""
        assert island.cluster is not None
        loads = {load.query: load for load in island.cluster.tasks}
        queries = queries_of(island)
        taken, notes = [], []
        for change in changes:
            if change.query not in queries or change.query not in loads:
                continue
            (run, query_id), load = queries[change.query], loads[change.query]
            try:
                for operator in load.operators:
                    number = int(operator.rpartition(":")[2])
                    self._gateway.set_tasks(query_id, number, _wish(load, change.after))
                self._asked[run] = _Asked(change.after, load.batch_id)
                taken.append(change)
            except LaneshiftError as problem:
                self._until_s[run] = island.cluster.time_s + AGAIN_S
                notes.append(
                    f"{change.query} keeps its {change.before} tasks instead of {change.after}:"
                    f" {problem}"
                )
        return tuple(taken), tuple(notes)


def _wish(load: TasksLoad, after: int) -> str:
    """In the plugin's words: a Real-time batch has no more than slots are free as it begins."""
    if load.is_real_time:
        return f"<={after}"
    return "stock" if after == load.partitions else str(after)
