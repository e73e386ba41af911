"""Rescales that policies decide: when they pay, never back and forth, within bounds, in words."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laneshift.autoscale.options import chosen_policy
from laneshift.autoscale.store_rates import StoreRates, StoresDone
from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.ids import OperatorId, QueryId
from laneshift.contract.plan import PartitionsChange
from laneshift.contract.store_load import StoreLoad
from laneshift.contract.trace import from_json, to_json
from laneshift.errors import InputError
from laneshift.models.stores import BatchCost
from laneshift.policies import registry
from laneshift.policies.rescaling import RESCALING, SETTLED, RescalingPolicy
from laneshift_lab.samples import cluster, partition

ABLE = ["elasticutor", "laneshift", "naive-ec", "resource-centric"]
QUERY = QueryId("orders")


def able(**parameters: Any) -> RescalingPolicy[Any]:
    found = registry.policy("laneshift", **({"rescale": True} | parameters))
    assert isinstance(found, RescalingPolicy)
    return found


def load(partitions: int = 200, slots: int = 2, **values: Any) -> StoreLoad:
    """200 stores of 0.1 s on two cores, but for ``values``."""
    parts = {"beside_s": 0.5, "work_s": 0.2, "spread_s": 0.1, "per_store_s": 0.1, "excess_s": 0.0}
    parts |= {name: values.pop(name) for name in tuple(values) if name in parts}
    cost = BatchCost(partitions, slots, **parts)
    took_s = cost.batch_s(partitions)
    fixed = {
        "batches": SETTLED,
        "period_s": took_s,
        "took_s": took_s,
        "commit_s": cost.commit_s(partitions),
        "state_bytes": 10e6,
        "largest_bytes": 10e6 / partitions,
    }
    return StoreLoad(
        QUERY, (OperatorId("orders:0"),), partitions, slots, **(fixed | parts | values)
    )


def seen(each: StoreLoad) -> ClusterLoad:
    parts = [
        partition(f"orders:0.{n}", {"a": 1}, query=QUERY, operator="orders:0", offered_rate=1.0)
        for n in range(min(each.partitions, 4))
    ]
    return replace(cluster({"a": 4}, parts), stores=(each,))


def asked(policy: RescalingPolicy[Any], each: StoreLoad) -> PartitionsChange | None:
    plan, _ = policy.answer(seen(each), policy.start())
    return plan.rescales[0] if plan.rescales else None


def number(policy: RescalingPolicy[Any], each: StoreLoad) -> int | None:
    change = asked(policy, each)
    return None if change is None else change.after


@pytest.mark.parametrize("name", ABLE)
def test_fewer_where_the_commits_of_many_stores_are_the_batch(name: str) -> None:
    policy = registry.policy(name, rescale=True, min_partitions=8)
    assert isinstance(policy, RescalingPolicy)
    change = asked(policy, load())
    assert change is not None
    assert (change.query, change.before, change.after) == ("orders", 200, 8)
    assert change.what == "orders 200 -> 8 state partitions"
    assert change.reason.startswith("a batch takes 10.7 s, 10.1 s of it commits of 200 stores in 2")
    assert "with 8, 1.1 s are expected; the rescale costs 1.9 s of batches, earned" in change.reason
    off = registry.policy(name)
    plan, _ = off.answer(seen(load()), off.start())
    assert plan.rescales == ()


def test_more_where_the_commits_of_few_stores_are_the_batch() -> None:
    few = load(2, 16, spread_s=20.0, per_store_s=0.05, state_bytes=1e8)
    assert number(able(), few) == 64
    assert number(able(max_partitions=8), few) == 8
    assert number(able(max_partitions=2), few) is None


@pytest.mark.parametrize(
    ("why", "values"),
    [
        ("a rescale is under way", {"under_way": True}),
        ("one is just over", {"since_s": 599.0}),
        ("too few batches", {"batches": SETTLED - 1}),
        ("state of a terabyte", {"state_bytes": 1e12}),
        ("a batch a day", {"period_s": 86_400.0, "state_bytes": 1e10}),
        ("a pause of ten minutes", {"pause_s": 700.0}),
        ("slow building", {"build_bytes_per_s": 1000.0}),
        ("batches of which commits are nothing", {"per_store_s": 0.0, "beside_s": 10.0}),
    ],
)
def test_what_does_not_pay_is_left(why: str, values: dict[str, Any]) -> None:
    assert number(able(), load()) is not None
    assert number(able(), load(**values)) is None, why


def test_a_little_shorter_is_not_enough() -> None:
    some = load(12, beside_s=2.0)  # 8 would make a batch 7 % shorter, and cost next to nothing
    assert some.cost.best() == 8
    assert number(able(), some) is None
    assert number(able(), load(40, beside_s=2.0)) == 8


def test_the_last_one_is_over_long_enough() -> None:
    assert number(able(), load(since_s=600.0)) is not None
    assert number(able(rescale_payback_s=60.0), load(since_s=61.0)) is not None


def test_no_store_grows_beyond_what_it_may_have() -> None:
    big = load(4, 4, state_bytes=4e9, largest_bytes=1.2e9, per_store_s=0.01)
    assert number(able(), big) is None
    change = asked(able(max_store_bytes=1e9), big)
    # 0.2 GB of the largest are beyond the mean, and stay: 0.5 GB are left for the mean of 4 GB.
    assert change is not None and change.after >= 8
    assert "the largest has 1,200 MB of state, and 1,000 MB are the most" in change.reason
    assert number(able(max_store_bytes=1e9, max_partitions=6), big) is None
    hot = replace(big, largest_bytes=2.5e9)
    assert number(able(max_store_bytes=1e9), hot) is None  # a hot key: no number helps
    # and it does not shrink below
    many = load(state_bytes=20e9, largest_bytes=1e8, build_bytes_per_s=1e9)
    assert number(able(max_store_bytes=1e9), many) == 30


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"min_partitions": 0}, r"min_partitions.*found 0"),
        ({"max_partitions": -3}, r"max_partitions.*found -3"),
        ({"max_partitions": 40_000}, r"max_partitions.*found 40000"),
        ({"min_partitions": 8, "max_partitions": 4}, r"max_partitions.*at least min_partitions, 8"),
        ({"rescale_payback_s": 0}, "rescale_payback_s"),
        ({"max_store_bytes": 0}, "max_store_bytes"),
        ({"rescale": 1}, "rescale of"),
    ],
)
def test_wrong_parameters_are_named(parameters: dict[str, Any], words: str) -> None:
    for name in ABLE:
        with pytest.raises(InputError, match=f"(?i){words}"):
            registry.policy(name, **parameters)


@pytest.mark.parametrize("given_", RESCALING)
def test_a_policy_that_cannot_says_who_can(given_: str) -> None:
    for name in set(registry.BUILT_IN) - set(ABLE):
        with pytest.raises(InputError, match="elasticutor, laneshift, naive-ec, resource-centric"):
            chosen_policy(name, None, {given_: True})
        with pytest.raises(InputError, match="does not change the number"):
            registry.parse_parameters(name, {given_: "true"})


def test_resource_centric_repartitions_by_rescales_and_leaves_lanes() -> None:
    busy = replace(
        cluster(
            {"a": 8},
            [
                partition(
                    f"orders:0.{n}", {"a": 1}, query=QUERY, operator="orders:0",
                    offered_rate=1900.0, service_rate=1000.0,
                )
                for n in range(2)
            ],
        ),
        stores=(load(2, 8, work_s=30.0, per_store_s=0.02, beside_s=0.1),),
    )  # fmt: skip
    lanes = registry.policy("resource-centric")
    assert lanes.answer(busy, lanes.start())[0].core_changes
    policy = registry.policy("resource-centric", rescale=True)
    plan, _ = policy.answer(busy, policy.start())
    assert plan.core_changes == () and plan.shard_moves == ()
    assert [change.after for change in plan.rescales] == [32]
    other = partition("other:0.0", {"b": 1}, query="other", offered_rate=1900.0)
    both = replace(cluster({"a": 8, "b": 8}, [*busy.partitions, other]), stores=busy.stores)
    plan, _ = policy.answer(both, policy.start())
    assert {change.partition for change in plan.core_changes} == {"other:0.0"}
    assert len(plan.rescales) == 1


def test_a_trace_has_the_stores() -> None:
    there = seen(load(since_s=3.0, pause_s=0.5))
    assert from_json(to_json(there)) == there


PERIOD_S = 10.0


@dataclass
class World:
    """A query whose true costs a policy does not know; a rescale takes what it takes."""

    slots: int
    partitions: int
    work_s: float
    per_store_s: float
    s_per_mb: float
    mb: float
    state_bytes: float
    noise: float = 0.0
    now_s: float = 0.0
    random: random.Random = field(default_factory=lambda: random.Random(7))
    rescales: list[tuple[float, int, float]] = field(default_factory=list)

    def cost(self, partitions: int) -> BatchCost:
        spread = self.s_per_mb * self.mb
        return BatchCost(partitions, self.slots, 0.3, self.work_s, spread, self.per_store_s)

    def run(self, policy: RescalingPolicy[Any], batches: int) -> None:
        rates, over_s = StoreRates(), None
        for _ in range(batches):
            cost = self.cost(self.partitions)
            chance = 1.0 + self.noise * self.random.gauss(0.0, 1.0)
            chance = max(0.3, chance)
            took = cost.batch_s(self.partitions) * chance
            commit = cost.commit_s(self.partitions) * chance
            self.now_s += max(took, PERIOD_S)
            rates.add(
                StoresDone(
                    self.partitions,
                    self.slots,
                    took,
                    self.work_s * chance + commit,
                    0.0,
                    commit,
                    self.mb * 1e6,
                )
            )
            since = None if over_s is None else self.now_s - over_s
            known = rates.load(QUERY, (OperatorId("orders:0"),), PERIOD_S)
            if known is not None:
                sizes = {"state_bytes": self.state_bytes}
                sizes["largest_bytes"] = self.state_bytes / self.partitions
                known = replace(known, since_s=since, **sizes)
            change = None if known is None else policy.rescaled(known)
            if change is not None:
                assert change.before == self.partitions
                self.partitions = change.after
                over_s = self.now_s
                self.rescales.append((self.now_s, change.after, took))


WORLDS = st.builds(
    World,
    slots=st.integers(1, 32),
    partitions=st.sampled_from([1, 2, 3, 7, 16, 64, 200]),
    work_s=st.floats(0.0, 20.0),
    per_store_s=st.floats(0.001, 1.0),
    s_per_mb=st.floats(0.0, 1.0),
    mb=st.floats(0.01, 50.0),
    state_bytes=st.floats(0.0, 1e9),
)


@settings(deadline=None, max_examples=40)
@given(WORLDS)
def test_constant_load_ends_with_one_number(world: World) -> None:
    """Once to what is believed, at most once more to what was learnt by that, and never again."""
    first = world.partitions
    world.run(able(), 300)
    assert len(world.rescales) <= 3, world.rescales
    numbers = [first, *(after for _, after, _ in world.rescales)]
    assert len(set(numbers)) >= len(numbers) - 1, numbers  # back to the first one at most
    times = [at for at, _, _ in world.rescales]
    assert all(b - a >= 600.0 for a, b in itertools.pairwise(times))
    # and it is not worse than before
    assert world.cost(world.partitions).batch_s(world.partitions) <= 1.3 * world.cost(
        first
    ).batch_s(first)


@settings(deadline=None, max_examples=30)
@given(WORLDS, st.integers(0, 2**32))
def test_chance_does_not_make_it_go_back_and_forth(world: World, seed: int) -> None:
    world.noise, world.random = 0.05, random.Random(seed)
    world.run(able(), 300)
    assert len(world.rescales) <= 3, world.rescales


def test_what_did_not_come_true_is_learnt_and_undone() -> None:
    """What commits write takes far longer than it is taken to: fewer partitions were wrong."""
    world = World(8, 8, 0.0, 0.001, 10.0, 0.8, 1e6)
    rates = StoreRates()
    for partitions in (2, 8):
        for _ in range(6):
            cost = world.cost(partitions)
            took, commit = cost.batch_s(partitions), cost.commit_s(partitions)
            rates.add(StoresDone(partitions, 8, took, commit, 0.0, commit, 0.8e6))
    known = rates.load(QUERY, (), None)
    assert known is not None
    assert known.spread_s == pytest.approx(8.0, rel=0.01)
    assert known.per_store_s == pytest.approx(0.001, rel=0.1)


def test_tasks_that_wait_for_each_other_do_not_count_twice() -> None:
    rates = StoreRates()
    rates.add(StoresDone(16, 2, 2.0, 30.0, 0.0, 28.0, 0.0))  # 8 partitions of each task at once
    known = rates.load(QUERY, (), None)
    assert known is not None
    assert known.commit_s == pytest.approx(4.0)
    assert known.cost.batch_s(16) == pytest.approx(2.0)
