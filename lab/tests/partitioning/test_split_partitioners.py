"""Properties of QMMP and MNRT on random states (Data Distribution, 2017)."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from laneshift.partitioning import Loads, Partitioner, Routing
from laneshift.partitioning.mnrt import Mnrt
from laneshift_lab.partitioning import partitioner
from laneshift_lab.partitioning.conditions import plan_violations
from laneshift_lab.partitioning.costs import costs, routing_costs
from laneshift_lab.partitioning.membership import add_targets, jump_hash, remove_target

VARIANTS: list[Partitioner] = [
    partitioner("qmmp"),
    partitioner("mnrt"),
    partitioner("mnrt", merge_out_rank=9.0),
    partitioner("mnrt", underloaded="below-limit"),
    partitioner("mnrt", tie_break="largest-first"),
    partitioner("mnrt", giant_keys=True),
]


def random_state(seed: int, *, removal: bool = False) -> tuple[Loads, Routing]:
    """2-8 targets, 1-30 keys, some split, some displaced, some without load."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(1, 9)), int(rng.integers(1, 31))
    load = rng.integers(0, 200, k).astype(float) if rng.random() < 0.5 else rng.pareto(1.0, k)
    home = rng.integers(0, n, k)
    table = {}
    for key in np.flatnonzero(rng.random(k) < 0.3).tolist():
        holders = rng.choice(n, int(rng.integers(1, n + 1)), replace=False).tolist()
        q = rng.dirichlet(np.ones(len(holders))) * 0.9 + 0.1 / len(holders)
        table[key] = dict(zip(holders, (q / q.sum()).tolist(), strict=True))
    active = None
    if removal and n > 1:
        active = np.ones(n, dtype=bool)
        active[rng.integers(0, n)] = False
    return Loads.of(load, rng.random(k)), Routing.from_table(home, n, table, active)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@settings(max_examples=60, deadline=None)
@example(seed=15739540, tau=0.0, removal=True)  # a cut leaves 4e-14 rows on the removed target
@given(seed=st.integers(0, 2**32), tau=st.sampled_from([0.0, 0.05, 0.3]), removal=st.booleans())
def test_valid_conserving_diff(variant: Partitioner, seed: int, tau: float, removal: bool) -> None:
    loads, routing = random_state(seed, removal=removal)
    plan = variant.plan(loads, routing, tau)
    assert plan.feasible, plan.reason
    assert plan_violations(loads, routing, plan) == []
    load = routing.target_load(loads)
    mean = load.sum() / routing.active.sum()
    upper = np.where(routing.active, (1 + tau) * mean, 0.0)
    least = float(np.maximum(load - upper, 0.0).sum())
    moved = costs(loads, plan).moved
    if variant.name == "qmmp":
        assert moved == pytest.approx(least, rel=1e-6, abs=1e-6 * mean)
    assert moved >= least * (1 - 1e-6) - 1e-6 * mean
    again = variant.plan(loads, routing, tau)
    assert again.moves == plan.moves


@pytest.mark.parametrize("name", ["qmmp", "mnrt"])
@pytest.mark.parametrize("seed", range(30))
def test_integer_tuples_stay_whole(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 6))
    loads = Loads.of(rng.integers(0, 50, 12).astype(float))
    routing = Routing.at_home(rng.integers(0, n, 12), n)
    plan = partitioner(name, integer=True).plan(loads, routing, 0.05)
    amounts = [m.amount for m in plan.moves]
    assert amounts == pytest.approx([round(a) for a in amounts], abs=1e-6)
    mean = loads.load.sum() / n
    assert plan.routing.target_load(loads).max() <= max(np.floor(1.05 * mean), np.ceil(mean)) + 1e-6


def test_one_key_one_target_and_heavy_key() -> None:
    for name in ("qmmp", "mnrt"):
        assert partitioner(name).plan(Loads.of([5.0]), Routing.at_home([0], 1), 0.0).moves == ()
        plan = partitioner(name).plan(
            Loads.of([90.0, 1.0, 1.0]), Routing.at_home([0, 1, 2], 3), 0.0
        )
        assert plan.feasible
        assert [s.key for s in plan.splits] == [0]


def test_giant_key_keeps_its_target_to_itself() -> None:
    loads = Loads.of([90.0, 5.0, 4.0, 1.0])
    plan = Mnrt(giant_keys=True).plan(loads, Routing.at_home([0, 0, 0, 1], 3), 0.1)
    assert {k for k in (1, 2) if 0 in plan.routing.places(k)} == set()
    assert plan.feasible


def drift(z: float, names: tuple[str, ...], seeds: int) -> dict[str, np.ndarray]:
    """Rounds 6-10 of our drifting Zipf: (|Y|, split, records, moved, O4) means."""
    out = {name: [] for name in names}  # type: dict[str, list[list[float]]]
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        weight = np.arange(1, 1001, dtype=float) ** -z
        start = rng.permutation(weight / weight.sum())
        home = rng.integers(0, 10, 1000)
        rounds = []
        for _ in range(10):
            ids = rng.choice(1000, 200, replace=False)
            start[ids] = rng.permutation(start[ids])
            rounds.append(start.copy())
        for name in names:
            routing = Routing.at_home(home, 10)
            for i, load in enumerate(rounds):
                loads = Loads.of(load)
                plan = partitioner(name).plan(loads, routing, 0.05)
                routing = plan.routing
                if i >= 5:
                    c = costs(loads, plan)
                    out[name].append([c.table, c.split, c.records, c.moved, c.broadcast])
    return {name: np.mean(rows, axis=0) for name, rows in out.items()}


@pytest.mark.parametrize("z", [0.5, 0.8, 1.0, 1.5])
def test_mnrt_broadcasts_less_than_qmmp(z: float) -> None:
    """The source's trend; |Y| near earlier figures of ours [C] (another generator, so loosely)."""
    mean = drift(z, ("qmmp", "mnrt"), 5)
    assert mean["mnrt"][4] <= mean["qmmp"][4]
    assert mean["mnrt"][0] <= mean["qmmp"][0] * 1.1
    known = {0.5: (73, 30), 0.8: (194, 61), 1.0: (290, 185), 1.5: (340, 325)}[z]
    assert mean["qmmp"][0] == pytest.approx(known[0], rel=0.25)
    assert mean["mnrt"][0] == pytest.approx(known[1], rel=0.35)


def test_adding_a_target_brings_rehashed_keys_home() -> None:
    rng = np.random.default_rng(3)
    keys = np.arange(400)
    loads = Loads.of(rng.pareto(1.5, 400))
    routing = partitioner("mnrt").plan(loads, Routing.at_home(jump_hash(keys, 4), 4), 0.05).routing
    grown = add_targets(routing, 1, jump_hash(keys, 5))
    assert routing_costs(loads, grown)[0] >= int((jump_hash(keys, 5) == 4).sum())
    plan = partitioner("mnrt").plan(loads, grown, 0.05)
    assert plan.feasible
    assert plan_violations(loads, grown, plan) == []
    assert routing_costs(loads, plan.routing)[0] < routing_costs(loads, grown)[0]


def test_removing_a_target_empties_it() -> None:
    rng = np.random.default_rng(4)
    keys = np.arange(300)
    loads = Loads.of(np.where(rng.random(300) < 0.2, 0.0, rng.pareto(1.5, 300)))
    routing = Routing.at_home(jump_hash(keys, 4), 4)
    shrunk = remove_target(routing, 3, jump_hash(keys, 3))
    for name in ("qmmp", "mnrt", "readj"):
        plan = partitioner(name).plan(loads, shrunk, 0.3)
        assert not (plan.routing.target == 3).any()
        assert plan_violations(loads, shrunk, plan) == []


def test_jump_hash_moves_few_keys() -> None:
    keys = np.arange(20_000)
    before, after = jump_hash(keys, 9), jump_hash(keys, 10)
    assert np.mean(before != after) == pytest.approx(0.1, abs=0.01)
    assert set(after[before != after].tolist()) == {9}


def test_ten_thousand_keys_are_fast() -> None:
    """Figures to reach (medians): QMMP <= 10 ms, MNRT <= 100 ms; here with room for CI."""
    rng = np.random.default_rng(1)
    weight = np.arange(1, 10_001, dtype=float) ** -1.0
    loads = Loads.of(rng.permutation(weight))
    routing = Routing.at_home(rng.integers(0, 32, 10_000), 32)
    for name, limit in (("qmmp", 0.05), ("mnrt", 0.5)):
        took = []
        for _ in range(5):
            start = time.thread_time()
            partitioner(name).plan(loads, routing, 0.05)
            took.append(time.thread_time() - start)
        assert sorted(took)[2] < limit
