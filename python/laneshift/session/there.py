"""The live object of an application that is reached by its control service."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from laneshift.control.client import ControlClient
from laneshift.control.remote import RemoteScheduler, named
from laneshift.errors import error
from laneshift.inputcheck import whole
from laneshift.loop.start import check_turns, chosen_policy
from laneshift.scheduler.policies.base import Policy


class There:
    """The control process of another machine or process: a policy goes on without us."""

    def __init__(self, client: ControlClient) -> None:
        self._client = client

    def watch(self, interval_s: float) -> Iterator[Mapping[str, Any]]:
        return self._client.watch(interval_s)

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
    ) -> RemoteScheduler:
        if trace is not None:
            raise error(
                "LANESHIFT_NOT_REMOTE",
                what="trace",
                why="the policy would write it there; `laneshift report --live` records here",
            )
        check_turns(interval_s, cores)
        if max_executors is not None:
            whole("max_executors", max_executors, low=0, high=10_000, unit="executors")
        if not isinstance(policy, str) and target_latency_ms is not None:
            chosen_policy(policy, target_latency_ms, parameters)  # refuses the two together
        name, texts = named(policy, parameters)
        run = self._client.start_policy(
            name,
            texts,
            target_latency_ms=target_latency_ms,
            interval_s=interval_s,
            query=followed() or "",
            cores=cores,
            dry_run=dry_run,
            max_executors=max_executors,
        )
        return RemoteScheduler(self._client, run)

    def close(self) -> None:
        self._client.close()
