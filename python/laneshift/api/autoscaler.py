"""A policy that drives running queries: in this process, or in an application's control process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, Self

from laneshift.autoscale.decisions import Decision
from laneshift.autoscale.loop import AutoscaleLoop
from laneshift.autoscale.options import AutoscaleOptions, chosen_policy
from laneshift.contract.policy import Policy
from laneshift.durations import Duration, seconds
from laneshift.plugin.gateway import Gateway, connect
from laneshift.plugin.snapshot import Snapshot


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What an autoscaler is to be started with, as :meth:`laneshift.Application.autoscale` says."""

    policy: str | Policy[Any]
    parameters: Mapping[str, Any]
    target_latency: Duration | None
    interval: Duration
    cores: int | None
    max_executors: int | None
    dry_run: bool
    trace: str | Path | None

    @property
    def target_latency_s(self) -> float | None:
        """In seconds. Errors: InputError."""
        if self.target_latency is None:
            return None
        return seconds("target_latency", self.target_latency, low_open=True)

    @property
    def options(self) -> AutoscaleOptions:
        """How the policy is to drive all queries. Errors: InputError for the interval."""
        return AutoscaleOptions(
            interval_s=seconds("interval", self.interval, low=0.1, high=3600.0),
            cores=self.cores,
            max_executors=self.max_executors,
            dry_run=self.dry_run,
            trace=self.trace,
        )


class Driver(Protocol):
    """What runs a policy, wherever that is."""

    @property
    def id(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def is_running(self) -> bool: ...

    @property
    def is_paused(self) -> bool: ...

    @property
    def turns(self) -> int: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def stop(self) -> None: ...

    def decisions(self, limit: int = 100) -> tuple[Decision, ...]: ...

    def on_decision(self, listener: Callable[[Decision], None]) -> None: ...


class Autoscaler:
    """A policy that drives running queries. Made by ``autoscale`` of an application or a query.

        with query.autoscale(target_latency="50ms") as autoscaler:
            autoscaler.on_decision(print)
            autoscaler.pause()
            autoscaler.resume()
            for decision in autoscaler.decisions(limit=10):
                print(*decision.changes)

    Leaving its ``with`` block stops it. Any thread may call it.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    @property
    def id(self) -> str:
        """By which ``laneshift autoscalers`` shows it, if it runs in a control process."""
        return self._driver.id

    @property
    def policy(self) -> str:
        """Name of the policy."""
        return self._driver.name

    @property
    def is_running(self) -> bool:
        """True until it is stopped or what it runs in has gone."""
        return self._driver.is_running

    @property
    def is_paused(self) -> bool:
        """True while it decides but sends nothing."""
        return self._driver.is_paused

    @property
    def turns(self) -> int:
        """Turns done, those with nothing to change included (count)."""
        return self._driver.turns

    def pause(self) -> None:
        """Go on measuring and deciding, but send nothing until :meth:`resume`."""
        self._driver.pause()

    def resume(self) -> None:
        """Send decisions again."""
        self._driver.resume()

    def stop(self) -> None:
        """End it; returns once the last turn is over. Queries keep their lanes."""
        self._driver.stop()

    def decisions(self, *, limit: int = 100) -> tuple[Decision, ...]:
        """The newest ``limit`` decisions that had something to say, oldest first (10,000 kept).

        What turns ask for again, because it comes with the next batch or this is a dry run, is said
        once, until it changes; a note that goes on, once a minute, whatever its numbers are.
        """
        return self._driver.decisions(limit)

    def on_decision(self, listener: Callable[[Decision], None]) -> None:
        """Call ``listener`` with each such decision from now on, on another thread.

        What it throws goes to the log ``laneshift``.
        """
        self._driver.on_decision(listener)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<laneshift autoscaler of {self._driver!r}>"


class Host(Protocol):
    """What differs between a session of this process and a control service."""

    @property
    def gateway(self) -> Gateway:
        """Where commands go."""
        ...

    def version(self) -> str:
        """Of what is there. Errors: SessionError if it does not fit this package."""
        ...

    def watch(self, interval_s: float) -> Iterator[Snapshot]:
        """A snapshot each interval."""
        ...

    def start(self, wanted: Wanted, followed: Callable[[], str | None]) -> Driver:
        """Start a policy; ``followed`` finds the id of the only query to drive, once the rest is
        checked."""
        ...

    def close(self) -> None:
        """Give up what is held for it."""
        ...


class Here:
    """This process: a policy ends with it."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway

    def version(self) -> str:
        return connect(self.gateway)

    def watch(self, interval_s: float) -> Iterator[Snapshot]:
        due = time.monotonic()
        while True:
            yield self.gateway.snapshot()
            due = max(due + interval_s, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))

    def start(self, wanted: Wanted, followed: Callable[[], str | None]) -> AutoscaleLoop:
        options = wanted.options
        chosen = chosen_policy(wanted.policy, wanted.target_latency_s, dict(wanted.parameters))
        options.check_for(chosen)
        return AutoscaleLoop(self.gateway, chosen, replace(options, query=followed())).begin()

    def close(self) -> None:
        """Nothing is held: the session is the user's."""
