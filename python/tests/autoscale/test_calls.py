"""How often a turn calls the plugin: not once for each partition."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from autoscale.driven import Time
from autoscale.scripted import Chain, Scripted
from laneshift.autoscale.loop import AutoscaleLoop
from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.plan import CoreChange, Plan
from laneshift.policies import registry
from plugin.fake import M, partition


class Counting(Chain):
    """A gateway that notes what is called."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def ask(self, method: str, request: Any, reply: type[M]) -> M:
        self.calls.append(method)
        return super().ask(method, request, reply)


def many(partitions: int) -> Counting:
    """Operator 1 feeds operator 0, of so many partitions each."""
    gateway = Counting()
    gateway.data["executors"][0] |= {"cores": 8 * partitions, "active_tasks": 2 * partitions}
    for operator in gateway.data["queries"][0]["operators"]:
        operator["partition_count"] = partitions
        one = partition(0) | {"auto": True}
        operator["partitions"] = [
            copy.deepcopy(one) | {"partition": number} for number in range(partitions)
        ]
    return gateway


@pytest.mark.parametrize("partitions", [2, 30])
def test_two_calls_a_turn_and_one_more_to_tell_of_it(partitions: int) -> None:
    seen: list[ClusterLoad] = []

    def say(cluster: ClusterLoad, _: int) -> Plan:
        seen.append(cluster)
        changes = [CoreChange(p.partition, p.cores, p.cores + 1) for p in cluster.partitions]
        return Plan(core_changes=tuple(changes))

    gateway = many(partitions)
    made = AutoscaleLoop(gateway, Scripted(say=say), clock=Time())
    made.turn()
    assert gateway.calls == ["Snapshot", "Claim", "SetLanes"]  # they are ours from now on
    gateway.calls.clear()
    (decision,) = made.turn()
    assert len(decision.changes) == 2 * partitions
    assert gateway.calls == ["Snapshot", "SetLanes", "Decided"]
    assert len(seen[0].edges) == 1


def test_a_planner_asks_once_for_each_operator() -> None:
    gateway = many(30)
    made = AutoscaleLoop(gateway, registry.policy("mnrt"))
    made.turn()
    assert gateway.calls == ["Snapshot", "Claim", "ClaimKeys", "ClaimKeys"]
