"""The loop on a clock that goes on only when somebody waits: hours of it take no time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from autoscale.scripted import Moving, until
from laneshift.autoscale.loop import AutoscaleLoop
from laneshift.autoscale.options import AutoscaleOptions
from laneshift.contract.policy import Policy
from laneshift.errors import error
from plugin.fake import FakeGateway


class Time:
    """Seconds that have been waited."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def wait(self, over: threading.Event, seconds: float) -> bool:
        self.now += seconds
        return over.is_set()


class Driven(Moving):
    """Notes when it is asked for what, and ends the loop at a time.

    Attributes:
        looks, claimed: times of snapshots and of claims.
        takes_s: how long a snapshot takes.
        works_s, busy_s: CPU time that the loop has for each, and has had.
        press_at: when a wait for presses ends with one, by time.
    """

    def __init__(self, ends_s: float) -> None:
        super().__init__()
        self.time = Time()
        self.ends_s = ends_s
        self.looks: list[float] = []
        self.claimed: list[float] = []
        self.takes_s: Callable[[float], float] = lambda _: 0.0
        self.works_s = self.busy_s = 0.0
        self.press_at: list[tuple[float, dict[str, Any]]] = []

    def on_snapshot(self) -> dict[str, Any]:
        if self.time.now >= self.ends_s:
            raise error("LANESHIFT_SESSION_STOPPED", method="snapshot")
        self.looks.append(self.time.now)
        self.time.now += self.takes_s(self.time.now) + self.works_s
        self.busy_s += self.works_s
        return super().on_snapshot()

    def on_claim(self, autoscaler: str, policy: str, run: str, seconds: float) -> None:
        self.claimed.append(self.time.now)
        super().on_claim(autoscaler, policy, run, seconds)

    def on_await_pressed(
        self, autoscaler: str, run: str, after: int, seconds: float
    ) -> dict[str, Any]:
        due = [at for at, _ in self.press_at if at <= self.time.now + seconds]
        if due:
            self.time.now = max(self.time.now, due[0])
            self.presses = [self.press_at.pop(0)[1]]
            self.pressed.set()
            return FakeGateway.on_await_pressed(self, autoscaler, run, after, seconds)
        self.time.now += seconds
        return {"seq": self.heard, "presses": []}


def driven(gateway: Driven, policy: Policy[Any], interval_s: float = 1.0) -> AutoscaleLoop:
    """The loop, once the gateway has ended it."""
    made = AutoscaleLoop(
        gateway,
        policy,
        AutoscaleOptions(interval_s=interval_s),
        clock=gateway.time,
        cpu=lambda: gateway.busy_s,
        wait=gateway.time.wait,
    ).begin()
    until(lambda: not made.is_running)
    made.stop()
    return made
