"""Planners of key distribution as policies: what a plan means for shards, keys and lanes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.ids import KeyId, OperatorId, PartitionId, ShardId
from laneshift.contract.partition_load import HotKey, PartitionLoad
from laneshift.contract.plan import KeySplit, Plan, Reason
from laneshift.contract.trace import from_json, read_trace, to_json
from laneshift.errors import InputError
from laneshift.policies import registry
from laneshift.policies.key_planner import COLD, KeyPlanner
from laneshift_lab.apply import apply_plan
from laneshift_lab.partitioning import PARTITIONERS
from laneshift_lab.replay import replay
from laneshift_lab.samples import cluster, partition, with_shards
from policies.recorded import write

MOVERS = ("mnrt", "qmmp", "readj")
SPLITTERS = ("mnrt", "qmmp")
PAGE = Path(__file__).parents[3] / "docs" / "policies" / "planners.md"


def part_of(
    loads: Sequence[float], lanes: int = 4, hot: dict[int, float] | None = None, **more: Any
) -> PartitionLoad:
    """A partition whose shards are in turn on its lanes, with hot keys by shard."""
    made = with_shards(partition("p0", {"a": lanes}, offered_rate=1000.0 * sum(loads)), loads)
    keys = tuple(
        HotKey(KeyId(f"k{shard}"), load, shard=ShardId(shard))
        for shard, load in (hot or {}).items()
    )
    return replace(made, hot_keys=keys, **more)


def one(part: PartitionLoad, cores: int = 32) -> ClusterLoad:
    return cluster({"a": cores}, [part])


def answer(name: str, seen: ClusterLoad, **parameters: Any) -> Plan:
    policy = registry.policy(name, **parameters)
    first = policy.answer(seen, policy.start())
    assert policy.answer(seen, policy.start()) == first
    return first[0]


def peak(part: PartitionLoad) -> float:
    assert part.shards is not None
    return float(np.bincount(part.shards.lane, part.shards.load_cores).max())


UNEVEN = [3.0, 0.1, 0.1, 0.1, 2.0, 0.2, 0.2, 0.2, 1.0, 0.3, 0.3, 0.5]
ONE_HOT = [0.1, 6.0, 0.1, 0.1, 0.2, 0.2, 0.2, 0.2, 0.3, 0.3, 0.3, 0.5]


@pytest.mark.parametrize("name", MOVERS)
def test_uneven_lanes_become_even_and_stay_so(name: str) -> None:
    seen = one(part_of(UNEVEN))
    plan = answer(name, seen)
    assert plan.shard_moves and not plan.core_changes and not plan.key_splits
    after = apply_plan(seen, plan)
    assert peak(after.partitions[0]) < 0.7 * peak(seen.partitions[0])
    ((where, words),) = plan.reasons
    assert where == "p0" and words == "lane 0 has 3.00 times the mean load"
    again = answer(name, after)
    if again.shard_moves:
        assert peak(apply_plan(after, again).partitions[0]) < peak(after.partitions[0])


@pytest.mark.parametrize("name", sorted(registry.PLANNERS))
def test_even_lanes_are_left_alone_but_by_join_schemes(name: str) -> None:
    plan = answer(name, one(part_of([1.0] * 16, hot={3: 0.9})))
    assert plan.is_empty
    if name not in ("bi", "bi6", "dynamic"):
        assert plan.feasible


@pytest.mark.parametrize("name", sorted(registry.PLANNERS))
def test_no_plan_makes_the_fullest_lane_fuller_or_leaves_its_partition(name: str) -> None:
    rng = np.random.default_rng(7)
    for _ in range(60):
        lanes = int(rng.integers(1, 9))
        loads = rng.pareto(1.1, int(rng.integers(lanes, 40))) * rng.integers(0, 2, 1)[0]
        lane = rng.integers(0, lanes, loads.size)
        made = with_shards(partition("p0", {"a": lanes}), loads.tolist(), lane.tolist())
        hottest = int(loads.argmax())
        hot = HotKey(
            KeyId("k"), float(loads[hottest]) * float(rng.random()), shard=ShardId(hottest)
        )
        made = replace(made, hot_keys=(hot,), inputs=int(rng.integers(1, 3)))
        seen = one(made)
        plan = answer(name, seen, tolerance=float(rng.choice([0.0, 0.05, 0.2])))
        after = apply_plan(seen, plan)  # refuses moves of what is not there
        if plan.shard_moves:
            assert peak(after.partitions[0]) < peak(made)
        assert len({move.shard for move in plan.shard_moves}) == len(plan.shard_moves)
        assert all(split.ways <= lanes for split in plan.key_splits)
        assert not plan.core_changes


@pytest.mark.parametrize("name", SPLITTERS)
def test_a_key_hotter_than_a_lane_is_split_and_its_shard_stays(name: str) -> None:
    plan = answer(name, one(part_of(ONE_HOT, hot={1: 5.5})))
    (split,) = plan.key_splits
    assert (split.partition, split.key) == ("p0", "k1") and 2 <= split.ways <= 4
    assert all(move.shard != 1 for move in plan.shard_moves) and plan.feasible


@pytest.mark.parametrize("name", SPLITTERS)
@pytest.mark.parametrize("hot", [{}, {1: 1.0}, {2: 5.5}])
def test_a_hot_shard_of_many_keys_is_not_split(name: str, hot: dict[int, float]) -> None:
    plan = answer(name, one(part_of(ONE_HOT, hot=hot)))
    assert plan.key_splits == ()
    (short,) = plan.shortfalls
    assert short.reason is Reason.HOT_KEY and "shardsPerPartition" in short.message
    assert "hotKeys.show" in short.message


def test_readj_keeps_keys_whole_and_says_who_does_not() -> None:
    plan = answer("readj", one(part_of(ONE_HOT, hot={1: 5.5})))
    assert plan.key_splits == ()
    (short,) = plan.shortfalls
    assert "readj keeps keys whole: take mnrt or qmmp" in short.message


def test_scatterers_move_nothing_and_split_what_is_hot() -> None:
    seen = one(part_of(ONE_HOT, hot={1: 5.5, 9: 0.25}))
    for name, ways in (("pkg", 2), ("w-choices", 4)):
        plan = answer(name, seen)
        assert plan.shard_moves == ()
        assert KeySplit(PartitionId("p0"), KeyId("k1"), ways) in plan.key_splits
    (short,) = answer("pkg", one(part_of(ONE_HOT))).shortfalls
    assert "pkg moves no shards" in short.message and "mnrt, qmmp or readj" in short.message


@pytest.mark.parametrize(
    ("name", "lanes", "ways"),
    [("dynamic", 6, 4), ("dynamic", 1, 1), ("bi", 6, 6), ("bi6", 12, 12), ("bi6", 13, 13)],
)
def test_join_schemes_have_all_work_apart_over_the_lanes_that_they_use(
    name: str, lanes: int, ways: int
) -> None:
    plan = answer(name, one(part_of([1.0] * 32, lanes, inputs=2)))
    assert plan.shard_moves == () and plan.feasible
    expected = (KeySplit(PartitionId("p0"), KeyId("*"), ways),) if ways > 1 else ()
    assert plan.key_splits == expected


@pytest.mark.parametrize(
    ("name", "lanes", "inputs", "words"),
    [
        ("dynamic", 4, 1, "dynamic is for joins, and rows of one stream come to operator op"),
        ("bi", 1, 2, "bi needs at least 2 lanes, and p0 has 1"),
        ("bi6", 11, 2, "bi6 needs at least 12 lanes, and p0 has 11"),
    ],
)
def test_join_schemes_say_where_they_do_not_fit(
    name: str, lanes: int, inputs: int, words: str
) -> None:
    part = replace(part_of([1.0] * 16, lanes, inputs=inputs), operator=OperatorId("op"))
    plan = answer(name, one(part))
    assert plan.is_empty
    (short,) = plan.shortfalls
    assert short.reason is Reason.UNFIT and words in short.message


def test_work_comes_back_once_no_key_was_hot_for_a_while() -> None:
    policy = registry.policy("mnrt")
    hot, cool = one(part_of(ONE_HOT, hot={1: 5.5})), one(part_of([1.0] * 12))
    state = policy.start()
    said = []
    for seen in [hot, hot, cool, cool, hot, *[cool] * (COLD + 1)]:
        plan, state = policy.answer(seen, state)
        said.append([split.ways > 1 for split in plan.key_splits])
    assert said == [[True], [], [], [], [], *[[]] * (COLD - 1), [False], []]
    gone, _ = policy.answer(cluster({"a": 4}, [partition("other", {"a": 1})]), state)
    assert gone.is_empty


def test_work_that_is_apart_gets_lanes_as_long_as_cores_are_free() -> None:
    below = part_of(ONE_HOT, hot={1: 5.5})
    above = replace(partition("p0-above", {"a": 1}), works_above=PartitionId("p0"))
    (split,) = answer("w-choices", one(below)).key_splits
    assert split.ways == 4
    for cores, after, short in ((16, 4, False), (7, 3, True), (5, 1, True)):
        seen = cluster({"a": cores}, [below, above])
        plan = answer("w-choices", seen)
        assert [(c.partition, c.before, c.after) for c in plan.core_changes] == (
            [("p0-above", 1, after)] if after > 1 else []
        )
        assert [s.reason for s in plan.shortfalls] == [Reason.BUDGET] * short
        apply_plan(seen, plan)
    join = replace(below, inputs=2)
    wide = replace(partition("p0-above", {"a": 4}), works_above=PartitionId("p0"))
    plan = answer("dynamic", cluster({"a": 16}, [replace(join, lanes=join.lanes), wide]))
    assert not plan.core_changes and plan.key_splits[0].ways == 4
    three = part_of(ONE_HOT, 3, inputs=2)
    plan = answer("dynamic", cluster({"a": 16}, [three, wide]))
    assert [(c.before, c.after) for c in plan.core_changes] == [(4, 2)]
    few = cluster({"a": 16}, [below, replace(above, max_cores=2)])
    plan = answer("w-choices", few)
    assert [c.after for c in plan.core_changes] == [2] and plan.feasible


def test_another_policy_may_size_and_shards_wait_for_its_lanes() -> None:
    busy = replace(part_of(UNEVEN), offered_rate=9000.0, service_rate_per_core=1000.0)
    policy = registry.policy("qmmp", sizing="naive-ec")
    assert policy.sizes and not registry.policy("qmmp").sizes
    plan, state = policy.answer(one(busy), policy.start())
    assert [c.after > 4 for c in plan.core_changes] == [True] and not plan.shard_moves
    settled = apply_plan(one(busy), plan)
    plan, _ = policy.answer(replace(settled, time_s=5.0), state)
    assert not plan.core_changes and plan.shard_moves


def test_shards_or_lanes_that_are_not_known_are_left_alone() -> None:
    part = partition("p0", {"a": 4}, offered_rate=9000)
    for name in registry.PLANNERS:
        assert answer(name, one(part)) == Plan()
        idle = part_of([0.0] * 8)
        assert answer(name, one(idle)) == Plan()


def test_traces_keep_what_planners_see(tmp_path: Path) -> None:
    part = part_of(ONE_HOT, hot={1: 5.5}, inputs=2, works_above=PartitionId("q:0.1"))
    seen = one(part)
    assert from_json(to_json(seen)) == seen
    recorded = [one(part_of(ONE_HOT, hot={1: 5.5})), one(part_of(UNEVEN))]
    policy = registry.policy("mnrt")
    plans, state = [], policy.start()
    for each in recorded:
        plan, state = policy.answer(each, state)
        plans.append(plan)
    file = write(tmp_path / "trace", recorded)
    assert [each.plan for each in replay(read_trace(file), policy)] == plans


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [
        ("qmmp", {"tolerance": -0.1}, "tolerance: found -0.1"),
        ("mnrt", {"tie_break": "smallest"}, "tie_break: found 'smallest'.*fits-first"),
        ("mnrt", {"giant_keys": 1}, "True or False"),
        ("readj", {"halvings": 99}, "halvings: found 99"),
        ("w-choices", {"hot_share": 0}, "hot_share"),
        ("bi6", {"groups": 0}, "groups: found 0"),
        ("pkg", {"sizing": "mnrt"}, "sizing: found 'mnrt'.*how many lanes"),
        ("pkg", {"sizing": "elastic"}, "policy: found 'elastic'"),
        ("dynamic", {"rescale": True}, "does not change the number of state partitions"),
        ("bi", {"tolerence": 0.1}, "Did you mean tolerance"),
    ],
)
def test_wrong_parameters_are_named(name: str, parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        registry.policy(name, **parameters)


def test_planners_have_their_partitioners_names_and_a_page() -> None:
    assert set(registry.PLANNERS) == set(PARTITIONERS) - {"balancer"}
    assert not set(registry.PLANNERS) & set(registry.BUILT_IN)
    assert set(registry.PLANNERS) <= set(registry.names())
    text = PAGE.read_text("utf-8")
    for name in registry.PLANNERS:
        found = registry.policy_class(name)
        assert found.name == name and found.summary and found.source and found.__doc__
        assert registry.name_of(found) == name
        made = registry.policy(name)
        assert isinstance(made, KeyPlanner) and made.partitioner.name == name
        own = [key for key in registry.defaults(name) if key not in ("tolerance", "sizing")]
        (row,) = re.findall(rf"^\| \[`{name}`\]\(\.\./partitioners/{name}\.md\) \|.*$", text, re.M)
        assert re.findall(r"`(\w+)`", row.rsplit("|", 2)[1]) == own
    assert registry.parse_parameters("mnrt", {"sizing": "laneshift", "tolerance": "0.1"}) == {
        "sizing": "laneshift",
        "tolerance": 0.1,
    }
    assert registry.parse_parameters("mnrt", {"sizing": "none"}) == {"sizing": None}
