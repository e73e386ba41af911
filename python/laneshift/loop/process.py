"""The process that ``spark.sql.laneshift.scheduler`` asks for: the driver starts it and ends it.

``python -m laneshift.loop.process``, with the settings as JSON in ``LANESHIFT_SCHEDULER``:

    port, token         how to call the driver
    policy              its name
    target_latency_ms   its latency target (ms), 0 for its own
    interval_s          time between two turns (s)
    parameters          parameters of the policy as text by name, optional
    query               name or id of the only query to drive, optional
    cores               most cores of an executor that lanes may use, optional, 0 for all
    dry_run             decide and report only, optional
    trace               file to record in, optional; if it is there, one with a number after it

What it prints goes to the driver's log. Exit codes: 0 the driver has ended, 2 wrong settings (to
start it again would not help), anything else a failure.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laneshift.errors import InputError, LaneshiftError
from laneshift.loop.decision import Decision
from laneshift.loop.scheduler import LiveScheduler
from laneshift.loop.start import check_turns, chosen_policy
from laneshift.plugin.gateway import Gateway, PortGateway, connect
from laneshift.plugin.snapshot import Snapshot
from laneshift.scheduler import registry
from laneshift.scheduler.policies.base import Policy

VARIABLE = "LANESHIFT_SCHEDULER"
WARNING = "warning: "
"""What a line begins with that is one, for ``SchedulerProcess``."""

WRONG = ("LANESHIFT_EXECUTORS_MAX", "LANESHIFT_DYNAMIC_ALLOCATION")
"""Conditions of settings that stay wrong."""

LOOK_S = 1.0
"""So often it is looked whether the query is there that the settings name (s, ours)."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the driver asks for, checked.

    Attributes:
        policy: with its parameters.
        interval_s, cores, dry_run: as in :meth:`laneshift.Laneshift.start`.
        query: name or id of the only query, None for all.
        trace: file to record in, or none.
    """

    policy: Policy[Any]
    interval_s: float
    query: str | None = None
    cores: int | None = None
    dry_run: bool = False
    trace: Path | None = None

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Settings:
        """From the driver's JSON. Errors: :class:`~laneshift.errors.InputError`."""
        name, cores = data["policy"], data.get("cores") or None
        parameters = registry.parse_parameters(name, dict(data.get("parameters") or {}))
        policy = chosen_policy(name, data["target_latency_ms"] or None, parameters)
        check_turns(data["interval_s"], cores)
        trace = Path(data["trace"]) if data.get("trace") else None
        if trace is not None and not trace.absolute().parent.is_dir():
            raise InputError(
                "trace", str(trace), "a file in a folder that is there", "Make the folder first."
            )
        return cls(
            policy,
            data["interval_s"],
            data.get("query") or None,
            cores,
            bool(data.get("dry_run", False)),
            trace,
        )

    @property
    def words(self) -> str:
        """What runs, for the log."""
        return f"{self.policy.name} decides every {self.interval_s:g} s"

    def scheduler(self, gateway: Gateway, run: str | None) -> LiveScheduler:
        """A scheduler of the query's run, None for all, that has begun."""
        return LiveScheduler(
            gateway,
            self.policy,
            interval_s=self.interval_s,
            query=run,
            cores=self.cores,
            dry_run=self.dry_run,
            trace=None if self.trace is None else unused(self.trace),
        ).begin()


def main() -> int:
    """Run until the driver closes our standard input or does not answer any more."""
    data = json.loads(os.environ[VARIABLE])
    try:
        gateway = PortGateway(int(data["port"]), str(data["token"]))
        connect(gateway)
        settings = Settings.of(data)
        say(settings.words)
        over = ending()
        if settings.query is None:
            drive(settings.scheduler(gateway, None), over)
        else:
            drive_runs(settings, gateway, over)
    except InputError as problem:
        warn(str(problem))
        return 2
    except LaneshiftError as problem:
        warn(str(problem))
        return code_of(problem)
    return 0


def code_of(problem: LaneshiftError) -> int:
    """The exit code: whether it would help to start again."""
    return 2 if problem.condition in WRONG else 1


def ending() -> threading.Event:
    """Set once the driver has closed our standard input, as its own end does."""
    over = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    return over


def drive(
    scheduler: LiveScheduler, over: threading.Event, goes_on: Callable[[], bool] = lambda: True
) -> None:
    """Let a scheduler run until it ends, ``over`` is set, or ``goes_on`` says no."""
    scheduler.on_decision(show)
    try:
        while scheduler.is_running and not over.wait(0.5) and goes_on():
            pass
    finally:
        scheduler.stop()


def drive_runs(
    settings: Settings,
    gateway: Gateway,
    over: threading.Event,
    begun: Callable[[LiveScheduler], object] = lambda _: None,
) -> None:
    """Drive each run of the query that the settings name, as long as it is there.

    ``begun`` hears of each run's scheduler.
    """
    say(f"it waits for the query {settings.query}")
    while not over.wait(LOOK_S):
        run = run_of(gateway, settings.query)
        if run is not None:
            scheduler = settings.scheduler(gateway, run)
            begun(scheduler)
            drive(scheduler, over, Every(LOOK_S, same(settings, gateway, run)))


def run_of(gateway: Gateway, query: str | None) -> str | None:
    """Run id of the active query of that name or id, None if there is none."""
    for found in Snapshot.from_json(gateway.snapshot()).queries:
        if found.active and query in (found.name, found.id, found.run_id):
            return found.run_id
    return None


def same(settings: Settings, gateway: Gateway, run: str) -> Callable[[], bool]:
    """Asks whether it is still that run of the settings' query."""
    return lambda: run_of(gateway, settings.query) == run


class Every:
    """A question that is asked anew after ``seconds`` (s); before, the answer holds."""

    def __init__(self, seconds: float, ask: Callable[[], bool]) -> None:
        self._seconds, self._ask = seconds, ask
        self._due, self._said = time.monotonic() + seconds, True

    def __call__(self) -> bool:
        """The answer."""
        if time.monotonic() >= self._due:
            self._due, self._said = time.monotonic() + self._seconds, self._ask()
        return self._said


def unused(file: Path) -> Path:
    """``file``, or if it is there, with the first number after its name that makes a new one."""
    numbers = itertools.count(2)
    found = file
    while found.exists():
        found = file.with_name(f"{file.stem}-{next(numbers)}{file.suffix}")
    return found


def show(decision: Decision) -> None:
    """A line for each thing that a decision has to say."""
    for line in decision.lines():
        say(line)


def say(line: str) -> None:
    """Print at once: the driver reads line by line."""
    print(line, flush=True)


def warn(line: str) -> None:
    """Print what the driver's log is to have as a warning: PySpark shows nothing below."""
    say(WARNING + line)


if __name__ == "__main__":
    sys.exit(main())
