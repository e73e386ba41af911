"""Readj, PKG, W-Choices, the join schemes, the registry, and wrong inputs."""

from __future__ import annotations

import numpy as np
import pytest

from laneshift.errors import InputError
from laneshift.partitioning import Loads, Routing
from laneshift.partitioning.bi import side_sizes
from laneshift.partitioning.choices import first_choice, second_choice
from laneshift.partitioning.dynamic import Dynamic, best_matrix
from laneshift.partitioning.join_schemes import Volumes
from laneshift.partitioning.pkg import Pkg
from laneshift.partitioning.w_choices import WChoices
from laneshift_lab.partitioning import PARTITIONERS, partitioner
from laneshift_lab.partitioning.conditions import plan_violations, table_violations


def zipf(keys: int, z: float, seed: int = 1) -> np.ndarray:
    weight = np.arange(1, keys + 1, dtype=float) ** -z
    return np.random.default_rng(seed).permutation(weight / weight.sum() * keys)


def test_readj_keeps_keys_whole_and_light_keys_at_home() -> None:
    loads = Loads.of(zipf(500, 0.8))
    home = np.random.default_rng(2).integers(0, 8, 500)
    plan = partitioner("readj").plan(loads, Routing.at_home(home, 8), 0.05)
    assert plan.feasible
    assert plan.splits == ()
    assert plan_violations(loads, Routing.at_home(home, 8), plan) == []
    light = loads.load <= 0.05 / 2**6 * loads.load.sum() / 8
    assert (plan.routing.target[light] == home[light]).all()


def test_readj_reports_a_key_heavier_than_the_limit() -> None:
    plan = partitioner("readj").plan(Loads.of([9.0, 1.0, 1.0]), Routing.at_home([0, 1, 1], 3), 0.05)
    assert not plan.feasible
    assert "indivisible" in plan.reason


def test_pkg_shares_match_the_exact_stream() -> None:
    routing = Routing.at_home(np.random.default_rng(1).integers(0, 5, 100), 5)
    loads = Loads.of(zipf(100, 1.0))
    plan = Pkg().plan(loads, routing, 0.1)
    assert table_violations(plan.routing) == []
    assert np.diff(plan.routing.start).max() == 2
    router = Pkg().router(routing)
    stream = np.random.default_rng(5).choice(100, 20_000, p=loads.load / loads.load.sum())
    for key in stream.tolist():
        router.route(key)
    expected = plan.routing.target_load(loads) / loads.load.sum()
    np.testing.assert_allclose(router.sent / 20_000, expected, atol=0.02)


def test_two_choices_differ() -> None:
    routing = Routing.at_home(np.arange(50) % 3, 3)
    assert (first_choice(routing) != second_choice(routing)).all()


def test_w_choices_carries_what_two_choices_cannot() -> None:
    load = zipf(200, 2.0)
    routing = Routing.at_home(np.arange(200) % 10, 10)
    assert not Pkg().plan(Loads.of(load), routing, 0.1).feasible
    plan = WChoices().plan(Loads.of(load), routing, 0.1)
    assert plan.feasible, plan.reason
    router = WChoices().router(Loads.of(load), routing)
    for key in np.random.default_rng(1).choice(200, 5000, p=load / load.sum()).tolist():
        router.route(key)
    assert router.sent.max() <= 1.1 * router.sent.mean()


def join_loads(z: float) -> tuple[Loads, Routing]:
    side = np.repeat([0, 1], 300)
    ids = np.tile(np.arange(300), 2)
    load = np.concatenate([zipf(300, z), 3 * zipf(300, z)])
    return Loads.of(load, side=side, join_key=ids), Routing.at_home(ids % 16, 16)


def test_dynamic_does_not_depend_on_skew() -> None:
    flat, skewed = (Dynamic().plan(*join_loads(z), 0.0) for z in (0.0, 1.5))
    assert flat.receive is not None
    assert skewed.receive is not None
    np.testing.assert_allclose(flat.receive, skewed.receive, rtol=1e-9)
    assert flat.notes["rows"] * flat.notes["cols"] == 16
    assert flat.receive[0] == pytest.approx(300 / flat.notes["rows"] + 900 / flat.notes["cols"])


def test_dynamic_grows_by_four_and_says_when_it_cannot() -> None:
    loads, routing = join_loads(0.8)
    assert Dynamic(capacity=400.0).plan(loads, routing, 0.0).notes["nodes_used"] == 16
    with pytest.raises(InputError, match=r"need at least 64 nodes"):
        Dynamic(capacity=100.0).plan(loads, routing, 0.0)


def test_every_pair_of_tuples_meets_in_exactly_one_cell() -> None:
    matrix = best_matrix(Volumes(1.0, 4.0), 16)
    for u in (0.0, 0.3, 0.99):
        for v in (0.0, 0.5, 0.99):
            assert len(set(matrix.cells(0, u)) & set(matrix.cells(1, v))) == 1


def test_bi_receives_the_whole_other_side() -> None:
    loads, routing = join_loads(0.8)
    plan = partitioner("bi").plan(loads, routing, 10.0)
    assert side_sizes(Volumes(300, 900), 16) == (4, 12)
    assert plan.receive is not None
    assert plan.receive[0] == pytest.approx(300 / 4 + 900)
    assert plan.receive[15] == pytest.approx(900 / 12 + 300)


def test_bi6_receive_grows_with_skew() -> None:
    receive = []
    for z in (0.0, 1.5):
        plan = partitioner("bi6").plan(*join_loads(z), 10.0)
        assert plan.receive is not None
        receive.append(plan.receive.max())
    assert receive[1] > 1.5 * receive[0]


def test_registry_names_and_wrong_names() -> None:
    assert set(PARTITIONERS) == {
        "balancer", "qmmp", "mnrt", "readj", "pkg", "w-choices", "dynamic", "bi", "bi6"
    }  # fmt: skip
    assert all(partitioner(name).name == name for name in PARTITIONERS)
    with pytest.raises(InputError, match=r"partitioner: found 'qmpm', expected one of .*qmmp"):
        partitioner("qmpm")
    with pytest.raises(InputError, match=r"options of mnrt.*tie_break"):
        partitioner("mnrt", tiebreak="x")


@pytest.mark.parametrize("name", sorted(PARTITIONERS))
@pytest.mark.parametrize(
    ("tolerance", "load", "match"),
    [
        (-0.1, [1.0], "tolerance: found -0.1"),
        (np.nan, [1.0], "tolerance: found nan"),
        (0.1, [1.0, 1.0], "routing.home"),
    ],
)
def test_wrong_requests(name: str, tolerance: float, load: list[float], match: str) -> None:
    with pytest.raises(InputError, match=match):
        partitioner(name).plan(
            Loads.of(load, side=[0] * len(load)), Routing.at_home([0], 3), tolerance
        )


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Loads.of([1.0, -2.0]), r"load\[1\]: found -2.0, expected a finite number >= 0"),
        (lambda: Loads.of([np.nan]), r"load\[0\]"),
        (lambda: Loads.of([1.0], [1.0, 2.0]), "state: found 'length 2'"),
        (lambda: Loads.of([1.0], side=[2]), r"side\[0\]"),
        (lambda: Routing.at_home([3], 3), r"home\[0\]: found 3, expected an index in \[0, 3\)"),
        (lambda: Routing.at_home([0], 0), "n_targets"),
        (lambda: Routing.from_table([0], 2, {0: {0: 0.4, 1: 0.4}}), "shares that sum to 1"),
        (lambda: Routing.from_table([0], 2, {0: {0: 1.0, 1: 0.0}}), r"table\[0\]\[1\]"),
        (lambda: Routing.from_table([0], 2, {5: {0: 1.0}}), "table key: found 5"),
        (lambda: Routing.at_home([0], 2, active=[False, False]), "active"),
        (lambda: partitioner("mnrt", tie_break="best"), "tie_break: found 'best'"),
        (lambda: partitioner("readj", heavy_share=2.0), "heavy_share"),
        (lambda: partitioner("bi6", groups=0), "groups"),
        (
            lambda: partitioner("dynamic").plan(Loads.of([1.0]), Routing.at_home([0], 1), 0.1),
            "loads.side",
        ),
    ],
)  # fmt: skip
def test_wrong_inputs_name_field_value_and_range(make, match: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=match):
        make()
