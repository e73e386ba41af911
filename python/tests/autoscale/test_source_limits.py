"""The loop holds back the sources of queries whose policy asks for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from autoscale.scripted import Chain, Moving, Scripted, keeping, loop, until
from laneshift.autoscale.loop import AutoscaleLoop
from laneshift.autoscale.options import AutoscaleOptions
from laneshift.autoscale.sources import GRACE_S
from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.ids import PartitionId
from laneshift.contract.plan import Plan, Throttle
from laneshift.errors import error
from plugin.fake import RUNNING, FakeGateway


def throttling(*targets: tuple[str, float]) -> Callable[[ClusterLoad, int], Plan]:
    def say(*_: object) -> Plan:
        return Plan(
            throttles=tuple(Throttle(PartitionId(t), rate, windows=2) for t, rate in targets)
        )

    return say


def limits(gateway: FakeGateway) -> list[tuple[float, float]]:
    """What was sent: rows per second and seconds."""
    return [(rate, seconds) for method, _, rate, seconds in gateway.sent]


END = (0.0, 0.0)


def test_a_throttle_becomes_a_limit_of_the_source() -> None:
    gateway = Moving()  # 500 rows/s come to each of two partitions
    (decision,) = loop(
        gateway, throttling(("running:0.0", 100.0), ("running:source", 600.0))
    ).turn()
    # The partition gets half of the source's rows, and 200 is less than 600.
    assert gateway.sent == [("limit_source", RUNNING, 200.0, 2 * 1.0 + GRACE_S)]
    (limit,) = decision.limits
    assert str(limit) == (
        "source of running at 200 rows/s at most for 2 windows:"
        " running:0.0 is to get 100 rows/s at most, 0.5 of the source's rows"
    )
    assert decision.notes == ()
    assert gateway.told[0]["notes"] == [str(limit)]


def test_what_a_limit_does_to_the_rate_does_not_change_the_next_one() -> None:
    gateway = Moving()
    gateway.passed = 0.25  # a filter leaves so much of what the source gives
    gateway.data["queries"][0]["given"]["rows"] *= 4
    made = loop(gateway, throttling(("running:0.0", 100.0)))
    for rows in (500, 130, 7, 0, 4000):
        gateway.rows = rows
        made.turn()
    assert [rate for rate, _ in limits(gateway)] == pytest.approx([800.0] * 5)


def test_executors_ask_for_their_share_and_the_lowest_holds() -> None:
    gateway = Moving()
    (operator,) = gateway.data["queries"][0]["operators"]
    operator["partitions"][1]["executor"] = "2"
    gateway.data["executors"].append(gateway.data["executors"][0] | {"executor": "2"})

    def say(cluster: ClusterLoad, _: int) -> Plan:
        rate = {"driver": 100.0, "2": 300.0}[cluster.nodes[0].node]
        return Plan(throttles=(Throttle(cluster.sources[0].source, rate),))

    made = loop(gateway, say)
    made.turn()
    made.turn()
    assert [rate for rate, _ in limits(gateway)] == [200.0] * 4


def test_what_cannot_be_throttled_says_so() -> None:
    class Fixed(Chain):
        def on_limit_source(self, query: str, rate: float, seconds: float) -> Any:
            raise error("LANESHIFT_SOURCE_NOT_LIMITED", query=query, why="rate stands still")

    gateway = Fixed()
    made = loop(gateway, throttling(("running:0.0", 10.0), ("running:1.1", 10.0)))
    (decision,) = made.turn()
    assert decision.limits == ()
    assert (
        "running:0.0 cannot be slowed down to 10 rows/s: it is fed by another" in decision.notes[0]
    )
    assert "the source of running is not slowed down: " in decision.notes[1]
    assert "rate stands still" in decision.notes[1]


def test_a_source_that_does_not_count_says_so() -> None:
    gateway = Moving()
    gateway.data["queries"][0]["given"] = None
    (decision,) = loop(gateway, throttling(("running:source", 10.0))).turn()
    assert gateway.sent == []
    (note,) = decision.notes
    assert "running:source cannot be slowed down to 10 rows/s: its source does not count" in note


def test_little_seen_is_no_base_for_a_limit() -> None:
    gateway = Moving()
    gateway.rows = 40
    gateway.data["queries"][0]["given"]["rows"] = 0
    for part in gateway.data["queries"][0]["operators"][0]["partitions"]:
        part["rows_in"] = 0
    made = loop(gateway, throttling(("running:1", 10.0), ("running:0.1", 10.0)))
    (decision,) = made.turn()
    assert gateway.sent == []
    assert decision.notes[1] == (
        "running:0.1 cannot be slowed down to 10 rows/s:"
        " fewer than 100 rows that came to it have been counted so far"
    )
    assert made.turn()[0].limits


def test_a_limit_ends_with_the_turn_that_does_not_ask_again() -> None:
    gateway = Moving()

    def say(_: ClusterLoad, turn: int) -> Plan:
        windows = {0: 1, 1: 1, 3: 3, 4: 1}.get(turn)
        target = PartitionId("running:0.0")
        return Plan(throttles=(Throttle(target, 100.0, windows),) if windows else ())

    made = loop(gateway, say)
    sent = []
    for _ in range(7):
        gateway.data["time_ms"] += 700  # however late a turn is
        made.turn()
        sent.append(limits(gateway))
        gateway.sent.clear()
    held = (200.0, pytest.approx(1.7 + GRACE_S))
    thrice = (200.0, pytest.approx(3 * 1.7 + GRACE_S))
    assert sent == [[held], [held], [END], [thrice], [held], [END], []]


@pytest.mark.parametrize("how", ["stop", "pause"])
def test_an_autoscaler_that_ends_or_pauses_lets_sources_go(how: str) -> None:
    gateway = Moving()
    made = AutoscaleLoop(
        gateway, Scripted(say=throttling(("running:0.0", 100.0))), AutoscaleOptions(interval_s=0.1)
    ).begin()
    until(lambda: made.turns >= 4)
    if how == "pause":
        made.pause()
        until(lambda: gateway.sent[-1] == ("limit_source", RUNNING, *END))
    made.stop()
    assert limits(gateway)[-1] == END
    assert limits(gateway).count(END) == 1


def test_a_dry_run_limits_nothing() -> None:
    gateway = Moving()
    made = loop(gateway, throttling(("running:0.0", 10.0)), dry_run=True)
    (decision,) = made.turn()
    for _ in range(4):
        made.turn()
    assert gateway.sent == []
    assert [line for line in decision.lines() if "at most for 2 windows (not carried out)" in line]
    assert decision.to_plugin().notes == list(decision.lines())


def test_only_sources_enter_the_chain_of_a_query() -> None:
    seen: list[ClusterLoad] = []
    loop(Chain(), keeping(seen)).turn()
    (cluster,) = seen
    (source,) = cluster.sources
    assert (source.source, source.feeds) == ("running:source", ("running:1.0", "running:1.1"))
    assert cluster.heads == source.feeds
    assert source.rate == cluster.external_rate == 6000
    assert [(e.upstream, e.downstream, e.ratio) for e in cluster.edges] == [
        ("running:1", "running:0", 0.5)
    ]
    assert [p.queue_rows / p.queue_capacity_rows for p in cluster.partitions] == pytest.approx(
        [5000 / (2**20 / 100)] * 4
    )
