"""Numbers of tasks that policies decide: when they pay, never back and forth, in words."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laneshift.autoscale.options import chosen_policy
from laneshift.autoscale.task_rates import LATELY_S, TaskPeaks, TaskRates, TasksDone
from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.ids import OperatorId, QueryId
from laneshift.contract.plan import TasksChange
from laneshift.contract.store_load import StoreLoad
from laneshift.contract.tasks_load import TasksLoad
from laneshift.contract.trace import from_json, to_json
from laneshift.errors import InputError
from laneshift.models.tasks import bounds, numbers
from laneshift.policies import registry
from laneshift.policies.tasking import LOOKS, SETTLED, TASKING, TaskingPolicy
from laneshift_lab.samples import cluster, partition

ABLE = ["elasticutor", "laneshift", "naive-ec", "resource-centric"]
QUERY = QueryId("orders")
OPERATORS = (OperatorId("orders:0"),)


def able(name: str = "laneshift", **parameters: Any) -> TaskingPolicy[Any]:
    found = registry.policy(name, **({"set_tasks": True} | parameters))
    assert isinstance(found, TaskingPolicy)
    return found


def load(partitions: int = 400, slots: int = 4, **values: Any) -> TasksLoad:
    """Partitions of a millisecond, each in a task of its own that costs ten, but for ``values``."""
    usual: dict[str, Any] = {
        "batch_id": 7,
        "tasks": partitions,
        "batches": SETTLED,
        "each": (0.001,) * partitions,
        "took_s": 1.6,
        "rows": 100.0,
        "by_rows": 0.1,
    }
    return TasksLoad(QUERY, OPERATORS, slots=slots, **(usual | values))


def real_time(each: float, partitions: int = 64, **values: Any) -> TasksLoad:
    usual: dict[str, Any] = {"each": (each,) * partitions, "took_s": 0.0, "batches": LOOKS}
    return load(partitions, 64, **(usual | {"rows": 0.0, "by_rows": 0.0} | values))


def seen(each: TasksLoad) -> ClusterLoad:
    parts = [
        partition(f"orders:0.{n}", {"a": 1}, query=QUERY, operator="orders:0", offered_rate=1.0)
        for n in range(min(each.partitions, 4))
    ]
    return replace(cluster({"a": 4}, parts), tasks=(each,))


def asked(policy: TaskingPolicy[Any], each: TasksLoad) -> TasksChange | None:
    plan, _ = policy.answer(seen(each), policy.start())
    assert plan.is_empty == (not plan.tasks) or plan.core_changes
    return plan.tasks[0] if plan.tasks else None


def number(policy: TaskingPolicy[Any], each: TasksLoad) -> int | None:
    change = asked(policy, each)
    return None if change is None else change.after


@pytest.mark.parametrize("name", ABLE)
def test_fewer_where_a_task_costs_more_than_what_is_in_it(name: str) -> None:
    change = asked(able(name), load())
    assert change is not None
    assert (change.query, change.before, change.after, change.partitions) == (QUERY, 400, 4, 400)
    assert str(change) == (
        "orders 400 -> 4 tasks: a batch takes 1.6 s with 400 state partitions in 400 tasks, 4 at a"
        " time; with 4, 0.61 s are expected"
    )
    off = registry.policy(name)
    plan, _ = off.answer(seen(load()), off.start())
    assert plan.tasks == ()


def test_more_where_a_range_has_more_than_its_core() -> None:
    hot = load(16, 4, tasks=4, each=(1.0,) * 4 + (0.05,) * 12, took_s=4.3)
    assert number(able(), hot) in (8, 16)
    assert number(able(), load(16, 8, tasks=2, each=(1.0,) * 16, took_s=8.5)) == 8


@pytest.mark.parametrize("name", ABLE)
def test_real_time_tasks_follow_the_load(name: str) -> None:
    assert number(able(name), real_time(0.03)) == 4
    assert number(able(name), real_time(0.5, tasks=4)) == 64
    change = asked(able(name), real_time(0.03))
    assert change is not None
    assert change.reason == "of 64 tasks the busiest needs 0.03 of its core; with 4, 0.48"
    assert number(able(name, target_utilisation=0.4), real_time(0.03)) == 8


def test_what_is_to_come_may_change_until_it_comes() -> None:
    assert number(able(), real_time(0.03, coming=4)) is None
    assert number(able(), real_time(0.027, coming=4)) is None  # little less: it is left
    back = asked(able(), real_time(0.5, coming=4))
    assert back is not None and (back.before, back.after) == (4, 64)
    assert number(able(), load(coming=4)) is None  # the next micro-batch is soon there


@pytest.mark.parametrize(
    ("why", "values"),
    [
        ("too few batches", {"batches": SETTLED - 1}),
        ("stores that take their time", {"each": (0.1,) * 400, "took_s": 11.0}),
        ("hardly shorter", {"took_s": 30.0}),
    ],
)
def test_what_does_not_pay_is_left(why: str, values: dict[str, Any]) -> None:
    assert number(able(), load(**values)) is None, why
    assert number(able(), real_time(0.03, batches=LOOKS - 1)) is None


def test_batches_while_stores_are_built_say_nothing() -> None:
    cost: dict[str, Any] = {"beside_s": 0.5, "work_s": 0.2, "spread_s": 0.1, "per_store_s": 0.1}
    building = StoreLoad(QUERY, OPERATORS, 400, 4, 9, 1.6, 1.6, 1.0, under_way=True, **cost)
    policy = able()
    plan, _ = policy.answer(replace(seen(load()), stores=(building,)), policy.start())
    assert plan.tasks == ()


def test_resource_centric_sets_tasks_beside_its_rescales() -> None:
    cost: dict[str, Any] = {"beside_s": 0.5, "work_s": 0.2, "spread_s": 0.1, "per_store_s": 0.001}
    stores = StoreLoad(QUERY, OPERATORS, 400, 4, 9, 1.6, 1.6, 0.4, **cost)
    policy = able("resource-centric", rescale=True)
    plan, _ = policy.answer(replace(seen(load()), stores=(stores,)), policy.start())
    assert [change.after for change in plan.tasks] == [4]


@pytest.mark.parametrize("given_", TASKING)
def test_a_policy_that_cannot_says_who_can(given_: str) -> None:
    for name in set(registry.BUILT_IN) - set(ABLE):
        with pytest.raises(InputError, match=r"elasticutor, laneshift, .*query\.set_tasks"):
            chosen_policy(name, None, {given_: True})
        with pytest.raises(InputError, match="does not change the number of tasks"):
            registry.parse_parameters(name, {given_: "true"})
    with pytest.raises(InputError, match="set_tasks of laneshift"):
        registry.policy("laneshift", set_tasks="true")


def test_a_trace_has_the_tasks() -> None:
    there = seen(replace(load(), known=load().cost.known, coming=4))
    assert from_json(to_json(there)) == there
    rates = TaskRates()
    for tasks in (8, 8, 4, 4, 4):
        rates.add(TasksDone(1, tasks, 4, 2.0, 6.0, 1.0, (10.0,) * 8))
    measured = rates.load(QUERY, OPERATORS)
    assert measured is not None and [taken.tasks for taken in measured.known] == [8]
    there = seen(measured)
    assert from_json(to_json(there)) == there


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ("tasks of query orders: found 401", {"tasks": 401}),
        ("coming of query orders: found 0", {"coming": 0}),
        ("each of query orders", {"each": ()}),
        ("each of query orders: found -1", {"each": (-1.0,), "tasks": 1}),
        ("slots of query orders", {"slots": 0}),
    ],
)
def test_wrong_loads_are_named(words: str, values: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"(?i){words}"):
        load(**values)


# ---- what was measured


def done(tasks: int, took_s: float, batch_id: int = 1, **more: Any) -> TasksDone:
    usual: dict[str, Any] = {"tasks_s": 6.0, "commit_s": 2.0, "rows": (30.0, 10.0, 0.0, 0.0)}
    return TasksDone(batch_id, tasks, 2, took_s, **(usual | more))


def test_work_goes_by_rows_and_commits_by_stores() -> None:
    rates = TaskRates()
    rates.add(done(4, 4.0))
    found = rates.load(QUERY, OPERATORS)
    assert found is not None
    assert found.each == pytest.approx((3.5, 1.5, 0.5, 0.5))
    assert (found.took_s, found.rows, found.by_rows) == (4.0, 40.0, 0.5)
    assert found.cost.batch_s(4) == 4.0


def test_partitions_of_a_task_that_wait_for_each_other_do_not_count_twice() -> None:
    rates = TaskRates()
    rates.add(done(2, 2.0, tasks_s=30.0, commit_s=28.0))
    found = rates.load(QUERY, OPERATORS)
    assert found is not None and sum(found.each) == pytest.approx(4.0)


def test_the_first_batches_with_another_number_do_not_count() -> None:
    rates = TaskRates()
    for _ in range(5):
        rates.add(done(4, 4.0))
    rates.add(done(2, 9.0))
    assert rates.load(QUERY, OPERATORS) is None
    rates.add(done(2, 9.0))
    assert rates.load(QUERY, OPERATORS) is None
    rates.add(done(2, 3.0))
    found = rates.load(QUERY, OPERATORS)
    assert found is not None
    assert (found.tasks, found.batches, found.took_s) == (2, 1, 3.0)
    assert [(taken.tasks, taken.took_s) for taken in found.known] == [(4, 4.0)]
    # With other slots, or other partitions, all is new.
    for _ in range(3):
        rates.add(done(2, 3.0, rows=(1.0,) * 8))
    found = rates.load(QUERY, OPERATORS)
    assert found is not None and found.known == ()


def test_in_real_time_mode_the_most_of_the_last_minute_counts() -> None:
    peaks = TaskPeaks()
    assert peaks.add(0.0, [0.5, 0.1]) == (1, (0.5, 0.1))
    assert peaks.add(1.0, [0.2, 0.3]) == (2, (0.5, 0.3))
    assert peaks.add(LATELY_S + 0.5, [0.1, 0.1]) == (2, (0.2, 0.3))
    assert peaks.add(LATELY_S + 1.0, [0.1, 0.1, 0.1]) == (1, (0.1, 0.1, 0.1))


# ---- worlds


@dataclass
class World:
    """Micro-batches whose true costs a policy does not know.

    ``task_s``: what a task costs; ``overlap``: how much of commits goes on beside other partitions
    of its task; ``crowd``: by what factor work takes longer in a task of several partitions.
    """

    slots: int
    partitions: int
    tasks: int
    task_s: float
    work_s: float
    commit_s: float
    skew: float
    overlap: float
    crowd: float
    back_to_back: bool
    noise: float = 0.0
    rows: float = 1.0
    random: random.Random = field(default_factory=lambda: random.Random(7))
    changes: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tasks = min(self.tasks, self.partitions)

    def shares(self) -> list[float]:
        weights = [1.0 / (1 + n) ** self.skew for n in range(self.partitions)]
        return [weight / sum(weights) for weight in weights]

    def batch_s(self, tasks: int, rows: float = 1.0) -> tuple[float, float, float]:
        """How long it takes, and task-seconds of partitions and of commits, as told."""
        shares, edges = self.shares(), bounds(self.partitions, tasks)
        free, inside = [0.0] * min(tasks, self.slots), 0.0
        for a, b in itertools.pairwise(edges):
            crowded = b - a > 1
            work = self.work_s * rows * sum(shares[a:b]) * (self.crowd if crowded else 1.0)
            commit = (b - a) * self.commit_s / (self.overlap if crowded else 1.0)
            inside += work + commit
            free.sort()
            free[0] += work + commit + self.task_s
        return 0.3 + max(free), inside, self.commit_s * self.partitions

    def true_s(self, tasks: int) -> float:
        """How long a batch of the rows of now takes."""
        return self.batch_s(tasks, self.rows)[0]

    def run(self, policy: TaskingPolicy[Any], batches: int) -> None:
        rates = TaskRates()
        for batch in range(batches):
            chance = max(0.3, 1.0 + self.noise * self.random.gauss(0.0, 1.0))
            took, inside, commit = (chance * s for s in self.batch_s(self.tasks, self.rows))
            counts = tuple(1000.0 * self.rows * share for share in self.shares())
            rates.add(TasksDone(batch, self.tasks, self.slots, took, inside, commit, counts))
            self.rows = min(100.0, took / 10.0) if self.back_to_back else 1.0
            known = rates.load(QUERY, OPERATORS)
            change = None if known is None else policy.tasked(known)
            if change is not None:
                assert change.before == self.tasks
                self.tasks = change.after
                self.changes.append(change.after)


WORLDS = st.builds(
    World,
    slots=st.integers(1, 16),
    partitions=st.sampled_from([1, 2, 3, 8, 16, 64]),
    tasks=st.sampled_from([1, 2, 8, 30, 200]),
    task_s=st.floats(0.0, 0.2),
    work_s=st.floats(0.0, 20.0),
    commit_s=st.floats(0.001, 0.3),
    skew=st.sampled_from([0.0, 0.5, 1.5]),
    overlap=st.floats(1.0, 4.0),
    crowd=st.floats(0.8, 2.5),
    back_to_back=st.booleans(),
)


def most_changes(world: World) -> int:
    """Each number that may be tried is tried once, and left for the best one seen so far."""
    return 2 * len(numbers(world.partitions, world.slots))


@settings(deadline=None, max_examples=25)
@given(WORLDS)
def test_constant_load_ends_with_one_number(world: World) -> None:
    first = world.tasks
    world.run(able(), 60)
    count, ended = len(world.changes), world.tasks
    assert count <= most_changes(world), world.changes
    seen_ = [first, *world.changes]
    assert max(map(seen_.count, seen_)) <= len(numbers(world.partitions, world.slots)), seen_
    # What it ends with is not worse than what there was, nor much than any that it has seen.
    assert world.true_s(ended) <= 1.25 * min(map(world.true_s, seen_)), seen_


@settings(deadline=None, max_examples=20)
@given(WORLDS, st.integers(0, 2**32))
def test_chance_does_not_make_it_go_back_and_forth(world: World, seed: int) -> None:
    world.noise, world.random = 0.05, random.Random(seed)
    world.run(able(), 60)
    assert len(world.changes) <= most_changes(world), world.changes
    before = len(world.changes)
    rest = replace(world, changes=[])
    rest.run(able(), 40)  # as an autoscaler that starts anew, with nothing known
    assert before <= most_changes(world) and len(rest.changes) <= most_changes(world)


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.floats(0.0, 1.0), min_size=1, max_size=64),
    st.integers(1, 64),
    st.integers(0, 2**32),
)
def test_a_steady_real_time_load_has_one_number(cores: list[float], tasks: int, seed: int) -> None:
    """Rates differ by chance; the number comes with the next batch of a minute."""
    chance, policy, peaks = random.Random(seed), able(), TaskPeaks()
    tasks, changes, coming = min(tasks, len(cores)), 0, None
    for look in range(600):
        if look % 60 == 0 and coming is not None:
            tasks, changes, coming = coming, changes + (coming != tasks), None
        now = [max(0.0, core * (1.0 + 0.05 * chance.gauss(0.0, 1.0))) for core in cores]
        looks, most = peaks.add(float(look), now)
        each = TasksLoad(
            QUERY, OPERATORS, look // 60, tasks, 64, looks, most,
            coming=None if coming == tasks else coming,
        )  # fmt: skip
        change = policy.tasked(each)
        coming = coming if change is None else change.after
    assert changes <= 2
    most_busy = max(
        sum(cores[a:b])
        for a, b in zip(bounds(len(cores), tasks), bounds(len(cores), tasks)[1:], strict=False)
    )
    assert most_busy <= 0.75 or tasks == len(cores)


def test_a_day_has_a_change_for_each_step_of_the_load() -> None:
    """24 hours of an hour's steps, up and down: no more changes than there are steps."""
    policy, peaks, tasks, changes = able(), TaskPeaks(), 64, []
    for minute in range(24 * 60):
        hour = minute / 60
        level = 0.02 + 0.5 * math.sin(math.pi * hour / 24) ** 2
        looks = 0
        most: tuple[float, ...] = ()
        for second in range(0, 60, 5):
            looks, most = peaks.add(60.0 * minute + second, [level] * 64)
        each = TasksLoad(QUERY, OPERATORS, minute, tasks, 64, looks, most)
        change = policy.tasked(each)
        if change is not None:
            tasks = change.after
            changes.append(tasks)
    noon = changes.index(max(changes))
    up, down = changes[: noon + 1], changes[noon:]
    assert changes[0] < 64 and max(changes) >= 48
    # Each step once on the way up, and once on the way down.
    assert up == sorted(set(up)) and down == sorted(set(down), reverse=True), changes
