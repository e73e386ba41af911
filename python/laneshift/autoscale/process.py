"""The process that ``spark.sql.laneshift.scheduler`` asks for: the driver starts it and ends it.

``python -m laneshift.autoscale.process``, with the settings as JSON in ``LANESHIFT_SCHEDULER``:

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
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from laneshift.autoscale.decisions import Decision
from laneshift.autoscale.loop import AutoscaleLoop
from laneshift.autoscale.options import AutoscaleOptions, chosen_policy
from laneshift.contract.policy import Policy
from laneshift.errors import InputError, LaneshiftError
from laneshift.plugin.gateway import Gateway, PortGateway, connect
from laneshift.policies import registry

VARIABLE = "LANESHIFT_SCHEDULER"

WARNING = "warning: "
"""What a line begins with that is one, for ``SchedulerProcess``."""

WRONG = ("LANESHIFT_EXECUTORS_MAX", "LANESHIFT_DYNAMIC_ALLOCATION")
"""Conditions of settings that stay wrong."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the driver asks for, checked: a policy with its parameters, and how it drives."""

    policy: Policy[Any]
    options: AutoscaleOptions

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Settings:
        """From the driver's JSON. Errors: :class:`~laneshift.errors.InputError`."""
        name = data["policy"]
        parameters = registry.parse_parameters(name, dict(data.get("parameters") or {}))
        target_ms = data["target_latency_ms"]
        policy = chosen_policy(name, target_ms / 1000 if target_ms else None, parameters)
        trace = Path(data["trace"]) if data.get("trace") else None
        if trace is not None and not trace.absolute().parent.is_dir():
            raise InputError(
                "trace", str(trace), "a file in a folder that is there", "Make the folder first."
            )
        options = AutoscaleOptions(
            interval_s=data["interval_s"],
            query=data.get("query") or None,
            cores=data.get("cores") or None,
            dry_run=bool(data.get("dry_run", False)),
            trace=trace,
        )
        options.check_for(policy)
        return cls(policy, options)

    @property
    def words(self) -> str:
        """What runs, for the log."""
        query = self.options.query
        only = "" if query is None else f" for the query {query}"
        return f"{self.policy.name} decides every {self.options.interval_s:g} s{only}"

    def autoscaler(self, gateway: Gateway) -> AutoscaleLoop:
        """A loop that has begun; each thing that its decisions have to say is printed."""
        trace = self.options.trace
        options = replace(self.options, trace=None if trace is None else unused(Path(trace)))
        made = AutoscaleLoop(gateway, self.policy, options)
        made.on_decision(show)
        return made.begin()


def main() -> int:
    """Run until the driver closes our standard input or does not answer any more."""
    data = json.loads(os.environ[VARIABLE])
    try:
        gateway = PortGateway(int(data["port"]), str(data["token"]))
        connect(gateway)
        settings = Settings.of(data)
        say(settings.words)
        drive(settings.autoscaler(gateway), ending())
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


def drive(loop: AutoscaleLoop, over: threading.Event) -> bool:
    """Let a loop run until it ends or ``over`` is set. Whether it ended by itself."""
    try:
        while loop.is_running and not over.wait(0.5):
            pass
        return not (loop.is_stopped or over.is_set())
    finally:
        loop.stop()


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
