"""Rescales of a simulated query: once where it pays, and never back and forth."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from laneshift.errors import InputError
from laneshift.policies.registry import policy
from laneshift_lab.simulator.batches import BatchRun, BatchScene, StoreScene, run_batches
from laneshift_lab.simulator.rates import Constant, Levels

ABLE = ["elasticutor", "laneshift", "naive-ec", "resource-centric"]


def scene(partitions: int, stores: StoreScene, **more: Any) -> BatchScene:
    usual: dict[str, Any] = {
        "rate": Constant(2_000),
        "cost_s": 1e-5,
        "interval_s": None,
        "cores": 2,
        "lanes": 1,
    }
    usual |= more
    shares = usual.pop("shares", (1.0 / partitions,) * partitions)
    return BatchScene(shares=shares, stores=stores, **usual)


def took(run: BatchRun, since_s: float) -> float:
    late = [b.took_s for b in run.batches if b.begin_s >= since_s]
    return sum(late) / len(late)


@pytest.mark.deep("policies")
@pytest.mark.parametrize("name", ABLE)
def test_200_stores_on_two_cores_become_few_and_stay(name: str) -> None:
    """11 s a batch for 24,000 rows, nearly all of it commits."""
    at = scene(200, StoreScene(0.11, state_bytes=20e6), most_rows=24_000)
    stays = run_batches(policy(name), at, 400.0)
    assert stays.rescales == () and 10.5 < took(stays, 100.0) < 12.0
    run = run_batches(policy(name, rescale=True), at, 1200.0)
    ((when, before, after),) = run.rescales
    assert when < 100.0 and before == 200 and after <= 8
    assert took(run, when) < took(stays, 100.0) / 5
    assert all(len(b.lanes) == (200 if b.begin_s < when else after) for b in run.batches)


@pytest.mark.deep("policies")
def test_few_stores_with_long_commits_become_more() -> None:
    at = scene(
        2,
        StoreScene(0.05, row_s=2e-4, row_bytes=4000.0, state_bytes=1e8),
        cores=16,
        interval_s=10.0,
        rate=Constant(6_000),
    )
    run = run_batches(policy("laneshift", rescale=True), at, 1200.0)
    ((when, before, after),) = run.rescales
    assert before == 2 and after > 8
    assert took(run, when + 60.0) < 0.4 * took(run_batches(policy("laneshift"), at, 1200.0), 600.0)


@pytest.mark.deep("policies")
def test_what_was_wrong_is_learnt() -> None:
    """Commits go by rows, and nothing of what is written says so: fewer partitions are worse."""
    at = scene(64, StoreScene(0.001, row_s=1e-3, row_bytes=0.0, state_bytes=1e6), cores=32,
               interval_s=10.0, rate=Constant(2_000))  # fmt: skip
    run = run_batches(policy("laneshift", rescale=True), at, 6000.0)
    assert len(run.rescales) <= 2
    assert took(run, 4000.0) <= 1.3 * took(run_batches(policy("laneshift"), at, 2000.0), 500.0)


@pytest.mark.deep("policies")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ABLE)
def test_load_that_comes_and_goes_is_no_reason_to_rescale_each_time(name: str, seed: int) -> None:
    """An hour of 5 minutes each: no two rescales are nearer than what they have to earn."""
    at = scene(
        16,
        StoreScene(0.05, row_s=2e-5, state_bytes=5e7),
        cores=8,
        rate=Levels(((500.0, 300.0), (20_000.0, 300.0))),
        interval_s=10.0,
        noise=0.05,
        seed=seed,
    )
    run = run_batches(policy(name, rescale=True), at, 3600.0)
    times = [when for when, _, _ in run.rescales]
    assert len(times) <= 2, run.rescales
    assert all(b - a >= 600.0 for a, b in pairwise(times))


@pytest.mark.deep("policies")
def test_state_that_takes_too_long_to_rewrite_stays() -> None:
    at = scene(200, StoreScene(0.11, state_bytes=1e12), most_rows=24_000)
    run = run_batches(policy("laneshift", rescale=True), at, 1500.0)
    assert run.rescales == ()


def test_wrong_scenes_are_named() -> None:
    with pytest.raises(InputError, match="per_store_s"):
        StoreScene(-1.0)
    with pytest.raises(InputError, match="build_bytes_per_s"):
        StoreScene(0.1, build_bytes_per_s=0.0)
