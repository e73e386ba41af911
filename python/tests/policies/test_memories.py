"""What counts windows counts no moments between them, and nothing twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from laneshift.contract.cluster_load import ClusterLoad
from laneshift.policies import registry
from laneshift_lab.samples import cluster, partition


def load(window: int, time_s: float | None = None, **more: float) -> ClusterLoad:
    """Two partitions whose rates go up and down, in twenty windows."""
    parts = [
        partition(
            f"p{i}",
            {"n": 3},
            offered_rate=more.get("rate", 1500.0 + 100 * i + 60 * (window * 7 % 20)),
            queue_rows=more.get("queue", 200.0),
            queue_capacity_rows=2000.0,
        )
        for i in range(2)
    ]
    return cluster(
        {"n": 32}, parts, time_s=float(window) if time_s is None else time_s, window_s=1.0
    )


def remembered(name: str, loads: Sequence[ClusterLoad], **parameters: Any) -> Any:
    policy = registry.policy(name, **parameters)
    state = policy.start()
    for each in loads:
        _, state = policy.answer(each, state)
    return state


def memory(name: str, state: Any) -> object:
    """What it counts windows with."""
    if name == "laneshift":
        return state.demand.forecasts, state.strain, state.wait_s
    if name == "median":
        return state.optimal
    return state.offered if name == "elasticutor" else state.filters


NAMES = ("laneshift", "kalman", "craa", "median", "elasticutor")
SMOOTHED = {"elasticutor": {"smoothing": 0.5}}


@pytest.mark.parametrize("name", NAMES)
def test_a_moment_is_no_window(name: str) -> None:
    windows = [load(n) for n in range(33)]
    moments = [
        replace(load(n, n + 0.3, rate=2900.0, queue=900.0), whole=False, window_s=0.1)
        for n in range(33)
    ]
    mixed = [each for pair in zip(windows, moments, strict=True) for each in pair]
    alone = remembered(name, windows, **SMOOTHED.get(name, {}))
    beside = remembered(name, mixed, **SMOOTHED.get(name, {}))
    assert memory(name, beside) == memory(name, alone)
    first = remembered(name, moments[:1])
    assert remembered(name, moments[:1] + windows[:1]) is not None and first is not None


@pytest.mark.parametrize("name", NAMES)
def test_what_is_shown_again_is_counted_once(name: str) -> None:
    windows = [load(n) for n in range(33)]
    mixed = []
    for each in windows:
        again = tuple(replace(part, repeated=True) for part in each.partitions)
        mixed += [each, *[replace(each, partitions=again)] * 4]
    alone = remembered(name, windows, **SMOOTHED.get(name, {}))
    assert memory(name, remembered(name, mixed, **SMOOTHED.get(name, {}))) == memory(name, alone)


def test_a_moment_is_decided_on_all_the_same() -> None:
    policy = registry.policy("laneshift")
    state = policy.start()
    for n in range(20):
        _, state = policy.answer(load(n, rate=400.0, queue=0.0), state)
    moment = replace(load(20, 20.2, rate=9000.0, queue=1500.0), whole=False)
    plan, after = policy.answer(moment, state)
    assert all(change.after >= 9 for change in plan.core_changes)
    assert after.demand.forecasts == state.demand.forecasts
