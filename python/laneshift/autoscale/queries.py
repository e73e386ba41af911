"""What a plan asks of whole queries: state partitions, tasks, and where the work of keys goes.

What the plugin refuses becomes a note, and is asked for again after a while.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from laneshift.autoscale.cores import Island
from laneshift.autoscale.decisions import Note
from laneshift.autoscale.memory import Asking, Memory, TasksToCome
from laneshift.autoscale.pictures import Seen
from laneshift.contract.ids import PartitionId, QueryId
from laneshift.contract.measured import changed
from laneshift.contract.plan import (
    ALL_KEYS,
    KeySplit,
    PartitionsChange,
    Plan,
    ShardMove,
    TasksChange,
)
from laneshift.contract.tasks_load import TasksLoad
from laneshift.errors import LaneshiftError
from laneshift.plugin.gateway import Gateway, the_one
from laneshift.plugin.snapshot import QuerySnapshot, RowWork
from laneshift.plugin.v1 import control_pb2 as pb

AGAIN_S = 600.0
"""After so long a query that was refused is asked for again (s, ours): what stands against it, a
file sink or a global limit, seldom goes.
"""


class Rescaler:
    """Remembers what was refused."""

    def __init__(self, gateway: Gateway, memory: Memory) -> None:
        self._gateway = gateway
        self._memory = memory

    def turn(
        self, changes: Sequence[PartitionsChange], island: Island, now_s: float, *, sends: bool
    ) -> tuple[tuple[PartitionsChange, ...], tuple[Note, ...]]:
        """Asks for them but for queries that were refused lately; those that were taken, and why
        others were not. If it does not send, those that it has not said before: each batch wants
        them again.
        """
        queries = queries_of(island)
        taken, notes = [], []
        for change in changes:
            query = queries.get(change.query)
            if query is None or self._memory[query.run_id].rescale.not_before_s > now_s:
                continue
            asking = self._memory[query.run_id].rescale
            if not sends:
                taken += [change] if _is_new(asking, change) else []
                continue
            try:
                self._gateway.rescale(query.id, change.after)
                taken.append(change)
            except LaneshiftError as problem:
                asking.not_before_s = now_s + AGAIN_S
                text = (
                    f"{change.query} keeps its {change.before} state partitions instead of"
                    f" {change.after}: "
                )
                notes.append(Note.failed(problem, text, f"partitions of {change.query}"))
        return tuple(taken), tuple(notes)


def _is_new(asking: Asking, change: PartitionsChange | TasksChange) -> bool:
    """Whether a dry run has not said it yet; then it has now."""
    new, asking.said = asking.said != change.what, change.what
    return new


def queries_of(island: Island) -> dict[QueryId, QuerySnapshot]:
    """The queries of an island, by the name that policies have for them."""
    return {ref.query_id: ref.query for ref in island.partitions.values()}


NEXT = 2
"""The next batch may be planned already, the one behind it may not (ours)."""


class Tasker:
    """What a policy wants of tasks becomes commands; remembers what is still to come, and what has
    not come.
    """

    def __init__(self, gateway: Gateway, memory: Memory) -> None:
        self._gateway = gateway
        self._memory = memory

    def seen(self, island: Island) -> tuple[Island, tuple[Note, ...]]:
        """``island`` as a policy is to see it, and notes: with what is still to come of what was
        asked for, and without queries to which that has not come.
        """
        if island.cluster is None or not island.cluster.tasks:
            return island, ()
        runs = {name: query.run_id for name, query in queries_of(island).items()}
        loads, notes = [], []
        now_s = island.cluster.time_s
        for each in island.cluster.tasks:
            load, mine = each, self._memory[runs.get(each.query, "")]
            asked = mine.tasks_to_come
            if asked is not None and load.tasks == min(asked.after, load.partitions):
                mine.tasks_to_come = None
            elif asked is not None and load.batch_id >= asked.batch_id + NEXT:
                mine.tasks_to_come = None
                mine.tasks.not_before_s = now_s + AGAIN_S
                text = (
                    f"{load.query} has {load.tasks} tasks instead of {asked.after}: there are no"
                    " slots for more, or what is above its state works on whole partitions"
                    " (EXPLAIN says so)"
                )
                notes.append(Note(text, f"tasks of {load.query}"))
            if mine.tasks.not_before_s <= now_s:
                coming = mine.tasks_to_come
                if coming is not None:
                    load = replace(load, coming=min(coming.after, load.partitions))
                loads.append(load)
        cluster = changed(island.cluster, tasks=tuple(loads))
        return replace(island, cluster=cluster), tuple(notes)

    def turn(
        self, changes: Sequence[TasksChange], island: Island, now_s: float, *, sends: bool
    ) -> tuple[tuple[TasksChange, ...], tuple[Note, ...]]:
        """As :meth:`Rescaler.turn`."""
        loads = {load.query: load for load in island.cluster.tasks} if island.cluster else {}
        queries = queries_of(island)
        taken, notes = [], []
        for change in changes:
            if change.query not in queries or change.query not in loads:
                continue
            query, load = queries[change.query], loads[change.query]
            mine = self._memory[query.run_id]
            if not sends:
                taken += [change] if _is_new(mine.tasks, change) else []
                continue
            try:
                wishes = [
                    pb.TasksWish(
                        query=query.id,
                        operator=int(operator.rpartition(":")[2]),
                        tasks=_wish(load, change.after),
                    )
                    for operator in load.operators
                ]
                for outcome in self._gateway.set_tasks(wishes):
                    the_one([outcome])
                mine.tasks_to_come = TasksToCome(change.after, load.batch_id)
                taken.append(change)
            except LaneshiftError as problem:
                mine.tasks.not_before_s = now_s + AGAIN_S
                text = f"{change.query} keeps its {change.before} tasks instead of {change.after}: "
                notes.append(Note.failed(problem, text, f"tasks of {change.query}"))
        return tuple(taken), tuple(notes)


def _wish(load: TasksLoad, after: int) -> str:
    """In the plugin's words: a Real-time batch has no more than slots are free as it begins."""
    if load.is_real_time:
        return f"<={after}"
    return "stock" if after == load.partitions else str(after)


GRACE_S = 5.0
"""A planner that is not heard of decides for so long beyond its turn (s, ours)."""

NAMED = 4
"""So many shards, or keys, a note names (ours)."""

Operator = tuple[str, str, int]
"""Id and run id of the query, and the operator."""


class KeyWishes:
    """Remembers which keys are split, and so of which operators work is to be apart.

    Args:
        gateway: the plugin.
        interval_s: time from one turn to the next (s).
        memory: where it remembers.
    """

    def __init__(self, gateway: Gateway, interval_s: float, memory: Memory) -> None:
        self._gateway = gateway
        self._lease_s = interval_s + GRACE_S
        self._memory = memory

    def decide(self, plan: Plan, island: Island, *, sends: bool) -> tuple[Note, ...]:
        """Notes on whose work ``plan`` has apart from now on, or no more, and on what cannot be."""
        held_back = "" if sends else " (not carried out)"
        notes: list[Note] = []
        for name, splits in _by_partition(plan.key_splits).items():
            ref = island.partitions.get(name)
            if ref is None:
                continue
            wanted = [split for split in splits if split.ways > 1]
            if wanted and ref.operator.above is RowWork.NONE:
                notes.append(_cannot(name, wanted))
                continue
            held = self._memory[ref.query.run_id].split.setdefault(ref.key, {})
            was = bool(held)
            for split in splits:
                held.pop(split.key, None)
            held |= {split.key: split.ways for split in wanted}
            if wanted:
                text = (
                    f"{name}: {_keys(wanted)} in {max(s.ways for s in wanted)} parts{held_back}:"
                    " row-wise work above the state goes to any lane from the next batch on, that"
                    " of other keys too, and the state stays on its lane"
                )
                notes.append(Note(text, f"{name}: {_keys(wanted)} in parts"))
            elif was and not held:
                text = f"{name}: no key is hotter than a lane any more: work comes back{held_back}"
                notes.append(Note(text))
        return tuple(notes)

    def claim(self, island: Island) -> tuple[Note, ...]:
        """Takes or renews the planner's say for the island's operators; notes on who refuses."""
        notes = []
        for operator, refs in _operators(island).items():
            query, run, number = operator
            split = any(keys for key, keys in self._memory[run].split.items() if key[1] == number)
            apart = None if refs[0].operator.above is RowWork.NONE else split
            try:
                self._gateway.claim_keys(query, number, apart, self._lease_s)
                self._memory[run].claimed.add(operator)
            except LaneshiftError as problem:
                text = f"where keys of operator {number} go is not ours to say: "
                notes.append(Note.failed(problem, text, f"{query} {number}"))
        return tuple(notes)

    def release(self) -> None:
        """Give up what was claimed: the plugin moves shards again, and decides what is apart."""
        for query, _, number in (each for mine in self._memory.values() for each in mine.claimed):
            with suppress(LaneshiftError):  # the query has ended, and the claim with it
                self._gateway.claim_keys(query, number, None, 0.0)


def shuffles(plan: Plan, *, sends: bool) -> Iterator[Note]:
    """Notes on the shards that a planner moves, and why."""
    reasons = dict(plan.reasons)
    moves: dict[PartitionId, list[ShardMove]] = {}
    for move in plan.shard_moves:
        moves.setdefault(move.target.partition, []).append(move)
    for name, mine in moves.items():
        named = ", ".join(f"{m.shard} to lane {m.target.lane}" for m in mine[:NAMED])
        more = f" and {len(mine) - NAMED} more" if len(mine) > NAMED else ""
        count = "1 shard moves" if len(mine) == 1 else f"{len(mine)} shards move"
        held = "" if sends else " (not carried out)"
        text = f"{name}: {count}{held}, {named}{more}: {reasons.get(name, 'as planned')}"
        yield Note(text, f"{name}: {[move.shard for move in mine]}")


def _by_partition(splits: Sequence[KeySplit]) -> Mapping[PartitionId, list[KeySplit]]:
    found: dict[PartitionId, list[KeySplit]] = {}
    for split in splits:
        found.setdefault(split.partition, []).append(split)
    return found


def _operators(island: Island) -> dict[Operator, list[Seen]]:
    """Those whose rows have keys."""
    found: dict[Operator, list[Seen]] = {}
    for ref in island.partitions.values():
        if not ref.operator.is_dealt:
            operator = (ref.query.id, ref.query.run_id, ref.operator.operator_id)
            found.setdefault(operator, []).append(ref)
    return found


def _keys(splits: Sequence[KeySplit]) -> str:
    if any(split.key == ALL_KEYS for split in splits):
        return "all keys"
    named = ", ".join(f"#{split.key}" for split in splits[:NAMED])
    more = f" and {len(splits) - NAMED} more" if len(splits) > NAMED else ""
    return f"{'key' if len(splits) == 1 else 'keys'} {named}{more}"


def _cannot(name: PartitionId, splits: Sequence[KeySplit]) -> Note:
    return Note(
        f"{name}: work of {_keys(splits)} cannot go to any lane: nothing that may be costly is"
        " above its state, a limit is, or spark.sql.laneshift.hotKeys.spread is 'false'; and a"
        " key's state is on one lane at a time: more fields in the key, or less work for each row,"
        " are the way out (docs/parallelism.md)"
    )
