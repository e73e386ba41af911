"""An edge between operators says what all edges between their partitions say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from laneshift.contract.cluster_load import ClusterLoad, Edge
from laneshift.contract.ids import OperatorId, PartitionId
from laneshift.contract.trace import from_json, to_json
from laneshift.errors import InputError
from laneshift.policies import registry
from laneshift.policies.coupling import hidden_growth
from laneshift_lab.samples import cluster, partition

TOPOLOGY = (("read", "join"), ("look", "join"), ("join", "count"))


def load(window: int, *, apart: bool) -> ClusterLoad:
    """Four operators of three partitions: two read, one joins what they give, one counts that."""
    parts = [
        partition(
            f"{operator}.{i}",
            {"n1": 2},
            operator=operator,
            offered_rate=(900.0 + 300 * i) * (1.0 + window % 4),
            queue_rows=(40.0 + 10 * i) * (window % 3),
            queue_capacity_rows=150.0,
            saturated=operator == "count" and window == 5,
        )
        for operator in ("read", "look", "join", "count")
        for i in range(3)
    ]
    made = cluster({"n1": 64}, parts, time_s=float(window), window_s=1.0)
    edges: list[Edge] = []
    for up, down in TOPOLOGY:
        if not apart:
            edges.append(Edge(OperatorId(up), OperatorId(down), 1 / 3))
            continue
        for d in range(3):
            for u in range(3):
                edges.append(Edge(PartitionId(f"{up}.{u}"), PartitionId(f"{down}.{d}"), 1 / 3))
    return replace(made, edges=tuple(edges))


def test_who_feeds_whom() -> None:
    one, many = load(0, apart=False), load(0, apart=True)
    assert one.heads == many.heads
    assert len(one.heads) == 6
    assert one.topological_order() == many.topological_order()
    for i in range(12):
        assert sorted(one.feeds.pairs(i)) == sorted(many.feeds.pairs(i))
    assert hidden_growth(load(5, apart=False), 2.0) == [2.0] * 12
    assert one.external_rate == many.external_rate


def plans(name: str, *, apart: bool) -> list[Any]:
    policy = registry.policy(name)
    state, found = policy.start(), []
    for window in range(8):
        plan, state = policy.answer(load(window, apart=apart), state)
        found.append((plan.core_changes, plan.throttles, plan.shortfalls))
    return found


@pytest.mark.parametrize("name", registry.names())
def test_every_policy_decides_the_same(name: str) -> None:
    one, many = plans(name, apart=False), plans(name, apart=True)
    for (counts, throttles, _), (other, slower, _) in zip(one, many, strict=True):
        assert counts == other
        assert [t.target for t in throttles] == [t.target for t in slower]
        assert [t.rate for t in throttles] == pytest.approx([t.rate for t in slower])


def test_it_is_kept_in_a_trace_and_goes_with_its_query() -> None:
    made = load(1, apart=False)
    assert from_json(to_json(made)).edges == made.edges
    query = made.partitions[0].query
    assert made.without({query}).edges == ()


def test_an_end_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="edges"):
        replace(load(0, apart=False), edges=(Edge(OperatorId("read"), OperatorId("nobody")),))
    circle = Edge(OperatorId("count"), OperatorId("read"))
    around = load(0, apart=False)
    with pytest.raises(InputError, match="a cycle through"):
        replace(around, edges=(*around.edges, circle)).topological_order()
