"""Executors on demand: when to ask Spark for more, and which to give back.

:func:`wish` is pure: time is a parameter, and what the policy would do with other executors is
known from :func:`need_of`. A policy is a function of what was measured and of its own state, so it
can be asked about a cluster that is not there. What may be given back at all is the plugin's to say
(decision 15).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from laneshift.autoscale.cores import Island, placed
from laneshift.autoscale.decisions import Note
from laneshift.autoscale.options import AutoscaleOptions
from laneshift.autoscale.pictures import seen_partitions, slots
from laneshift.contract.cluster_load import ClusterLoad, Node
from laneshift.contract.ids import NodeId, PartitionId
from laneshift.contract.partition_load import NodeCores, PartitionLoad
from laneshift.contract.plan import Plan, Reason
from laneshift.contract.policy import Policy
from laneshift.errors import LaneshiftError
from laneshift.plugin.gateway import Gateway
from laneshift.plugin.snapshot import ExecutorSnapshot, Snapshot
from laneshift.plugin.standing import Standing

ASK_AFTER_S = 2.0
"""Cores must be short for so long before executors are asked for (ours)."""

AGAIN_S = 10.0
"""From one request to the next at least (ours): executors take seconds to come."""

LATE_S = 60.0
"""Who has not come after so long is spoken of (ours): the cluster may have no room."""


@dataclass(frozen=True, slots=True)
class Need:
    """What a policy would do with other executors.

    Attributes:
        short: cores that it would give to lanes, beyond those that it gives now, if all executors
            were there that there may be (count, >= 0).
        cores: cores of one more executor (count, >= 1).
        spare: executors that were asked for without which it would give as many cores as now.
        words: whose cores they would be.
    """

    short: int = 0
    cores: int = 1
    spare: tuple[str, ...] = ()
    words: str = ""


@dataclass(frozen=True, slots=True)
class DemandMemory:
    """Since when (s) cores are short, or not; when the last request was, and whether it is known
    to be late; since when executors are spare, by their ids.
    """

    short_since_s: float | None = None
    enough_since_s: float | None = None
    asked_s: float = -math.inf
    late: bool = False
    spare_since_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wish:
    """How many executors there are to be in all (0: as many as before), and which are to go."""

    total: int = 0
    give_back: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()


def wish(
    standing: Standing, need: Need, memory: DemandMemory, time_s: float
) -> tuple[Wish, DemandMemory]:
    """What to ask of Spark at ``time_s``, and what to remember."""
    short = need.short > 0
    memory = replace(
        memory,
        short_since_s=_since(memory.short_since_s, time_s) if short else None,
        enough_since_s=None if short else _since(memory.enough_since_s, time_s),
        # Who is asked for more is not told to go; nor is the time in which it was short, rest.
        spare_since_s={e: memory.spare_since_s.get(e, time_s) for e in need.spare if not short},
    )
    total, notes = _asked(standing, need, memory, time_s)
    if total:
        memory = replace(memory, asked_s=time_s, late=False)
    elif standing.pending and memory.enough_since_s is not None:
        if time_s - memory.enough_since_s >= standing.rest_s:
            total = standing.there
            text = f"{_executors(standing.pending)} asked for and not there: not needed any more"
            notes = (Note(text),)
    elif standing.pending and not memory.late and time_s - memory.asked_s >= LATE_S:
        memory = replace(memory, late=True)
        text = (
            f"{_executors(standing.pending)} asked for {LATE_S:g} s ago, not there: the cluster may"
            " have no room, or a quota (spark.cores.max)"
        )
        notes = (Note(text),)
    back = tuple(
        e for e, since in memory.spare_since_s.items() if time_s - since >= standing.rest_s
    )
    notes += tuple(
        Note(f"executor {e} is given back: for {standing.rest_s:g} s no lane has needed its cores")
        for e in back
    )
    left = {e: since for e, since in memory.spare_since_s.items() if e not in back}
    return Wish(total, back, notes), replace(memory, spare_since_s=left)


def _asked(
    standing: Standing, need: Need, memory: DemandMemory, time_s: float
) -> tuple[int, tuple[Note, ...]]:
    """How many executors to ask for in all, 0 to leave it, and why."""
    if memory.short_since_s is None or time_s - memory.short_since_s < ASK_AFTER_S:
        return 0, ()
    more = min(
        math.ceil(need.short / need.cores) - standing.pending, standing.most - standing.requested
    )
    if more <= 0 or time_s - memory.asked_s < AGAIN_S:
        return 0, ()
    total = standing.requested + more
    asked = f"asks Spark for {_executors(more)} more, {total} of at most {standing.most}"
    return total, (Note(f"{asked}: {need.words}"),)


def _since(before_s: float | None, now_s: float) -> float:
    return now_s if before_s is None else before_s


def _executors(count: int) -> str:
    return "1 executor" if count == 1 else f"{count} executors"


def need_of(
    policy: Policy[Any],
    state: Any,
    cluster: ClusterLoad,
    plan: Plan,
    *,
    more: int,
    cores: int,
    candidates: Sequence[str],
    most: Mapping[PartitionId, int],
) -> Need:
    """What ``policy``, which has answered ``plan`` from ``state``, would do otherwise.

    Args:
        more: executors that may be asked for (count, >= 0), of so many ``cores`` (>= 1) each.
        candidates: executors that may be given back, those first that are needed least.
        most: cores that partitions may have where the cluster's own are the limit.
    """
    now = _cores_after(plan, cluster)
    given = sum(now.values())
    if more:
        there = policy.answer(_with_more(cluster, more, cores, most), state)[0]
        # One that found no placement says nothing of counts.
        found = there.core_changes or all(s.reason != Reason.PLACEMENT for s in there.shortfalls)
        then = _cores_after(there, cluster) if found else now
        short = sum(then.values()) - given
        if short > 0:
            return Need(short, cores, words=_words(now, then, short))
    spare: list[str] = []
    for executor in candidates:
        less = _without(cluster, {*spare, executor})
        if less is None or less.total_cores < given:
            break
        if sum(_cores_after(policy.answer(less, state)[0], less).values()) < given:
            break
        spare.append(executor)
    return Need(0, cores, tuple(spare))


def _cores_after(plan: Plan, cluster: ClusterLoad) -> dict[PartitionId, int]:
    """Cores of each partition once ``plan`` is carried out."""
    cores = {part.partition: part.cores for part in cluster.partitions}
    return cores | {change.partition: change.after for change in plan.core_changes}


def _with_more(
    cluster: ClusterLoad, more: int, cores: int, most: Mapping[PartitionId, int]
) -> ClusterLoad:
    nodes = tuple(Node(NodeId(f"more {i}"), cores) for i in range(1, more + 1))
    whole = sum(node.cores for node in cluster.nodes) + more * cores

    def freed(part: PartitionLoad) -> PartitionLoad:
        limit = most.get(part.partition)
        if limit is None or part.max_cores is None or part.stays_home:
            return part
        return replace(part, max_cores=max(part.max_cores, min(limit, whole)))

    return replace(
        cluster, nodes=cluster.nodes + nodes, partitions=tuple(map(freed, cluster.partitions))
    )


def _without(cluster: ClusterLoad, gone: Collection[str]) -> ClusterLoad | None:
    """``cluster`` once these nodes have gone. Partitions whose home is there have one where cores
    are free, as many on it as they keep at home; None if there are too few for that.
    """
    nodes = tuple(node for node in cluster.nodes if node.node not in gone)
    free = {node.node: node.cores for node in nodes}
    for part in cluster.partitions:
        for held in part.placement:
            if held.node in free:
                free[held.node] -= held.cores
    parts = []
    for part in cluster.partitions:
        left = tuple(held for held in part.placement if held.node not in gone)
        if part.home not in gone:
            parts.append(placed(part, left))
            continue
        # All of its cores if it stays home; those that it has on a node already are there for it.
        need = part.cores if part.stays_home else max(1, part.kept_at_home)
        there = {held.node: held.cores for held in left}
        room = {node: there.get(node, 0) + n for node, n in free.items()}
        home = max(room, key=lambda n: (room[n] >= need, there.get(n, 0), room[n]), default=None)
        if home is None or room[home] < need:
            return None
        here = max(need, there.pop(home, 0))
        free[home] = room[home] - here
        spread = (NodeCores(home, here), *(NodeCores(node, n) for node, n in there.items()))
        parts.append(replace(part, home=home, placement=spread, lanes=(), shards=None))
    return replace(cluster, nodes=nodes, partitions=tuple(parts))


def _words(now: Mapping[PartitionId, int], then: Mapping[PartitionId, int], short: int) -> str:
    """Which partitions would have more cores; of many, those that would have most more."""
    more = sorted((then[p] - n, p) for p, n in now.items() if then[p] > n)[::-1]
    named = [f"{p} {then[p]} lanes instead of {now[p]}" for _, p in more[:3]]
    others = len(more) - len(named)
    there = ", ".join(named) + (f" and {others} others more" if others else "")
    cores = "1 core" if short == 1 else f"{short} cores"
    return f"with enough of them lanes would get {cores} more: {there}"


class OnDemand:
    """Asks Spark for executors and gives them back, if that is wanted.

    Of ``options`` it takes ``max_executors`` and ``cores``.
    """

    def __init__(
        self,
        gateway: Gateway,
        autoscaler: str,
        policy: Policy[Any],
        options: AutoscaleOptions,
    ) -> None:
        self._gateway = gateway
        self._autoscaler = autoscaler
        self._policy = policy
        self._most = options.max_executors
        self._cores = options.cores
        self._standing = Standing(0)
        self._memory = DemandMemory()
        self._need: Need | None = None
        self._told = ""

    @property
    def is_on(self) -> bool:
        """Whether there may be executors on demand."""
        return self._standing.most > 0 and self._policy.places

    def begin(self) -> None:
        """Look how it stands. Errors: SessionError if there cannot be such a demand."""
        if self._most != 0:
            self._call(0, ())

    def _call(self, total: int, give_back: Sequence[str]) -> None:
        self._standing = self._gateway.demand_executors(
            self._autoscaler, self._most or 0, total, give_back
        )

    def answered(
        self,
        live: Snapshot,
        island: Island,
        cluster: ClusterLoad,
        state: Any,
        plan: Plan,
    ) -> None:
        """The policy, in ``state``, has answered ``plan`` to ``cluster``."""
        if not self.is_on:
            return
        cores = min(executor.cores for executor in live.executors)
        self._need = need_of(
            self._policy,
            state,
            cluster,
            plan,
            more=max(0, self._standing.most - self._seen(live).there),
            cores=max(1, cores if self._cores is None else min(cores, self._cores)),
            candidates=_candidates(live, island, self._standing.asked),
            most=island.most,
        )

    def turn(self, live: Snapshot, island: Island | None, *, sends: bool) -> tuple[Note, ...]:
        """Ask and give back, if it ``sends``; what there is to say. ``island``: all executors, None
        if no partition may have lanes on others.
        """
        if self._standing.most == 0:
            return ()
        problem = self._standing.why
        if not self._policy.places:
            problem = f"the policy {self._policy.name} gives no lanes to other executors"
        if problem is None:
            asked, self._memory = wish(
                self._seen(live), self._now(live, island), self._memory, live.time_ms / 1000
            )
            notes = asked.notes
            if self._standing.there > self._standing.most:
                there, most = self._standing.there, self._standing.most
                notes += self._once(
                    f"no executors are asked for: {there} are there, at most {most}"
                )
        else:
            asked, notes = None, self._once(f"no executors are asked for: {problem}")
        try:
            if self._policy.places:
                total, back = (asked.total, asked.give_back) if asked and sends else (0, ())
                self._call(total, back)
        except LaneshiftError as failed:
            notes += (Note.failed(failed, "executors on demand: "),)
        return notes

    def _seen(self, live: Snapshot) -> Standing:
        """How it stands to who sees ``live``: Spark knows an executor before it runs the plugin."""
        there = {executor.executor for executor in live.executors}
        unseen = sum(executor not in there for executor in self._standing.asked)
        return replace(self._standing, there=self._standing.there - unseen)

    def _now(self, live: Snapshot, island: Island | None) -> Need:
        """What is needed. Between the batches of a query the last answer holds."""
        if island is None:
            self._need = None
            return Need(spare=tuple(_candidates(live, None, self._standing.asked)))
        if self._need is None:
            return Need()
        there = set(_candidates(live, island, self._standing.asked))
        return replace(self._need, spare=tuple(e for e in self._need.spare if e in there))

    def _once(self, note: str) -> tuple[Note, ...]:
        if note == self._told:
            return ()
        self._told = note
        return (Note(note),)


def _candidates(live: Snapshot, island: Island | None, asked: Sequence[str]) -> list[str]:
    """Executors that may be given back, each if those before it go, too: no lanes of partitions are
    on them on which others decide, and the cores of those that stay are enough for all tasks of
    Spark's. Those that Spark does not use first, then those with the fewest lanes, then the newest.
    """
    parts = seen_partitions(live)
    homes = {s.part.executor for s in parts}
    mine = set() if island is None else island.partitions.keys()
    others = {e for s in parts if s.name not in mine for e in s.part.wanted_elsewhere}

    def is_used(executor: ExecutorSnapshot) -> bool:
        return executor.active_tasks > 0 or executor.executor in homes

    def order(executor: ExecutorSnapshot) -> tuple[bool, int, int, str]:
        age = int(executor.executor) if executor.executor.isdecimal() else 0
        return (is_used(executor), executor.host_lanes, -age, executor.executor)

    tasks = sum(e.active_tasks for e in live.executors)
    room = slots(live.executors)
    may: list[str] = []
    for executor in sorted(live.executors, key=order):
        if executor.executor not in asked or executor.leaving or executor.executor in others:
            continue
        if executor.executor in live.silent:
            continue
        # What Spark uses is given back only from below tasks that have room elsewhere.
        if not is_used(executor) or tasks <= room - executor.cores:
            may.append(executor.executor)
            room -= executor.cores
    return may
