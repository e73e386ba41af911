"""Where the live object's policies run, and what all of these places give; one is this process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, Self

from laneshift.loop.decision import Decision
from laneshift.loop.scheduler import LiveScheduler
from laneshift.loop.start import check_executors, check_turns, chosen_policy
from laneshift.plugin.gateway import Gateway
from laneshift.scheduler.policies.base import Policy


class Scheduler(Protocol):
    """A policy that drives running queries, wherever it runs. Any thread may call it."""

    @property
    def name(self) -> str:
        """Name of the policy."""
        ...

    @property
    def is_running(self) -> bool:
        """True until it is stopped or what it runs in has gone."""
        ...

    @property
    def is_paused(self) -> bool:
        """True while it decides but sends nothing."""
        ...

    @property
    def turns(self) -> int:
        """Turns done, those with nothing to change included."""
        ...

    def pause(self) -> None:
        """Go on measuring and deciding, but send nothing until :meth:`resume`."""
        ...

    def resume(self) -> None:
        """Send decisions again."""
        ...

    def stop(self) -> None:
        """End it; returns once the last turn is over. Queries keep their lanes."""
        ...

    def decisions(self, limit: int = 100) -> tuple[Decision, ...]:
        """The newest ``limit`` decisions that had something to say, oldest first."""
        ...

    def on_decision(self, listener: Callable[[Decision], None]) -> None:
        """Call ``listener`` with each such decision from now on, on another thread."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class Host(Protocol):
    """What differs between a session of this process and a control service."""

    def watch(self, interval_s: float) -> Iterator[Mapping[str, Any]]:
        """A snapshot each interval."""
        ...

    def start(
        self,
        policy: str | Policy[Any],
        parameters: dict[str, Any],
        *,
        target_latency_ms: float | None,
        interval_s: float,
        followed: Callable[[], str | None],
        cores: int | None,
        dry_run: bool,
        trace: str | Path | None,
        max_executors: int | None,
    ) -> Scheduler:
        """Start a policy; ``followed`` finds the id of the only query to drive, once the rest is
        checked."""
        ...

    def close(self) -> None:
        """Give up what is held for it."""
        ...


class Here:
    """This process: a policy ends with it."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def watch(self, interval_s: float) -> Iterator[Mapping[str, Any]]:
        due = time.monotonic()
        while True:
            yield self._gateway.snapshot()
            due = max(due + interval_s, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))

    def start(
        self,
        policy: str | Policy[Any],
        parameters: dict[str, Any],
        *,
        target_latency_ms: float | None,
        interval_s: float,
        followed: Callable[[], str | None],
        cores: int | None,
        dry_run: bool,
        trace: str | Path | None,
        max_executors: int | None,
    ) -> LiveScheduler:
        chosen = chosen_policy(policy, target_latency_ms, parameters)
        check_turns(interval_s, cores)
        check_executors(chosen, max_executors)
        return LiveScheduler(
            self._gateway,
            chosen,
            interval_s=interval_s,
            query=followed(),
            cores=cores,
            dry_run=dry_run,
            trace=trace,
            max_executors=max_executors,
        ).begin()

    def close(self) -> None:
        """Nothing is held: the session is the user's."""
