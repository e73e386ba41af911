"""Algorithm 1, and exact joins over split keys under any delivery order (section 2)."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from laneshift.errors import InputError
from laneshift.partitioning import Loads, Routing
from laneshift_lab.partitioning import partitioner
from laneshift_lab.partitioning.conditions import (
    join_violations,
    merge_violations,
    order_violations,
    plan_violations,
    table_violations,
)
from laneshift_lab.partitioning.ordered_join import (
    Item,
    NaiveTarget,
    OrderedTarget,
    Pair,
    reference,
)
from laneshift_lab.partitioning.tuple_routing import TupleRouting

ROUTING = Routing.from_table(
    np.arange(12) % 4, 4, {2: {1: 0.5, 2: 0.5}, 5: {0: 0.2, 1: 0.3, 3: 0.5}, 7: {0: 1.0}}
)


def equi(a: int, b: int) -> bool:
    return a == b


def band(a: int, b: int) -> bool:
    return abs(a - b) <= 1


def test_storage_follows_the_shares() -> None:
    routes = TupleRouting(ROUTING)
    draws = np.random.default_rng(1).random(20_000).tolist()
    count = Counter(routes.storage(5, u) for u in draws)
    assert {t: round(c / 20_000, 1) for t, c in count.items()} == {0: 0.2, 1: 0.3, 3: 0.5}
    assert routes.storage(4, 0.3) == 0
    assert routes.storage(7, 0.3) == 0
    assert routes.storage(2, 1.0) == 2


def test_operation_sets() -> None:
    routes = TupleRouting(ROUTING)
    assert routes.operation(5) == {0, 1, 3}
    assert routes.operation(4) == {0}
    loose = routes.operation_theta(6, band, range(12))
    tight = routes.operation_theta(6, band, range(12), tight=True)
    assert tight == {0, 1, 3, 2}
    assert loose == {0, 1, 2, 3}
    assert routes.operation_theta(8, band, [7, 8, 9], tight=True) == {0, 1}
    assert routes.operation_theta(8, band, [7, 8, 9]) == {0, 1, 3}
    assert join_violations(routes, range(12)) == []
    assert join_violations(routes, range(12), band) == []


def deliver(join: str, seed: int, jitter: float) -> tuple[list[Item], list[list[Item]]]:
    """300 tuples, 12 keys, 3 in Y, 4 targets; arrival positions jittered per target."""
    rng = np.random.default_rng(seed)
    routes = TupleRouting(ROUTING)
    items, arrivals = [], [[] for _ in range(4)]  # type: list[Item], list[list[tuple[float, Item]]]
    for seq in range(300):
        key, side = int(rng.integers(12)), int(rng.integers(2))
        u = float(rng.random())
        way = (
            routes.deliver(key, u)
            if join == "equi"
            else routes.deliver_theta(key, u, band, range(12))
        )
        items.append(Item(seq, side, key, True))
        for t in sorted(way.see):
            arrivals[t].append((seq + rng.random() * jitter, Item(seq, side, key, t == way.keep)))
    return items, [[item for _, item in sorted(a, key=lambda x: x[0])] for a in arrivals]


@pytest.mark.parametrize(("join", "test"), [("equi", equi), ("band", band)])
def test_order_decides_between_exact_and_wrong(join: str, test) -> None:  # type: ignore[no-untyped-def]
    wrong = 0
    for seed in range(5):
        items, in_order = deliver(join, seed, 0.0)
        wanted = reference(items, test)
        naive = sum((NaiveTarget(test).run(a) for a in in_order), Counter[Pair]())
        assert naive == wanted
        _, jittered = deliver(join, seed, 10.0)
        assert order_violations((t, [i.seq for i in a]) for t, a in enumerate(jittered))
        naive = sum((NaiveTarget(test).run(a) for a in jittered), Counter[Pair]())
        wrong += (naive - wanted).total() + (wanted - naive).total()
        ordered = Counter[Pair]()
        for arrivals in jittered:
            target = OrderedTarget(test)
            for epoch in range(6):  # barrier every 50 sequence numbers
                ordered += target.run([i for i in arrivals if i.seq // 50 == epoch])
        assert ordered == wanted
    assert wrong > 0, "the planted disorder must show, or this test proves nothing"


def test_join_stays_exact_across_a_plan_change_at_an_epoch() -> None:
    loads = Loads.of([40.0, 5, 60, 5, 5, 30, 5, 20, 5, 5, 5, 5])
    before = Routing.at_home(np.arange(12) % 4, 4)
    after = partitioner("qmmp").plan(loads, before, 0.0)
    assert after.moves
    assert plan_violations(loads, before, after) == []
    rng = np.random.default_rng(7)
    items, got = [], Counter[Pair]()  # type: list[Item], Counter[Pair]
    targets = [OrderedTarget(equi) for _ in range(4)]
    for epoch in range(4):
        routes = TupleRouting(before if epoch < 2 else after.routing)
        if epoch == 2:  # state moves with the plan: every stored tuple to a current holder
            stored = [i for t in targets for i in t.stored]
            for t in targets:
                t.stored.clear()
            for i in stored:
                targets[routes.storage(i.key, float(rng.random()))].stored.append(i)
        batch: list[list[Item]] = [[] for _ in range(4)]
        for seq in range(epoch * 60, epoch * 60 + 60):
            item = Item(seq, int(rng.integers(2)), int(rng.integers(12)), True)
            items.append(item)
            way = routes.deliver(item.key, float(rng.random()))
            for goal in way.see:
                batch[goal].append(Item(seq, item.side, item.key, goal == way.keep))
        for target, arrivals in zip(targets, batch, strict=True):
            order = rng.permutation(len(arrivals)).tolist()
            got += target.run([arrivals[i] for i in order])
    assert got == reference(items, equi)


def test_aggregate_conditions() -> None:
    same = lambda a, b: a == b  # noqa: E731
    assert merge_violations(lambda a, b: a + b, 0, [1, 5, -3], same) == []
    assert merge_violations(max, -100, [1, 5, -3], same) == []
    found = merge_violations(lambda a, b: (a + b) / 2, 0.0, [1.0, 5.0], same)
    assert any("associative" in f for f in found)
    assert any("zero" in f for f in found)
    found = merge_violations(lambda a, b: a + b, "", ["x", "y"], same)
    assert found == ["not commutative for 'x', 'y'", "not commutative for 'y', 'x'"]


def test_violations_are_found() -> None:
    """Planted bugs: a share lost, a plan whose moves do not lead to its routing."""
    bad = Routing(ROUTING.home, ROUTING.key, ROUTING.target, ROUTING.share * 0.9, ROUTING.active)
    assert table_violations(bad)
    loads = Loads.of([9.0, 1.0])
    start = Routing.at_home([0, 1], 2)
    plan = partitioner("qmmp").plan(loads, start, 0.0)
    assert plan_violations(loads, plan.routing, plan)


def test_wrong_inputs() -> None:
    routes = TupleRouting(ROUTING)
    with pytest.raises(InputError, match="key: found 12"):
        routes.storage(12, 0.5)
    with pytest.raises(InputError, match=r"u: found 1\.5"):
        routes.storage(2, 1.5)
