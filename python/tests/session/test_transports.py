"""The live object is the same over each transport: every method of it, and every error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from laneshift import Laneshift
from laneshift.errors import conditions, error, placeholders
from plugin.fake import FakeGateway
from session import transports
from session.transports import TRANSPORTS, facade


def steered(live: Laneshift) -> list[object]:
    with live.start("static", interval_s=0.1, dry_run=True) as scheduler:
        running = live.scheduler is scheduler
        before = (scheduler.name, scheduler.is_running, scheduler.is_paused)
        scheduler.pause()
        paused = scheduler.is_paused
        scheduler.resume()
    return [running, before, paused, scheduler.is_paused, scheduler.is_running]


CALLS: dict[str, Callable[[Laneshift], object]] = {
    "version": lambda live: live.version,
    "snapshot": lambda live: repr(live.snapshot()),
    "watch": lambda live: repr(next(iter(live.watch(0.1)))),
    "set_lanes": lambda live: [
        live.set_lanes("running", 0, -1, 3), live.set_lanes("running", 0, 0, 2, on={"2": 4}),
    ],
    "set_tasks": lambda live: [
        live.set_tasks("running", 2), live.set_tasks("running", "auto", operator=0),
    ],
    "move_shard": lambda live: live.move_shard("running", 0, 1, 7, 1),
    "limit_source": lambda live: live.limit_source("running", 5.5, 0.5),
    "rescale": lambda live: live.rescale("running", 16, wait=False),
    "rescaling": lambda live: live.rescaling("running"),
    "cancel_rescale": lambda live: live.cancel_rescale("running"),
    "handoffs": lambda live: [live.handoffs(), live.handoffs("stopped", 5)],
    "start": steered,
    "scheduler": lambda live: live.scheduler,
    "close": lambda live: live.close(),
}  # fmt: skip


def test_no_method_is_left_out() -> None:
    assert {name for name in vars(Laneshift) if not name.startswith("_")} == CALLS.keys()


@pytest.mark.parametrize("name", CALLS)
def test_a_method_does_the_same_over_each_transport(name: str) -> None:
    found = {}
    for transport in TRANSPORTS:
        gateway = FakeGateway()
        with facade(transport, gateway) as live:
            found[transport] = [CALLS[name](live), gateway.sent, gateway.asked]
    assert found["grpc"] == found["py4j"] and found["connect"] == found["py4j"]


class Refusing(FakeGateway):
    """Refuses all, for another reason each time."""

    problem: Exception

    def limit_source(self, query: str, rate: float, seconds: float) -> dict[str, Any]:
        raise self.problem


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_an_error_is_the_same_over_each_transport(transport: str) -> None:
    gateway = Refusing()
    with facade(transport, gateway) as live:
        for condition, known in conditions().items():
            if condition == "LANESHIFT_INVALID_INPUT":  # Python's own: the plugin has none
                continue
            said = {name: f"a {name}: 'x' (7)" for name in placeholders(known["message"])}
            gateway.problem = wanted = error(condition, **said)
            with pytest.raises(type(wanted)) as caught:
                live.limit_source("running", 1, 1)
            assert type(caught.value) is type(wanted) and str(caught.value) == str(wanted)
            assert caught.value.condition == condition
            assert caught.value.parameters == said
            assert caught.value.sqlstate == wanted.sqlstate


def test_these_are_all_transports() -> None:
    """A class of its own for each: py4j's, and the client's for both others."""
    gateways = set()
    for transport in transports.TRANSPORTS:
        with facade(transport, FakeGateway()) as live:
            gateways.add(type(live._gateway).__name__)
    assert gateways == {"Py4jGateway", "ControlClient"}
