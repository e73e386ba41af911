"""Executors are decided on apart: each has a state and errors of its own, and traces say so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from autoscale.scripted import Moving, loop
from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.plan import CoreChange, Plan, Throttle
from laneshift.contract.policy import Policy
from laneshift.contract.trace import read_trace
from laneshift.policies import registry
from laneshift_lab.replay import replay
from laneshift_lab.simulator.advise import advise, with_cores
from plugin.fake import RUNNING, executor


class Two(Moving):
    """A partition on each of two executors."""

    def __init__(self) -> None:
        super().__init__()
        self.data["executors"] = [executor(name, 8, active_tasks=1) for name in "12"]
        parts = self.data["queries"][0]["operators"][0]["partitions"]
        for part, home in zip(parts, "12", strict=True):
            part["executor"] = home


def recorded(tmp_path: Path) -> tuple[list[ClusterLoad], Policy[Any], list[Plan]]:
    """The trace of a few turns, its policy, and what that has decided in them."""
    plans: list[Plan] = []

    def say(cluster: ClusterLoad, turn: int) -> Plan:
        (part,) = cluster.partitions
        plans.append(Plan(core_changes=(CoreChange(part.partition, part.cores, 3 + turn),)))
        return plans[-1]

    made = loop(Two(), say, trace=tmp_path / "trace")
    for _ in range(4):
        made.turn()
    made.stop()
    return list(read_trace(tmp_path / "trace")), made.policy, plans.copy()


def test_a_replay_decides_on_each_executor_as_the_live_run_did(tmp_path: Path) -> None:
    trace, policy, plans = recorded(tmp_path)
    assert [cluster.island for cluster in trace] == ["1", "2"] * 4
    assert [each.plan for each in replay(trace, policy)] == plans


def test_such_a_trace_can_be_simulated(tmp_path: Path) -> None:
    trace, _, _ = recorded(tmp_path)
    found = advise("static", registry.policy("static"), trace)
    assert found.series["time_s"].tolist() == sorted({cluster.time_s for cluster in trace})
    alone = [
        advise("static", registry.policy("static"), [c for c in trace if c.island == island])
        for island in "12"
    ]
    for name in ("offered", "capacity", "cores", "backlog"):
        both = alone[0].series[name] + alone[1].series[name]
        assert found.series[name].tolist() == both.tolist(), name
    more = advise("static", registry.policy("static"), with_cores(trace, 12))
    assert more.cores == 12


def test_a_policy_that_fails_for_one_executor_decides_for_the_others() -> None:
    def say(cluster: ClusterLoad, turn: int) -> Plan:
        (part,) = cluster.partitions
        if cluster.island == "1":
            raise ValueError("not here")
        limit = Throttle(part.partition, 100.0)
        change = CoreChange(part.partition, part.cores, 3)
        return Plan(core_changes=(change,), throttles=() if turn else (limit,))

    gateway = Two()
    made = loop(gateway, say)
    failed, done = made.turn()
    assert (failed.executor, failed.error) == ("1", "ValueError: not here")
    assert (done.executor, done.error) == ("2", None)
    assert ("set_lanes", RUNNING, 0, 1, 3) in gateway.sent
    made.turn()
    limits = [sent for sent in gateway.sent if sent[0] == "limit_source"]
    assert [rate > 0 for _, _, rate, _ in limits] == [True, False]  # no longer than it says
