"""How often a turn calls the plugin: not once for each partition."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from autoscale.scripted import Chain, Scripted
from laneshift.autoscale.loop import AutoscaleLoop
from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.plan import CoreChange, Plan
from laneshift.policies import registry
from plugin.fake import partition


class Counting:
    """A gateway that notes what is called."""

    def __init__(self, gateway: Chain) -> None:
        self._gateway = gateway
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            self.calls.append(name)
            return getattr(self._gateway, name)(*arguments)

        return call


def many(partitions: int) -> Counting:
    """Operator 1 feeds operator 0, of so many partitions each."""
    gateway = Chain()
    gateway.data["executors"][0] |= {"cores": 8 * partitions, "active_tasks": 2 * partitions}
    for operator in gateway.data["queries"][0]["operators"]:
        operator["partition_count"] = partitions
        one = partition(0) | {"auto": True}
        operator["partitions"] = [
            copy.deepcopy(one) | {"partition": number} for number in range(partitions)
        ]
    return Counting(gateway)


@pytest.mark.parametrize("partitions", [2, 30])
def test_three_calls_a_turn_and_one_more_to_tell_of_it(partitions: int) -> None:
    seen: list[ClusterLoad] = []

    def say(cluster: ClusterLoad, _: int) -> Plan:
        seen.append(cluster)
        changes = [CoreChange(p.partition, p.cores, p.cores + 1) for p in cluster.partitions]
        return Plan(core_changes=tuple(changes))

    gateway = many(partitions)
    made = AutoscaleLoop(gateway, Scripted(say=say))
    made.turn()
    assert gateway.calls == ["snapshot", "claim", "set_many_lanes"]  # they are ours from now on
    gateway.calls.clear()
    (decision,) = made.turn()
    assert len(decision.changes) == 2 * partitions
    assert gateway.calls == ["snapshot", "claim", "set_many_lanes", "decided"]
    assert len(seen[0].edges) == 1


def test_a_planner_asks_once_for_each_operator() -> None:
    gateway = many(30)
    made = AutoscaleLoop(gateway, registry.policy("mnrt"))
    made.turn()
    assert gateway.calls == ["snapshot", "claim", "claim_keys", "claim_keys"]
