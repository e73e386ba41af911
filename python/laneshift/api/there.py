"""An application that is reached by its control service."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from laneshift.api.autoscaler import Wanted
from laneshift.autoscale.options import check_turns, chosen_policy
from laneshift.control.client import ControlClient
from laneshift.control.remote import RemoteScheduler, named
from laneshift.errors import error
from laneshift.inputcheck import whole


class There:
    """The control process of another machine or process: a policy goes on without us."""

    def __init__(self, client: ControlClient) -> None:
        self.gateway = client

    def version(self) -> str:
        # It may be of another version: its protocol says what it can do.
        return self.gateway.version()

    def watch(self, interval_s: float) -> Iterator[Mapping[str, Any]]:
        return self.gateway.watch(interval_s)

    def start(self, wanted: Wanted, followed: Callable[[], str | None]) -> RemoteScheduler:
        if wanted.trace is not None:
            raise error(
                "LANESHIFT_NOT_REMOTE",
                what="trace",
                why="the policy would write it there; `laneshift report --live` records here",
            )
        policy, target_latency_s = wanted.policy, wanted.target_latency_s
        check_turns(wanted.interval_s, wanted.cores)
        if wanted.max_executors is not None:
            whole("max_executors", wanted.max_executors, low=0, high=10_000, unit="executors")
        if not isinstance(policy, str) and target_latency_s is not None:
            chosen_policy(policy, target_latency_s, dict(wanted.parameters))
        name, texts = named(policy, wanted.parameters)
        run = self.gateway.autoscale(
            name,
            texts,
            target_latency_s=target_latency_s,
            interval_s=wanted.interval_s,
            query=followed() or "",
            cores=wanted.cores,
            dry_run=wanted.dry_run,
            max_executors=wanted.max_executors,
        )
        return RemoteScheduler(self.gateway, run)

    def close(self) -> None:
        self.gateway.close()
