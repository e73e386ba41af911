"""Executors on demand: what the policy would need becomes requests of the plugin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from laneshift.errors import LaneshiftError
from laneshift.loop.demand import Memory, Need, Standing, wish
from laneshift.loop.island import Island
from laneshift.loop.seen import seen_partitions, slots
from laneshift.loop.whatif import need_of
from laneshift.plugin.gateway import Gateway
from laneshift.plugin.snapshot import ExecutorSnapshot, Snapshot
from laneshift.scheduler.cluster_load import ClusterLoad
from laneshift.scheduler.plan import Plan
from laneshift.scheduler.policies.base import Policy


class OnDemand:
    """Asks Spark for executors and gives them back, if that is wanted.

    Args:
        most: the most executors that there may be (count); None for what the application's
            configuration says, 0 for none on demand.
        cores: most cores of an executor that lanes may use, None for all of them.
    """

    def __init__(
        self,
        gateway: Gateway,
        scheduler: str,
        policy: Policy[Any],
        most: int | None,
        cores: int | None,
    ) -> None:
        self._gateway = gateway
        self._scheduler = scheduler
        self._policy = policy
        self._most = most
        self._cores = cores
        self._standing = Standing(0)
        self._memory = Memory()
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
        said = self._gateway.demand_executors(self._scheduler, self._most or 0, total, give_back)
        self._standing = Standing.from_json(said)

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

    def turn(self, live: Snapshot, island: Island | None, *, sends: bool) -> tuple[str, ...]:
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
            notes += (f"executors on demand: {failed}",)
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

    def _once(self, note: str) -> tuple[str, ...]:
        if note == self._told:
            return ()
        self._told = note
        return (note,)


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
