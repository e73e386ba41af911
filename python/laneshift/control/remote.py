"""A policy that runs in the control process, with the methods of an autoscaler of this process."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields
from typing import Any, Self

from laneshift.autoscale.decisions import Decision
from laneshift.contract.policy import Policy
from laneshift.control.client import ControlClient
from laneshift.errors import InputError, LaneshiftError, NotFoundError
from laneshift.plugin.v1 import control_pb2 as pb
from laneshift.policies import registry

_LOG = logging.getLogger("laneshift")


class RemoteAutoscaler:
    """Drives running queries from the control process; it goes on when this object has gone.

    Made by :meth:`laneshift.Application.autoscale` of one that is attached by an address.
    """

    def __init__(self, client: ControlClient, run: pb.Autoscaler) -> None:
        self._client = client
        self._started = run

    @property
    def id(self) -> str:
        """By which ``laneshift autoscale --stop --id`` finds it."""
        return self._started.id

    @property
    def name(self) -> str:
        """Name of the policy."""
        return self._started.policy

    @property
    def is_running(self) -> bool:
        """True until it is stopped or the control process has ended."""
        return self._now().running

    @property
    def is_paused(self) -> bool:
        """True while it decides but sends nothing."""
        return self._now().paused

    @property
    def turns(self) -> int:
        """Turns done, those with nothing to change included."""
        return self._now().turns

    def pause(self) -> None:
        """Go on measuring and deciding, but send nothing until :meth:`resume`."""
        self._client.pause_autoscaler(self.id, True)

    def resume(self) -> None:
        """Send decisions again."""
        self._client.pause_autoscaler(self.id, False)

    def stop(self) -> None:
        """End it; returns once the last turn is over. Queries keep their lanes."""
        with suppress(NotFoundError):  # the control process has been started again without it
            self._client.stop_autoscaler(self.id)

    def decisions(self, limit: int = 100) -> tuple[Decision, ...]:
        """The newest ``limit`` decisions that had something to say, oldest first."""
        if limit <= 0:
            return ()
        found = self._client.decisions(min(limit, 10_000), id=self.id)
        return tuple(found)

    def on_decision(self, listener: Callable[[Decision], None]) -> None:
        """Call ``listener`` with each such decision from now on, on a thread of this process.

        What it throws goes to the log ``laneshift``; so does, if the service is lost for good, why.
        """
        decided = self._client.decisions(0, follow=True, id=self.id)

        def follow() -> None:
            try:
                for decision in decided:
                    try:
                        listener(decision)
                    except Exception:
                        _LOG.exception("A listener of %s has failed", self.id)
            except LaneshiftError as ended:
                _LOG.info("No more decisions of %s: %s", self.id, ended)

        threading.Thread(target=follow, name="laneshift decisions", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<laneshift autoscaler {self.id} at {self._client.address}>"

    def _now(self) -> pb.Autoscaler:
        for run in self._client.autoscalers():
            if run.id == self.id:
                return run
        return pb.Autoscaler(id=self.id, policy=self.name)


def named(policy: str | Policy[Any], parameters: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """A policy as the control process can make it: its name, and its parameters as JSON texts.

    Errors: :class:`~laneshift.errors.InputError` if it cannot be told so.
    """
    given = dict(parameters)
    if not isinstance(policy, str):
        if not isinstance(policy, Policy):
            raise InputError(
                "policy", policy, "a name or a Policy", "`laneshift policies` lists the names."
            )
        if given:
            raise InputError(
                "policy", policy, f"a name together with {', '.join(given)}",
                "Give the policy its parameters.",
            )  # fmt: skip
        given = {f.name: getattr(policy, f.name) for f in fields(policy) if f.init}
        policy = registry.name_of(type(policy))
    texts = {}
    for name, value in given.items():
        try:
            texts[name] = json.dumps(value)
        except (TypeError, ValueError) as cause:
            raise InputError(
                f"{name} of {policy}", value, "a number, a text, True, False or None",
                "Only these reach the control process.",
            ) from cause  # fmt: skip
    return policy, texts
