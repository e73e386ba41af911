"""The policies that run in the control process, and what they have decided."""

from __future__ import annotations

import itertools
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from laneshift.autoscale.decisions import Decision
from laneshift.autoscale.loop import KEPT, AutoscaleLoop
from laneshift.errors import error, shown

MOST_RUNNING, MOST_OF_TENANT, MOST_KEPT = 64, 8, 200
"""Policies at a time, those of one tenant, and runs of them that are remembered (ours)."""


@dataclass(frozen=True, slots=True)
class Run:
    """A policy that was started: ``tenant`` by whom, None for the operator and the driver."""

    id: str
    autoscaler: AutoscaleLoop
    query: str
    tenant: str | None


class RunningAutoscalers:
    """Starts and stops policies. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}
        self._numbers = itertools.count(1)
        # Of this process: ids and numbers of one before it, which clients may have, mean nothing.
        self._mark = secrets.token_hex(3)
        self._decided: deque[tuple[int, str, Decision]] = deque(maxlen=KEPT)
        self._newest = time.time_ns() // 1000
        self._news = threading.Condition()

    def add(self, autoscaler: AutoscaleLoop, query: str = "", tenant: str | None = None) -> Run:
        """Remember an autoscaler that runs or is about to; its decisions are kept from now on.

        Errors: SessionError if too many run.
        """
        with self._news:
            running = [run for run in self._runs.values() if not run.autoscaler.has_ended]
            if len(running) >= MOST_RUNNING:
                raise error("LANESHIFT_TOO_MANY_AUTOSCALERS", most=MOST_RUNNING, whose="all")
            own = sum(run.tenant == tenant for run in running)
            if tenant is not None and own >= MOST_OF_TENANT:
                raise error(
                    "LANESHIFT_TOO_MANY_AUTOSCALERS", most=MOST_OF_TENANT, whose="a session"
                )
            id = f"{autoscaler.policy.name}-{next(self._numbers)}-{self._mark}"
            self._runs[id] = run = Run(id, autoscaler, query, tenant)
            for old in list(self._runs.values())[:-MOST_KEPT]:
                if old.autoscaler.has_ended:
                    del self._runs[old.id]
        autoscaler.on_decision(lambda decision: self._keep(run.id, decision))
        return run

    def drop(self, run: Run) -> None:
        """Forget an autoscaler that could not begin."""
        with self._news:
            self._runs.pop(run.id, None)

    def visible(self, may_see: Callable[[Run], bool]) -> tuple[Run, ...]:
        """The runs that a caller may see, oldest first."""
        with self._news:
            return tuple(filter(may_see, self._runs.values()))

    def find(self, id: str, may_see: Callable[[Run], bool]) -> Run:
        """The run of that id; an empty id is the only one that runs. Errors: NotFoundError."""
        seen = self.visible(may_see)
        active = [run for run in seen if run.autoscaler.is_running]
        if not id and len(active) == 1:
            return active[0]
        for run in seen:
            if run.id == id:
                return run
        there = ", ".join(run.id for run in active[:20]) or "none"
        found = f"there is no {shown(id)}" if id else "no id was given"
        raise error("LANESHIFT_NO_SUCH_AUTOSCALER", value=found, range=there)

    def stop_all(self) -> None:
        """Stop every one."""
        for run in self.visible(lambda _: True):
            run.autoscaler.stop()

    def decisions(
        self,
        may_see: Callable[[Run], bool],
        limit: int,
        id: str,
        *,
        after: int | None = None,
        follow: bool,
        is_wanted: Callable[[], bool],
    ) -> Iterator[tuple[int, Decision]]:
        """The newest decisions with their numbers, oldest first, or all ``after`` that number; then
        new ones as long as they are wanted.
        """
        while is_wanted():
            with self._news:
                if follow and after is not None and after >= self._newest:
                    self._news.wait(timeout=0.5)
                seen = {run.id for run in self._runs.values() if may_see(run)}
                found = [
                    (number, decision)
                    for number, run, decision in self._decided
                    if number > (after or 0) and run in seen and id in ("", run)
                ]
                first, after = after is None, self._newest
            yield from found[max(0, len(found) - limit) :] if first else found
            if not follow:
                return

    def _keep(self, id: str, decision: Decision) -> None:
        with self._news:
            self._newest += 1
            self._decided.append((self._newest, id, decision))
            self._news.notify_all()
