"""An application that is reached by its control service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from laneshift.api.autoscaler import Wanted
from laneshift.autoscale.options import chosen_policy
from laneshift.control.client import ControlClient
from laneshift.control.remote import RemoteAutoscaler, named
from laneshift.errors import error
from laneshift.plugin.snapshot import Snapshot


class There:
    """The control process of another machine or process: a policy goes on without us."""

    def __init__(self, client: ControlClient) -> None:
        self.gateway = client

    def version(self) -> str:
        # It may be of another version: its protocol says what it can do.
        return self.gateway.version()

    def watch(self, interval_s: float) -> Iterator[Snapshot]:
        return self.gateway.watch(interval_s)

    def start(self, wanted: Wanted, followed: Callable[[], str | None]) -> RemoteAutoscaler:
        if wanted.trace is not None:
            raise error(
                "LANESHIFT_NOT_REMOTE",
                what="trace",
                why="the policy would write it there; `laneshift report --live` records here",
            )
        policy, target_latency_s = wanted.policy, wanted.target_latency_s
        options = wanted.options
        options.check()
        if not isinstance(policy, str) and target_latency_s is not None:
            chosen_policy(policy, target_latency_s, dict(wanted.parameters))
        name, texts = named(policy, wanted.parameters)
        options = replace(options, query=followed())
        run = self.gateway.autoscale(name, texts, target_latency_s, options)
        return RemoteAutoscaler(self.gateway, run)

    def close(self) -> None:
        self.gateway.close()
