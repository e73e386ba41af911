"""The policy that the driver's options name: in the control process, alone or beside the service.

The driver says which by these fields of its JSON:

    policy              its name
    target_latency_ms   its latency target (ms), 0 for its own
    interval_s          time between two turns (s)
    parameters          parameters of the policy as text by name, optional
    query               name or id of the only query to drive, optional
    cores               most cores of an executor that lanes may use, optional, 0 for all
    dry_run             decide and report only, optional
    trace               file to record in, optional; if it is there, one with a number after it
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from laneshift.autoscale.decisions import Decision
from laneshift.autoscale.loop import AutoscaleLoop
from laneshift.autoscale.options import AutoscaleOptions, chosen_policy
from laneshift.contract.policy import Policy
from laneshift.control import log
from laneshift.control.running import RunningAutoscalers
from laneshift.errors import InputError, LaneshiftError
from laneshift.plugin.gateway import Gateway
from laneshift.policies import registry

AGAIN_S = 5.0
"""Between two tries to have a port, or a query, that another process has (ours)."""

WRONG = ("LANESHIFT_EXECUTORS_MAX", "LANESHIFT_DYNAMIC_ALLOCATION")
"""Conditions of settings that stay wrong."""


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """What the driver asks for, checked: a policy with its parameters, and how it drives."""

    policy: Policy[Any]
    options: AutoscaleOptions

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> PolicySettings:
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

    def drive(self, gateway: Gateway, over: threading.Event) -> None:
        """Run the policy alone, on this thread, until it ends or ``over`` is set: the driver starts
        a process again that has ended. Errors: :class:`~laneshift.errors.LaneshiftError`."""
        log.say(self.words)
        run(self.autoscaler(gateway), over)

    def drive_beside(
        self, gateway: Gateway, policies: RunningAutoscalers, over: threading.Event
    ) -> None:
        """Run the policy beside the service, on a thread of its own, until somebody stops it. It
        begins again if it ends by itself or cannot begin, but for settings that stay wrong.
        """
        log.say(self.words)
        again = True
        while again and not over.is_set():
            try:
                loop = self.autoscaler(gateway)
                policies.add(loop, self.options.query or "")
                again = run(loop, over)
                if again:
                    log.warn(f"{loop.name} has ended; it begins again")
            except LaneshiftError as problem:  # another autoscaler has it, or the driver is gone
                again = not stays_wrong(problem)
                log.warn(str(problem) if again else f"{problem} It goes on without the policy.")
            if again:
                over.wait(AGAIN_S)


def stays_wrong(problem: LaneshiftError) -> bool:
    """Whether to start again would not help."""
    return isinstance(problem, InputError) or problem.condition in WRONG


def run(loop: AutoscaleLoop, over: threading.Event) -> bool:
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
        log.say(line)
