"""The worked vectors of Data Distribution, 2017, exact to 1e-9."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from laneshift.partitioning import Loads, MovePlan, Routing
from laneshift_lab.partitioning import partitioner
from laneshift_lab.partitioning.conditions import plan_violations
from laneshift_lab.partitioning.costs import costs


@dataclass(frozen=True)
class Case:
    """Amounts per target, homes, MC per unit of load, tolerance."""

    held: list[dict[str, float]]
    homes: dict[str, int]
    tolerance: float
    state_per_load: dict[str, float]

    def build(self) -> tuple[Loads, Routing, list[str]]:
        names = list(dict.fromkeys(k for target in self.held for k in target))
        total = {n: sum(t.get(n, 0.0) for t in self.held) for n in names}
        load = [total[n] for n in names]
        state = [total[n] * self.state_per_load.get(n, 1.0) for n in names]
        table = {
            i: {t: held[n] / total[n] for t, held in enumerate(self.held) if n in held}
            for i, n in enumerate(names)
        }
        homes = [self.homes[n] for n in names]
        return Loads.of(load, state), Routing.from_table(homes, len(self.held), table), names


V1 = Case(
    [
        {"k1": 100, "k2": 300, "k3": 150, "k7": 200},
        {"k5": 500, "k8": 700, "k9": 500},
        {"k4": 300, "k6": 250},
    ],
    {"k1": 0, "k2": 0, "k3": 0, "k7": 0, "k5": 1, "k8": 1, "k9": 1, "k4": 2, "k6": 2},
    0.05,
    {"k5": 2.0, "k9": 0.5},
)
V2 = Case(
    [{"b": 88, "a": 20, "x": 12}, {"a": 10, "c": 50}, {"e": 60}],
    {"a": 1, "b": 0, "x": 2, "c": 1, "e": 2},
    0.1,
    {},
)
V3 = Case(
    [{"h": 70, "g": 50}, {"m": 60}, {"n": 60}], {"h": 0, "g": 0, "m": 1, "n": 2}, 0.1, {"g": 0.5}
)
V4 = Case(
    [{"c1": 46, "c2": 14, "c3": 20}, {"c4": 14, "c5": 66}, {"c6": 50, "c7": 30}, {}],
    {"c1": 0, "c2": 3, "c3": 0, "c4": 3, "c5": 1, "c6": 2, "c7": 2},
    0.1,
    {},
)
F = Fraction

#: (case, partitioner, moves, loads, Y, moved, MC, split, records, O4); None: not said.
VECTORS = [
    (V1, "qmmp", {("k5", 250, 1, 0), ("k5", 250, 1, 2), ("k8", 150, 1, 2)}, [1000, 1050, 950],
     {"k5": {0: F(1, 2), 2: F(1, 2)}, "k8": {1: F(11, 14), 2: F(3, 14)}}, 650, 1150, 2, 3, 1200),
    (V1, "mnrt", {("k9", 500, 1, 2), ("k8", 150, 1, 0)}, [900, 1050, 1050],
     {"k9": {2: F(1)}, "k8": {1: F(11, 14), 0: F(3, 14)}}, 650, 400, 1, 2, 700),
    (V2, "qmmp", {("b", 20, 0, 1), ("b", 12, 0, 2)}, [88, 80, 72],
     {"b": {0: F(7, 11), 1: F(5, 22), 2: F(3, 22)}, "a": {0: F(2, 3), 1: F(1, 3)}, "x": {0: F(1)}},
     32, None, 2, 4, 206),
    (V2, "mnrt", {("a", 20, 0, 1), ("x", 12, 0, 2)}, [88, 80, 72], {}, 32, None, 0, 0, 0),
    (V3, "qmmp", {("h", 20, 0, 1), ("h", 12, 0, 2)}, [88, 80, 72],
     {"h": {0: F(19, 35), 1: F(2, 7), 2: F(6, 35)}}, 32, 32, None, None, 140),
    (V3, "mnrt", {("g", 28, 0, 1), ("g", 4, 0, 2)}, [88, 88, 64],
     {"g": {0: F(9, 25), 1: F(14, 25), 2: F(2, 25)}}, 32, 16, None, None, 100),
    (V4, "qmmp", {("c1", 14, 0, 3), ("c4", 14, 1, 3), ("c6", 14, 2, 3)}, [66, 66, 66, 42],
     {"c1": {0: F(16, 23), 3: F(7, 23)}, "c2": {0: F(1)}, "c6": {2: F(18, 25), 3: F(7, 25)}},
     42, None, 2, None, 96),
    (V4, "mnrt", {("c2", 14, 0, 3), ("c4", 14, 1, 3), ("c7", 14, 2, 3)}, [66, 66, 66, 42],
     {"c7": {2: F(8, 15), 3: F(7, 15)}}, 42, None, 1, None, 30),
]  # fmt: skip


def named(plan: MovePlan, names: list[str]) -> set[tuple[str, float, int, int]]:
    return {(names[m.key], round(m.amount, 9), m.source, m.target) for m in plan.moves}


@pytest.mark.parametrize(
    "vector", VECTORS, ids=[f"{i // 2 + 1}-{v[1]}" for i, v in enumerate(VECTORS)]
)
def test_vector(vector: tuple) -> None:  # type: ignore[type-arg]
    case, name, moves, target_loads, table, moved, mc, split, records, o4 = vector
    loads, routing, names = case.build()
    plan = partitioner(name).plan(loads, routing, case.tolerance)
    assert named(plan, names) == moves
    np.testing.assert_allclose(plan.routing.target_load(loads), target_loads, atol=1e-9)
    got = {names[k]: places for k, places in plan.routing.table().items()}
    assert got.keys() == table.keys()
    for key, places in table.items():
        assert got[key] == pytest.approx({t: float(q) for t, q in places.items()}, abs=1e-9)
    cost = costs(loads, plan)
    assert cost.moved == pytest.approx(moved)
    assert cost.broadcast == pytest.approx(o4, abs=1e-9)
    for found, wanted in ((cost.migration, mc), (cost.split, split), (cost.records, records)):
        assert wanted is None or found == pytest.approx(wanted)
    assert plan.feasible
    assert plan_violations(loads, routing, plan) == []


def test_printed_termination_test_would_be_invalid() -> None:
    """Vector 3 with the printed L(k) >= UL ends at 88/92/60; ours must stay below UL = 88."""
    loads, routing, _ = V3.build()
    plan = partitioner("mnrt").plan(loads, routing, 0.1)
    assert plan.routing.target_load(loads).max() <= 88 + 1e-9
