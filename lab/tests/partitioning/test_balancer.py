"""The balancer: a worked example and its caveat (Elasticutor, 2019, 3.2), draining, batches."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laneshift.errors import InputError
from laneshift.partitioning import Loads, Routing
from laneshift.partitioning.balance_core import balance_batch
from laneshift.partitioning.balancer import Balancer
from laneshift_lab.partitioning import partitioner
from laneshift_lab.partitioning.conditions import plan_violations

LOADS = np.array([50.0, 40, 30, 10, 20, 15, 15])  # a b c d | e | f g
LANES = np.array([0, 0, 0, 0, 1, 2, 2])


@pytest.mark.parametrize("guard", [True, False])
def test_worked_example(guard: bool) -> None:
    result = balance_batch(LOADS[None], LANES[None], np.array([3]), 1.2, hot_shard_guard=guard)
    moves = list(
        zip(result.shard.tolist(), result.source.tolist(), result.target.tolist(), strict=True)
    )
    assert moves == [(0, 0, 1), (1, 0, 2)]
    assert result.delta[0] == pytest.approx(70 / 60)


def test_first_move_gives_the_intermediate_delta() -> None:
    result = balance_batch(LOADS[None], LANES[None], np.array([3]), 1.2, max_moves=1)
    assert result.delta[0] == pytest.approx(1.3333, abs=1e-4)


def test_hot_shard_caveat() -> None:
    """Literally, the hot shard moves for nothing; guarded, its neighbour leaves and it stays."""
    load, lane = np.array([100.0, 5, 5]), np.array([0, 0, 1])
    literal = Balancer(hot_shard_guard=False).plan(Loads.of(load), Routing.at_home(lane, 3), 0.2)
    assert [(m.key, m.target) for m in literal.moves] == [(0, 2)]
    guarded = Balancer().plan(Loads.of(load), Routing.at_home(lane, 3), 0.2)
    assert [(m.key, m.target) for m in guarded.moves] == [(1, 2)]
    assert Balancer(min_gain=0.2).plan(Loads.of(load), Routing.at_home(lane, 3), 0.2).moves == ()
    assert not guarded.feasible
    assert "shard 0 alone" in guarded.reason


def test_two_hot_shards_on_one_lane_part() -> None:
    plan = Balancer().plan(Loads.of([100.0, 100.0, 1.0]), Routing.at_home([0, 0, 1], 3), 0.2)
    assert len({plan.routing.target[0], plan.routing.target[1]}) == 2


def test_inactive_lanes_are_drained() -> None:
    routing = Routing.at_home(LANES, 3, active=[True, False, True])
    plan = Balancer().plan(Loads.of(LOADS), routing, 0.2)
    assert not (plan.routing.target == 1).any()
    assert plan_violations(Loads.of(LOADS), routing, plan) == []


def test_split_shard_is_refused() -> None:
    routing = Routing.from_table([0, 0], 2, {1: {0: 0.5, 1: 0.5}})
    with pytest.raises(InputError, match="every shard whole on one lane"):
        Balancer().plan(Loads.of([1.0, 2.0]), routing, 0.2)


@pytest.mark.parametrize(
    ("load", "lane", "theta", "field"),
    [
        (-1.0, 0, 1.2, r"load\[0,0\]"),
        (np.nan, 0, 1.2, r"load\[0,0\]"),
        (1.0, 3, 1.2, "lane"),
        (1.0, 0, 0.9, "theta"),
        (1.0, 0, np.nan, "theta"),
    ],
)
def test_wrong_input_names_the_field(load: float, lane: int, theta: float, field: str) -> None:
    with pytest.raises(InputError, match=field):
        balance_batch(np.full((1, 2), load), np.full((1, 2), lane), np.array([2]), theta)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 6),
    st.integers(1, 60),
    st.floats(1.0, 1.5),
    st.integers(0, 2**31),
    st.booleans(),
    st.sampled_from([0.0, 0.05]),
    st.sampled_from([1, 3, 10**6]),
)
def test_batch_equals_one_by_one(
    n: int, shards: int, theta: float, seed: int, guard: bool, gain: float, most: int
) -> None:
    """One partition alone has a loop of its own, which must make the same moves."""
    rng = np.random.default_rng(seed)
    load = rng.pareto(1.2, (n, shards)) * rng.integers(0, 2, (n, shards))
    lanes = rng.integers(1, 6, n)
    lane = (rng.random((n, shards)) * lanes[:, None]).astype(np.int64)
    how: Any = {"hot_shard_guard": guard, "min_gain": gain, "max_moves": most}
    result = balance_batch(load, lane, lanes, theta, **how)
    for p in range(n):
        alone = balance_batch(load[p : p + 1], lane[p : p + 1], lanes[p : p + 1], theta, **how)
        assert result.lane[p].tolist() == alone.lane[0].tolist()
        assert result.delta[p] == alone.delta[0]
        here = result.partition == p
        for name in ("shard", "source", "target"):
            assert getattr(result, name)[here].tolist() == getattr(alone, name).tolist()
        before = np.bincount(lane[p], weights=load[p], minlength=lanes[p]).max()
        after = np.bincount(result.lane[p], weights=load[p], minlength=lanes[p]).max()
        assert after <= before * (1 + 1e-12)


@pytest.mark.parametrize("guard", [True, False])
@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize(("load", "shards", "lanes"), [(0.3, 10, 3), (0.1, 14, 4), (1 / 3, 13, 4)])
def test_equal_shards_do_not_change_places_for_a_rounding_error(
    load: float, shards: int, lanes: int, partitions: int, guard: bool
) -> None:
    """Sums of 0.3 differ by their order: two lanes gave each other a shard a million times."""
    result = balance_batch(
        np.full((partitions, shards), load),
        np.zeros((partitions, shards), dtype=np.int64),
        np.full(partitions, lanes),
        1.0,
        hot_shard_guard=guard,
        max_moves=1000,
    )
    assert len(result.shard) == partitions * (shards - math.ceil(shards / lanes))


def test_balanced_input_makes_no_move() -> None:
    plan = partitioner("balancer").plan(
        Loads.of(np.ones(8)), Routing.at_home(np.arange(8) % 4, 4), 0.0
    )
    assert plan.moves == ()
    assert plan.feasible


def test_thousand_partitions_are_fast() -> None:
    """Figure to reach: 1,000 partitions x 256 shards <= 50 ms (median); here with room for CI."""
    rng = np.random.default_rng(1)
    load = rng.pareto(1.5, (1000, 256))
    lane = rng.integers(0, 8, (1000, 256))
    took = []
    for _ in range(5):
        start = time.thread_time()
        balance_batch(load, lane, np.full(1000, 8), 1.2)
        took.append(time.thread_time() - start)
    assert sorted(took)[2] < 0.25
