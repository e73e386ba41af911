"""The simulated loop is woken by partitions that become pressed, as that of running queries is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from laneshift.autoscale.presses import MOST_SHORT, ShortTurns, only_more
from laneshift.contract.ids import NodeId, PartitionId
from laneshift.contract.plan import CoreChange, PlacementChange, Plan
from laneshift.policies.registry import PLANNERS, names, policy
from laneshift_lab.samples import cluster, partition
from laneshift_lab.simulator import Cluster, Engine, Operator, Result, Scenario, Simulation
from laneshift_lab.simulator.rates import Constant, Levels, Rate
from laneshift_lab.simulator.workload import ZipfKeys

BURST_S = 10.0
DEEP = pytest.mark.deep("policies")


def simulation(
    name: str, rate: Rate, *, wakes: bool, cores: int = 16, policy_s: float = 1.0
) -> Simulation:
    scene = Scenario(
        Cluster(1, cores),
        (Operator("counts", partitions=4, shards=64, cost_s=2e-3, lane_queue_rows=20_000),),
        ZipfKeys(10_000, 0.5, 0.0, 1),
        rate,
        30.0,
        Engine(step_s=0.01, policy_s=policy_s, balance_s=0.2, actuation_s=0.01, wakes=wakes,
               window_s=0.5),
        cores=(1,) * 4,
        seed=1,
    )  # fmt: skip
    return Simulation(scene, policy(name))


def run(*args: Any, **kwargs: Any) -> Result:
    return simulation(*args, **kwargs).run()


def burst() -> Rate:
    return Levels(((800.0, BURST_S + 0.3), (6400.0, 40.0)))


@pytest.mark.parametrize(
    "name", ["laneshift", *(pytest.param(n, marks=DEEP) for n in ("elasticutor", "naive-ec"))]
)
def test_a_burst_does_not_wait_for_the_period(name: str) -> None:
    def cores(result: Result, at_s: float) -> float:
        times = result.column("time_s")
        return float(result.column("cores")[np.searchsorted(times, at_s)])

    woken, waiting = (run(name, burst(), wakes=wakes) for wakes in (True, False))
    assert cores(woken, BURST_S + 1.0) >= 13 > cores(waiting, BURST_S + 1.0)
    assert woken.column("queued").max() < waiting.column("queued").max()


def test_a_second_burst_does_not_wait_for_the_period_either() -> None:
    rate = Levels(((800.0, 5.0), (3200.0, 7.0), (6400.0, 40.0)))
    for policy_s in (1.0, 28.0):
        result = run("elasticutor", rate, wakes=True, policy_s=policy_s)
        times, cores = result.column("time_s"), result.column("cores")
        early, late = (cores[np.searchsorted(times, at_s)] for at_s in (9.0, 14.0))
        assert 4 < early < 13 <= late, policy_s


@pytest.mark.parametrize(
    "name",
    [
        name if name == "laneshift" else pytest.param(name, marks=DEEP)
        for name in names()
        if name not in PLANNERS
    ],
)
def test_under_a_constant_load_or_without_room_it_is_as_before(name: str) -> None:
    for load, cores in ((800.0, 16), (6400.0, 4)):
        woken, waiting = (
            run(name, Constant(load), wakes=wakes, cores=cores) for wakes in (True, False)
        )
        assert woken.column("cores")[20:].tolist() == waiting.column("cores")[20:].tolist()
        extra = woken.column("decisions")[-1] - waiting.column("decisions")[-1]
        assert extra <= MOST_SHORT


def test_a_short_turn_is_a_look_between_two_windows() -> None:
    burst_of = simulation("elasticutor", burst(), wakes=True)
    burst_of.record = True
    burst_of.run()
    by_period = {
        load.time_s: load.time_s == pytest.approx(round(load.time_s)) for load in burst_of.recorded
    }
    assert {load.time_s: load.whole for load in burst_of.recorded} == by_period
    assert set(by_period.values()) == {True, False}


def test_a_press_has_so_many_short_turns() -> None:
    turns = ShortTurns()
    assert [turns.goes_on(added) for added in (True, False, True, True, True)] == [
        True, True, True, True, False,
    ]  # fmt: skip
    turns = ShortTurns()
    assert [turns.goes_on(False) for _ in range(2)] == [True, False]


def test_only_what_comes_is_kept_of_a_plan_within_what_is_free() -> None:
    """Two cores of `a` are free; what q0 gives away, and q1 moves, is nobody's yet."""
    parts = [partition(f"q{n}", {"a": 2, "b": 1}) for n in range(3)]
    load = cluster({"a": 8, "b": 3}, parts)
    q, a, b = [PartitionId(f"q{n}") for n in range(3)], NodeId("a"), NodeId("b")
    plan = Plan(
        core_changes=(CoreChange(q[0], 3, 1), CoreChange(q[2], 3, 7)),
        placement_changes=(
            PlacementChange(q[0], a, 2, 0),
            PlacementChange(q[1], b, 1, 0),
            PlacementChange(q[1], a, 2, 3),
            PlacementChange(q[2], a, 2, 5),
            PlacementChange(q[2], b, 1, 2),
        ),
    )
    kept = only_more(plan, load)
    assert kept.core_changes == (CoreChange(q[1], 3, 4), CoreChange(q[2], 3, 4))
    assert kept.placement_changes == (
        PlacementChange(q[1], a, 2, 3),
        PlacementChange(q[2], a, 2, 3),
    )
    assert only_more(Plan(), load).is_empty
