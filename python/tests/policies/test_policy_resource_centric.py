"""resource-centric: counts per operator, moves across partitions, every shard owned once."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.plan import MoveScope, Plan
from laneshift.errors import InputError
from laneshift.policies.resource_centric import ResourceCentric
from laneshift_lab.apply import apply_plan
from laneshift_lab.samples import cluster, partition, with_shards


def pool(executors: int, loads: list[float], cores: int = 8, time_s: float = 0.0) -> ClusterLoad:
    """One operator as one partition; its lanes are the executors."""
    part = partition("op", {"n": executors}, offered_rate=1000 * sum(loads), service_rate=1000)
    return cluster({"n": cores}, [with_shards(part, loads)], time_s=time_s)


def decide(snap: ClusterLoad, policy: ResourceCentric | None = None) -> Plan:
    policy = policy or ResourceCentric()
    return policy.decide(snap, policy.start())[0]


def lane_loads(snap: ClusterLoad) -> list[float]:
    return [
        float(part.shards.load_cores[part.shards.lane == lane.lane].sum())
        for part in snap.partitions
        for lane in part.lanes
        if part.shards is not None
    ]


def test_scaling_out_creates_executors_and_moves_shards_with_global_synchronisation() -> None:
    snap = pool(2, [0.25] * 12)
    plan = decide(snap, ResourceCentric(target_s=0.002))
    assert plan.core_changes[0].before == 2 and plan.core_changes[0].after == 4
    assert plan.shard_moves and {m.scope for m in plan.shard_moves} == {MoveScope.OPERATOR}
    assert max(lane_loads(apply_plan(snap, plan))) == pytest.approx(0.75)


def test_scaling_in_empties_the_executors_that_go() -> None:
    snap = pool(6, [0.1] * 12)
    assert decide(snap).is_empty  # nobody claims them
    after = apply_plan(snap, decide(snap, ResourceCentric(release_after_s=0)))
    assert after.partitions[0].cores == 2
    assert lane_loads(after) == pytest.approx([0.6, 0.6])


def test_skew_alone_repartitions_and_balance_does_not() -> None:
    part = partition("op", {"n": 2}, offered_rate=900, service_rate=1000)
    skewed = cluster({"n": 2}, [with_shards(part, [0.3, 0.3, 0.3], lane=[0, 0, 0])])
    assert len(decide(skewed, ResourceCentric(target_s=0.0013)).shard_moves) == 1
    even = cluster({"n": 2}, [with_shards(part, [0.45, 0.45], lane=[0, 1])])
    assert decide(even, ResourceCentric(target_s=0.0013)).is_empty


def test_executors_of_several_partitions_exchange_shards() -> None:
    a = partition("a", {"n0": 1}, offered_rate=900, service_rate=1000)
    b = partition("b", {"n1": 1}, offered_rate=0, service_rate=1000)
    snap = cluster(
        {"n0": 1, "n1": 1},
        [with_shards(a, [0.3, 0.3, 0.3]), with_shards(b, [0.0], first_shard=3)],
    )
    plan = decide(snap, ResourceCentric(target_s=0.0013))
    assert {(m.source.partition, m.target.partition) for m in plan.shard_moves} == {("a", "b")}
    assert max(lane_loads(apply_plan(snap, plan))) == pytest.approx(0.6)


def test_a_partition_can_be_deleted_and_created_again() -> None:
    a = with_shards(partition("a", {"n0": 1}, offered_rate=50, service_rate=1000), [0.05])
    b = with_shards(
        partition("b", {"n1": 1}, offered_rate=50, service_rate=1000), [0.05], first_shard=1
    )
    both = cluster({"n0": 1, "n1": 1}, [a, b])
    one = apply_plan(both, decide(both, ResourceCentric(release_after_s=0)))
    assert sorted(p.cores for p in one.partitions) == [0, 1]
    policy = ResourceCentric(target_s=0.00101)
    back = apply_plan(one, policy.decide(one, policy.start())[0])
    assert [p.cores for p in back.partitions] == [1, 1]


def test_without_lanes_only_counts() -> None:
    part = partition("op", {"n": 1}, offered_rate=3500, service_rate=1000)
    plan = decide(cluster({"n": 8}, [part]))
    assert plan.core_changes[0].after >= 4 and not plan.shard_moves


def test_rates_hidden_by_back_pressure_are_at_least_what_was_measured() -> None:
    part = partition("op", {"n": 6}, offered_rate=3000, service_rate=1000)
    calm = cluster({"n": 16}, [part])
    full = cluster({"n": 16}, [replace(part, saturated=True)])
    policy = ResourceCentric(release_after_s=0)
    assert decide(calm, policy).core_changes[0].after == 4
    assert decide(full, policy).core_changes[0].after == 7


def test_no_count_changes_on_a_window_with_an_own_stop() -> None:
    policy = ResourceCentric(release_after_s=0)
    plan, state = policy.decide(pool(2, [0.25] * 12, time_s=10), policy.start())
    assert plan.shard_moves
    stopped = pool(4, [0.1] * 12, time_s=15)
    during, state = policy.decide(stopped, state)
    assert not during.core_changes
    burst = replace(stopped.partitions[0], offered_rate=7000.0)
    assert not policy.decide(replace(stopped, partitions=(burst,)), state)[0].core_changes
    later, _ = policy.decide(replace(stopped, time_s=20.1), state)
    assert later.core_changes[0].after < 4


def test_surplus_goes_to_those_who_need_it() -> None:
    parts = [
        partition("a", {"n": 6}, operator="a", offered_rate=500, service_rate=1000),
        partition("b", {"n": 2}, operator="b", offered_rate=3500, service_rate=1000),
    ]
    plan = decide(cluster({"n": 8}, parts))
    assert [(c.partition, c.after) for c in plan.core_changes] == [("a", 4), ("b", 4)]


def test_cool_down() -> None:
    policy = ResourceCentric(cooldown_s=300, release_after_s=0)
    _, state = policy.decide(pool(2, [0.25] * 12), policy.start())
    early, state = policy.decide(pool(4, [0.1] * 12, time_s=299), state)
    late, _ = policy.decide(pool(4, [0.1] * 12, time_s=300), state)
    assert early.is_empty and not late.is_empty


@given(st.integers(0, 10**6), st.sampled_from([0.0012, 0.005, 0.1]))
@settings(max_examples=40, deadline=None)
def test_invariants(seed: int, target: float) -> None:
    rng = np.random.default_rng(seed)
    parts, first = [], 0
    for j in range(4):
        loads = rng.exponential(0.3, 6).tolist()
        held = {f"n{j % 3}": int(rng.integers(1, 3))}
        part = partition(
            f"p{j}", held, operator=f"o{j % 2}", offered_rate=1000 * sum(loads), service_rate=1000
        )
        parts.append(with_shards(part, loads, first_shard=first))
        first += 6
    snap = cluster({"n0": 5, "n1": 5, "n2": 5}, parts)
    policy = ResourceCentric(
        target_s=target, release_surplus=bool(rng.integers(2)), release_after_s=0
    )
    plan, state = policy.decide(snap, policy.start())
    assert (plan, state) == policy.decide(snap, policy.start())
    after = apply_plan(snap, plan)
    shards = sorted(s for p in after.partitions if p.shards is not None for s in p.shards.shard)
    assert shards == list(range(24))
    for part in after.partitions:
        if part.shards is not None and len(part.shards):
            assert {int(x) for x in part.shards.lane} <= {lane.lane for lane in part.lanes}
    again, _ = policy.decide(after, state)
    assert not again.core_changes


def test_wrong_parameters_name_the_field() -> None:
    with pytest.raises(InputError, match="imbalance"):
        ResourceCentric(imbalance=1.0)
    with pytest.raises(InputError, match="cooldown_s"):
        ResourceCentric(cooldown_s=-1.0)


@pytest.mark.parametrize("cooldown_s", [0.0, 12.0])
@pytest.mark.parametrize("seed", range(8))
def test_long_random_runs_leave_no_shard_without_a_lane(seed: int, cooldown_s: float) -> None:
    rng = np.random.default_rng(seed)
    count, each = int(rng.integers(2, 5)), 6
    snap = cluster(
        {"n": int(rng.integers(count, 12)), "m": int(rng.integers(1, 6))},
        [
            with_shards(
                partition(f"p{i}", {"n": 1}, offered_rate=500), [0.1] * each, first_shard=i * each
            )
            for i in range(count)
        ],
    )
    policy = ResourceCentric(release_after_s=0, cooldown_s=cooldown_s)
    state = policy.start()
    for turn in range(60):
        loads = rng.uniform(0, 3, count) * rng.integers(0, 2, count)
        parts = []
        for part, load in zip(snap.partitions, loads.tolist(), strict=True):
            table = part.shards
            assert table is not None
            if len(table):
                table = replace(table, load_cores=rng.dirichlet(np.ones(len(table))) * load)
            parts.append(replace(part, offered_rate=1000 * load, shards=table))
        snap = replace(snap, time_s=5.0 * turn, partitions=tuple(parts))
        plan, state = policy.decide(snap, state)
        snap = apply_plan(snap, plan)
        for part in snap.partitions:
            assert part.shards is not None
            assert not len(part.shards) or part.lanes


def test_a_partition_whose_lanes_have_gone_gets_one_again() -> None:
    a = with_shards(partition("a", {"n": 2}, offered_rate=1500), [0.5, 0.5, 0.5])
    b = with_shards(partition("b", {"n": 1}, offered_rate=100), [0.05, 0.05], first_shard=3)
    lost = replace(b, placement=(), lanes=())  # its node has failed
    plan = decide(cluster({"n": 8}, [a, lost]))
    assert ("b", 0, 1) in [(c.partition, c.before, c.after) for c in plan.core_changes]
    assert all(move.source.partition == "a" for move in plan.shard_moves)
