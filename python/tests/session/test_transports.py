"""The API is the same over each transport: every method of it, and every error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from laneshift import Application, Query
from laneshift.errors import conditions, error, placeholders
from plugin.fake import FakeGateway
from session import transports
from session.transports import TRANSPORTS, facade


def steered(app: Application) -> list[object]:
    with app.autoscale(policy="static", interval=0.1, dry_run=True) as autoscaler:
        before = (autoscaler.policy, autoscaler.is_running, autoscaler.is_paused)
        autoscaler.pause()
        paused = autoscaler.is_paused
        autoscaler.resume()
    return [before, paused, autoscaler.is_paused, autoscaler.is_running]


def driven(app: Application | Query) -> list[object]:
    with app.autoscale(policy="static", interval=0.1, dry_run=True) as autoscaler:
        return [autoscaler.policy, autoscaler.is_running]


CALLS: dict[str, Callable[[Application], object]] = {
    "version": lambda app: app.version,
    "snapshot": lambda app: repr(app.snapshot()),
    "watch": lambda app: repr(next(iter(app.watch(0.1)))),
    "queries": lambda app: [q.id for q in app.queries],
    "query": lambda app: repr(app.query("running")),
    "handoffs": lambda app: [app.handoffs(), app.handoffs(limit=5)],
    "autoscale": steered,
    "close": lambda app: app.close(),
}

QUERY_CALLS: dict[str, Callable[[Query], object]] = {
    "id": lambda query: query.id,
    "name": lambda query: query.name,
    "snapshot": lambda query: repr(query.snapshot()),
    "watch": lambda query: repr(next(iter(query.watch(0.1)))),
    "set_lanes": lambda query: [
        query.set_lanes(3).applied, query.set_lanes(2, partition=0, on={"2": 4}).applied,
    ],
    "set_tasks": lambda query: [
        query.set_tasks(2).applied, query.set_tasks("auto", operator=0).applied,
    ],
    "move": lambda query: query.move(shard=7, to_lane=1, partition=1).applied,
    "limit_source": lambda query: query.limit_source(5.5, duration=0.5),
    "rescale": lambda query: query.rescale(16).progress,
    "rescaling": lambda query: [query.rescaling and query.rescaling.progress],
    "handoffs": lambda query: query.handoffs(limit=5),
    "autoscale": driven,
}  # fmt: skip


def test_no_method_is_left_out() -> None:
    for kind, calls in ((Application, CALLS), (Query, QUERY_CALLS)):
        assert {name for name in vars(kind) if not name.startswith("_")} == calls.keys()


@pytest.mark.parametrize("name", QUERY_CALLS)
def test_a_method_of_a_query_does_the_same_over_each_transport(name: str) -> None:
    found = {}
    for transport in TRANSPORTS:
        gateway = FakeGateway()
        with facade(transport, gateway) as app:
            found[transport] = [QUERY_CALLS[name](app.query("running")), gateway.sent]
            found[transport] += [gateway.asked]
    assert found["grpc"] == found["py4j"] and found["connect"] == found["py4j"]


@pytest.mark.parametrize("name", CALLS)
def test_a_method_does_the_same_over_each_transport(name: str) -> None:
    found = {}
    for transport in TRANSPORTS:
        gateway = FakeGateway()
        with facade(transport, gateway) as app:
            found[transport] = [CALLS[name](app), gateway.sent, gateway.asked]
    assert found["grpc"] == found["py4j"] and found["connect"] == found["py4j"]


class Refusing(FakeGateway):
    """Refuses all, for another reason each time."""

    problem: Exception

    def on_limit_source(self, query: str, rate: float, seconds: float) -> dict[str, Any]:
        raise self.problem


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_an_error_is_the_same_over_each_transport(transport: str) -> None:
    gateway = Refusing()
    with facade(transport, gateway) as app:
        for condition, known in conditions().items():
            if condition == "LANESHIFT_INVALID_INPUT":  # Python's own: the plugin has none
                continue
            said = {name: f"a {name}: 'x' (7)" for name in placeholders(known["message"])}
            gateway.problem = wanted = error(condition, **said)
            with pytest.raises(type(wanted)) as caught:
                app.query("running").limit_source(1, duration=1)
            assert type(caught.value) is type(wanted) and str(caught.value) == str(wanted)
            assert caught.value.condition == condition
            assert caught.value.parameters == said
            assert caught.value.sqlstate == wanted.sqlstate


def test_these_are_all_transports() -> None:
    """A class of its own for each: py4j's, and the client's for both others."""
    gateways = set()
    for transport in transports.TRANSPORTS:
        with facade(transport, FakeGateway()) as app:
            gateways.add(type(app._gateway).__name__)
    assert gateways == {"Py4jGateway", "ControlClient"}
