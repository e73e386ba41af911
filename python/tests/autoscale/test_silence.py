"""An executor that does not answer for a while has not gone, and what it has is not free."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from autoscale.scripted import Moving, Scripted
from autoscale.test_places import Placing, Spread, cells
from laneshift.autoscale.loop import AutoscaleLoop
from laneshift.autoscale.pictures import Silence
from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.ids import PartitionId
from laneshift.contract.plan import Plan
from laneshift.policies import registry
from plugin.fake import FakeGateway, executor, snapshot_of

P0, P1 = PartitionId("running:0.0"), PartitionId("running:0.1")


def without(data: dict[str, Any], *silent: str) -> dict[str, Any]:
    """What the plugin says if these executors do not answer."""
    for query in data["queries"]:
        for operator in query["operators"]:
            operator["partitions"] = [
                part for part in operator["partitions"] if part["executor"] not in silent
            ]
        query["operators"] = [each for each in query["operators"] if each["partitions"]]
    return data | {"silent": list(silent)}


class Collecting(Spread):
    """An executor collects garbage in some of its looks."""

    silent: tuple[str, ...] = ()

    def on_snapshot(self) -> dict[str, Any]:
        return without(super().on_snapshot(), *self.silent)


def test_nothing_is_placed_on_a_silent_executor_and_what_was_known_is_known_again() -> None:
    seen: list[ClusterLoad] = []
    say = cells(p0={"1": 2, "2": 2, "3": 1})

    def listening(cluster: ClusterLoad, state: int) -> Plan:
        seen.append(cluster)
        return say(cluster, state)

    gateway = Collecting()
    made = AutoscaleLoop(gateway, Placing(say=listening))
    made.turn()
    gateway.silent = ("2",)
    (decision,) = made.turn()
    (sent,) = gateway.sent
    assert sent[3:] == (0, 2, {"3": 1})
    assert decision.notes[0].startswith("executor 2 does not answer: its partitions keep their")
    # At the first look that had two of it, none was there: now as before.
    gateway.silent = ()
    made.turn()
    was = seen[-1].partition(P1)
    gateway.silent = ("2",)
    made.turn()
    assert [part.partition for part in seen[-1].partitions] == [P0, P1]
    known = seen[-1].partition(P1)
    assert (known.home, known.offered_rate) == ("2", was.offered_rate)
    assert known.service_rate_per_core == was.service_rate_per_core
    assert {node.node: node.cores for node in seen[-1].nodes}["2"] == 1 + 2, "as many as are there"
    gateway.silent = ()
    made.turn()
    again = seen[-1].partition(P1)
    assert again.service_rate_per_core == pytest.approx(was.service_rate_per_core)
    assert again.offered_rate == pytest.approx(100.0), "over the time in which nobody heard of it"


@pytest.mark.parametrize("policy", ["laneshift", "elasticutor", "threshold"])
def test_no_policy_asks_anything_of_a_silent_executor(policy: str) -> None:
    gateway = Collecting()
    made = AutoscaleLoop(gateway, registry.policy(policy))
    for _ in range(3):
        made.turn()
    gateway.sent.clear()
    gateway.silent = ("1",)  # where rows wait
    for _ in range(5):
        for decision in made.turn():
            assert decision.error is None
    assert [sent for sent in gateway.sent if sent[3] == 0] == []
    gateway.silent = ()
    gateway.parts[0]["lanes"] = 1
    assert made.turn() != ()


def test_an_island_that_is_silent_is_remembered_and_left_alone() -> None:
    states = []

    def say(cluster: ClusterLoad, state: int) -> Plan:
        states.append((cluster.nodes[0].node, state))
        return Plan()

    class Apart(Moving):
        silent: tuple[str, ...] = ()

        def on_snapshot(self) -> dict[str, Any]:
            return without(super().on_snapshot(), *self.silent)

    gateway = Apart()
    gateway.data["executors"].append(executor("7", cores=4, active_tasks=1))
    gateway.data["queries"][0]["operators"][0]["partitions"][1] |= {"executor": "7", "auto": True}
    made = AutoscaleLoop(gateway, Scripted(say=say))
    made.turn()
    gateway.sent.clear()
    gateway.silent = ("7",)
    _, said = made.turn()
    assert "executor 7 does not answer" in said.notes[0]
    assert gateway.sent == []
    gateway.silent = ()
    made.turn()
    gateway.silent = ("7",)
    made.turn()
    gateway.silent = ()
    made.turn()
    assert [state for node, state in states if node == "7"] == [0, 1], "its memory is not lost"


def test_what_was_computed_elsewhere_before_is_no_news() -> None:
    silence, data = Silence(), FakeGateway().data
    data["executors"] = [executor(name, 4, 1) for name in "12"]
    parts = data["queries"][0]["operators"][0]["partitions"]
    for part in parts:
        part |= {"executor": "2", "batch_id": 9}
    silence.filled(snapshot_of(data))
    stale = copy.deepcopy(data)
    before, now = stale["queries"][0]["operators"][0]["partitions"]
    before |= {"executor": "1", "batch_id": 4}
    now |= {"executor": "1", "batch_id": 10}
    filled = silence.filled(snapshot_of(stale | {"silent": ["2"]}))
    (operator,) = filled.queries[0].operators
    assert [(p.executor, p.batch_id) for p in operator.partitions] == [("2", 9), ("1", 10)]
    # The run has ended meanwhile.
    stale["queries"][0]["active"] = False
    stale["queries"][0]["operators"] = []
    over = silence.filled(snapshot_of(stale | {"silent": ["2"]}))
    assert over.queries[0].operators == ()


def test_all_that_is_known_of_a_query_whose_executors_are_all_silent_stays() -> None:
    silence, data = Silence(), FakeGateway().data
    silence.filled(snapshot_of(data))
    nothing = without(copy.deepcopy(data), "driver")
    nothing["queries"][0]["mode"] = "micro-batch"  # the plugin asks operators for it
    filled = silence.filled(snapshot_of(nothing))
    assert filled.queries[0].mode == "real-time"
    assert [p.partition for p in filled.queries[0].operators[0].partitions] == [0, 1]
