"""Sessions of a Spark Connect server: each steers its own queries only, unless allowed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import laneshift
from autoscale.scripted import Moving, until
from laneshift import Application, ArgumentError, NotFoundError
from laneshift.autoscale.loop import AutoscaleLoop
from laneshift.autoscale.options import AutoscaleOptions
from laneshift.control.calls import TENANT_CALLS
from laneshift.control.running import MOST_OF_TENANT, RunningAutoscalers
from laneshift.control.tokens import signed
from laneshift.plugin.gateway import the_one
from laneshift.plugin.v1 import control_pb2 as pb
from laneshift.policies.registry import policy
from plugin.fake import HANDOFF, RUNNING, query
from session.transports import TENANT_KEY, TOKEN, serving, settings

OTHERS = "44444444-4444-4444-8444-444444444444"
NOBODYS = "55555555-5555-4555-8555-555555555555"


class Shared(Moving):
    """The queries of two tenants, and one of none."""

    def __init__(self) -> None:
        super().__init__()
        self.data["queries"][0]["tenant"] = "t1"
        self.others = [
            query(OTHERS, "others", active=True) | {"tenant": "t2"},
            query(NOBODYS, "nobodys", active=True),
        ]

    def on_snapshot(self) -> dict[str, Any]:
        found = super().on_snapshot()
        return found | {"queries": found["queries"] + self.others}

    def on_handoffs(self, query: str, limit: int) -> list[dict[str, Any]]:
        self.asked.append((query, limit))
        every = [HANDOFF, HANDOFF | {"query_id": OTHERS}]
        return [h for h in every if query in ("", h["query_id"], "running")]


def token(tenant: str) -> str:
    return f"{tenant}.{signed(TENANT_KEY.encode(), tenant)}"


@pytest.fixture
def gateway() -> Shared:
    return Shared()


@pytest.fixture
def attached(gateway: Shared) -> Iterator[tuple[Application, Application, Application]]:
    """Of the first tenant, the second and the operator."""
    with serving(gateway) as address, ExitStack() as stack:
        found = (laneshift.attach(address, t) for t in (token("t1"), token("t2"), TOKEN))
        one, two, operator = (stack.enter_context(app) for app in found)
        yield one, two, operator


Attached = tuple[Application, Application, Application]


def test_each_sees_its_own(attached: Attached) -> None:
    one, two, operator = attached
    for app, wanted in ((one, {RUNNING}), (two, {OTHERS}), (operator, {RUNNING, OTHERS, NOBODYS})):
        assert {q.id for q in app.snapshot().queries} == wanted
        assert {q.id for q in next(iter(app.watch(1.0))).queries} == wanted
    assert [h.query_id for h in one.handoffs()] == [RUNNING]
    assert len(operator.handoffs()) == 2


def test_a_tenant_leaves_room_for_the_others(attached: Attached) -> None:
    one, two, operator = attached
    streams = [one.watch(60) for _ in range(TENANT_CALLS)]
    for stream in streams:
        next(stream)
    with pytest.raises(laneshift.SessionError, match=f"{TENANT_CALLS} calls at a time of a tenant"):
        next(one.watch(60))
    assert operator.snapshot().queries and two.snapshot().queries
    for stream in streams:
        stream.close()  # type: ignore[attr-defined]

    def answers() -> bool:
        try:
            return bool(one.snapshot())
        except laneshift.SessionError:
            return False

    until(answers)


def test_a_tenant_cannot_ask_for_a_turn_without_end(attached: Attached) -> None:
    with pytest.raises(ArgumentError, match="horizon"):
        attached[0].query("running").autoscale(policy="laneshift", horizon=10**9)


def test_a_tenant_has_so_many_policies_at_a_time(gateway: Shared) -> None:
    def loop() -> AutoscaleLoop:
        return AutoscaleLoop(gateway, policy("static"), AutoscaleOptions(dry_run=True))

    policies = RunningAutoscalers()
    # Those that are about to begin count: a tenant's calls are answered at a time.
    runs = [policies.add(loop(), tenant="t1") for _ in range(MOST_OF_TENANT)]
    with pytest.raises(laneshift.SessionError, match="8 autoscalers of a session"):
        policies.add(loop(), tenant="t1")
    policies.add(loop(), tenant="t2")
    policies.add(loop())
    runs[0].autoscaler.begin()
    with pytest.raises(laneshift.SessionError):
        policies.add(loop(), tenant="t1")
    runs[0].autoscaler.stop()
    policies.add(loop(), tenant="t1")


def lanes(query: str) -> pb.LanesWish:
    return pb.LanesWish(query=query, operator=0, partition=0, lanes=2)


def test_of_many_wishes_ones_own_are_fulfilled(attached: Attached, gateway: Shared) -> None:
    one, _, operator = attached
    wishes = [lanes(name) for name in ("others", "running", NOBODYS, RUNNING, "")]
    found = one._gateway.set_lanes(wishes)
    assert [isinstance(each, NotFoundError) for each in found] == [True, False, True, False, True]
    assert found[1] == found[3] == "now"
    assert [call[1] for call in gateway.sent] == [RUNNING, RUNNING]
    assert operator._gateway.set_lanes(wishes[:1]) == ["now"]


def test_nobody_steers_anothers(attached: Attached, gateway: Shared) -> None:
    one, two, operator = attached
    client: Any = one._gateway
    for name in ("others", OTHERS, OTHERS[::-1], NOBODYS, "nobodys"):
        calls = [
            lambda name=name: the_one(client.set_lanes([lanes(name)])),
            lambda name=name: the_one(client.set_tasks([pb.TasksWish(query=name, tasks="2")])),
            lambda name=name: the_one(client.move([pb.MoveWish(query=name, shard=1)])),
            lambda name=name: client.limit_source(name, 1.0, 1.0),
            lambda name=name: client.handoffs(name, 1),
            lambda name=name: one.query(name).set_lanes(2, partition=0),
            lambda name=name: one.query(name).autoscale(policy="static"),
        ]
        for call in calls:
            with pytest.raises(NotFoundError) as caught:
                call()
            assert NOBODYS[:8] not in str(caught.value).replace(name, "")
            assert "'running'" in str(caught.value)
    assert gateway.sent == [] and gateway.asked == []
    with pytest.raises(ArgumentError, match=r"its own queries only.*'running'"):
        one.autoscale("static")
    one.query("running").set_lanes(2, partition=0)
    two.query("others").set_lanes(2, partition=0)
    operator.query("nobodys").set_lanes(2, partition=0)
    assert [call[1] for call in gateway.sent] == [RUNNING, OTHERS, NOBODYS]


def test_policies_are_their_starters(attached: Attached) -> None:
    one, two, operator = attached
    mine = one.query("running").autoscale(policy="elasticutor", interval=0.1)
    client, other, all_seeing = (app._gateway for app in (one, two, operator))
    until(lambda: mine.turns > 1)
    assert [run.id for run in client.autoscalers()] == [mine.id]  # type: ignore[attr-defined]
    assert other.autoscalers() == ()  # type: ignore[attr-defined]
    for call in (other.stop_autoscaler, lambda id: other.pause_autoscaler(id, True)):  # type: ignore[attr-defined]
        with pytest.raises(NotFoundError, match="run: none"):
            call(mine.id)  # type: ignore[attr-defined]
    assert len(all_seeing.autoscalers()) == 1  # type: ignore[attr-defined]
    mine.stop()
    with pytest.raises(ArgumentError, match="installed"):
        one.query("running").autoscale("os:system")


def test_all_may_steer_all_if_allowed(gateway: Shared) -> None:
    with (
        serving(gateway, settings(tenants_share=True)) as address,
        laneshift.attach(address, token("t1")) as app,
    ):
        assert len(app.snapshot().queries) == 3
        app.query("others").set_lanes(2, partition=0)
        app.autoscale(policy="static", interval=1).stop()
    assert gateway.sent == [("set_lanes", OTHERS, 0, 0, 2)]
