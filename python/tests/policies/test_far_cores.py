"""Placement for running queries: a core at home stays there, some partitions stay altogether."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.partition_load import PartitionLoad
from laneshift.contract.plan import Plan, Reason
from laneshift.errors import InputError
from laneshift.policies import registry
from laneshift.policies.far_cores import ROW_S, near_only
from laneshift.policies.placing import Placer
from laneshift.policies.view import View
from laneshift_lab.apply import apply_plan
from laneshift_lab.samples import cluster, partition

PLACING = ["elasticutor", "naive-ec", "laneshift", "resource-centric"]


def running(seed: int) -> ClusterLoad:
    """Partitions of running queries on a few executors, some of which stay home."""
    random = np.random.default_rng(seed)
    nodes = {f"e{i}": int(random.integers(1, 7)) for i in range(int(random.integers(2, 6)))}
    free = dict(nodes)
    parts: list[PartitionLoad] = []
    for j in range(int(random.integers(1, 8))):
        homes = [node for node, cores in free.items() if cores > 0]
        if not homes:
            break
        home = str(random.choice(homes))
        free[home] -= 1
        held, stays = {home: 1}, bool(random.random() < 0.3)
        for _ in range(int(random.integers(0, 5))):
            node = home if stays else str(random.choice(list(nodes)))
            if free[node] > 0:
                free[node] -= 1
                held[node] = held.get(node, 0) + 1
        part = partition(
            f"p{j}",
            held,
            offered_rate=float(random.choice([0, 100, 1000, 6000])),
            service_rate=float(random.choice([100, 1000, 100_000])),
            operator=f"o{j % 3}{stays}",
            state_bytes=float(random.choice([0, 1e3, 1e9])),
            data_bytes_per_s=float(random.choice([0, 1e4, 1e8])),
            saturated=bool(random.random() < 0.3),
        )
        parts.append(replace(part, kept_at_home=1, stays_home=stays))
    return cluster(nodes, parts)


def check(before: ClusterLoad, plan: Plan) -> ClusterLoad:
    after = apply_plan(before, plan)
    for part in after.partitions:
        assert part.cores_on(part.home) >= 1, part
        assert not part.stays_home or part.cores == part.cores_on(part.home), part
    return after


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(PLACING))
def test_every_plan_keeps_a_core_at_home_and_leaves_those_there_who_stay(
    seed: int, name: str
) -> None:
    before = running(seed)
    policy = registry.policy(name)
    plan, _ = policy.answer(before, policy.start())
    check(before, plan)
    assert all(short.reason is not Reason.PLACEMENT or "stays" in short.message
               for short in plan.shortfalls)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([None, 0.0, 60.0]))
def test_counts_that_fit_are_placed(seed: int, payback_s: float | None) -> None:
    before = running(seed)
    targets = np.random.default_rng(seed).integers(1, 9, len(before.partitions))
    plan = Placer(payback_s=payback_s).plan(View.of(before), targets)
    after = check(before, plan)
    assert all(short.reason is Reason.BUDGET for short in plan.shortfalls)
    if not plan.shortfalls:
        assert [part.cores for part in after.partitions] == targets.tolist()


def hot(service: float, **held: int) -> ClusterLoad:
    """One partition with four cores of work, at home on an executor of two."""
    part = partition(
        "hot", held, offered_rate=4 * service, service_rate=service, home="e1", saturated=True
    )
    return cluster({"e1": 2, "e2": 4}, [replace(part, kept_at_home=1)])


@pytest.mark.parametrize("name", PLACING)
def test_a_hot_partition_gets_cores_of_another_executor(name: str) -> None:
    policy = registry.policy(name)
    plan, _ = policy.answer(hot(200.0, e1=2), policy.start())
    (part,) = check(hot(200.0, e1=2), plan).partitions
    assert part.cores >= 5 and part.cores_on(part.home) == 2


def test_laneshift_leaves_cheap_rows_at_home_and_says_so() -> None:
    policy = registry.policy("laneshift")
    before = hot(1 / (2 * ROW_S), e1=2)
    plan, _ = policy.answer(before, policy.start())
    assert plan.core_changes == plan.placement_changes == ()
    (short,) = (s for s in plan.shortfalls if s.reason is Reason.PLACEMENT)
    assert short.message == (
        "hot stays on executor e1: a row is 20 µs of work, its way to another one 10 µs"
    )


def test_laneshift_takes_cheap_rows_home_only_if_they_are_hardly_worth_it() -> None:
    policy = registry.policy("laneshift")
    still = hot(1 / (2 * ROW_S), e1=2, e2=2)
    plan, _ = policy.answer(still, policy.start())
    assert check(still, plan).partitions[0].cores > 2
    never = hot(1 / ROW_S, e1=2, e2=2)
    plan, _ = policy.answer(never, policy.start())
    (part,) = check(never, plan).partitions
    assert part.cores == part.cores_on(part.home) == 2
    assert {(c.node, c.before, c.after) for c in plan.placement_changes} == {("e2", 2, 0)}


def test_bytes_of_rows_are_part_of_their_way() -> None:
    heavy = replace(hot(2000.0, e1=1).partitions[0], input_bytes_per_s=8000 * 100_000.0)
    seen, (short,) = near_only(replace(hot(2000.0, e1=1), partitions=(heavy,)))
    assert seen.partitions[0].stays_home
    assert "a row is 500 µs of work, its way to another one 1.01 ms" in short.message


def test_what_has_no_core_at_home_is_not_judged() -> None:
    """The papers' partitions: only their traffic says whether they are near."""
    paper = replace(hot(1e6, e1=1).partitions[0], kept_at_home=0)
    before = replace(hot(1e6, e1=1), partitions=(paper,))
    assert near_only(before) == (before, ())


def test_surplus_elsewhere_goes_first() -> None:
    part = partition("p", {"e1": 4, "e2": 2}, service_rate=100.0, state_bytes=1e9)
    before = cluster({"e1": 4, "e2": 4}, [replace(part, kept_at_home=1)])
    plan = Placer().plan(View.of(before), np.array([3]))
    assert {(c.node, c.after) for c in plan.placement_changes} == {("e2", 0), ("e1", 3)}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kept_at_home": 3}, "kept_at_home of partition hot: found 3"),
        ({"stays_home": True}, "placement of partition hot: found 3"),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, int], words: str) -> None:
    part = hot(100.0, e1=2, e2=1).partitions[0]
    with pytest.raises(InputError, match=words):
        replace(part, **change)  # type: ignore[arg-type]
