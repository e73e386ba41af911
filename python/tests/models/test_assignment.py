"""Algorithm 1: worked examples, invariants, and the optimum by integer programming."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laneshift.errors import InputError
from laneshift.models.assignment import Assignment, Demand, moved_bytes, schedule
from laneshift.models.improve import improve
from laneshift_experiments.models import cost_ratios
from laneshift_experiments.optimum import optimum, random_demand

KB = 1.0  # the worked examples give d and phi in KB/s


def demand(k: list[int], d: list[float], **change: object) -> Demand:
    fields: dict[str, object] = {
        "placement": np.array([[2, 0, 0], [2, 3, 0], [0, 1, 3]]),
        "targets": np.array(k),
        "node_cores": np.array([4, 4, 4]),
        "state_bytes": np.array([120.0, 240.0, 60.0]),
        "homes": np.array([0, 1, 2]),
        "data_intensity": np.array(d) * KB,
    }
    return Demand(**{**fields, **change})  # type: ignore[arg-type]


def run(k: list[int], d: list[float]) -> Assignment:
    return schedule(demand(k, d), phi_0=512 * KB)


A, B, C, FREE = 0, 1, 2, -1


def test_vector_1_takes_the_home_core_of_a_neighbour() -> None:
    found = run([3, 4, 4], [800, 100, 50])
    assert found.feasible and found.phi == 512
    assert found.steps == ((B, A, 0),)
    assert found.placement.tolist() == [[3, 0, 0], [1, 3, 0], [0, 1, 3]]


def test_vector_2_doubles_phi() -> None:
    found = run([5, 3, 3], [800, 100, 50])
    assert found.feasible and found.phi == 1024
    assert found.steps == ((B, A, 0), (FREE, A, 2), (C, A, 2))
    assert found.placement.tolist() == [[3, 0, 2], [1, 3, 0], [0, 1, 2]]


def test_vector_3_a_donor_below_its_target_is_served_later() -> None:
    found = run([2, 6, 4], [100, 800, 50])
    assert found.phi == 512 and found.steps == ((C, B, 1), (FREE, C, 2))
    assert found.placement.tolist() == [[2, 0, 0], [2, 4, 0], [0, 0, 4]]
    assert found.moved_bytes == pytest.approx(31)


def test_vector_4_nothing_to_do_leaves_remote_cores() -> None:
    found = run([2, 5, 4], [100, 800, 50])
    assert found.feasible and not found.steps
    assert found.placement.tolist() == demand([2, 5, 4], [1, 1, 1]).placement.tolist()


def test_vector_5_more_wanted_than_there_is() -> None:
    found = run([4, 5, 4], [100, 90, 50])
    assert not found.feasible and not found.steps
    assert not run([4, 5, 4], [5000, 5000, 5000]).feasible


def test_step_costs_of_the_vectors() -> None:
    """36 and 60 for two cores of B at node 0; 30 and 23 for the free core and C's."""
    from laneshift.models.migration import cost_to_add, cost_to_take

    held = demand([1, 1, 1], [1, 1, 1]).placement
    state = [120.0, 240.0, 60.0]
    assert cost_to_take(held, state)[B, 0] == pytest.approx(36)
    held[B, 0] -= 1
    held[A, 0] += 1
    assert cost_to_take(held, state)[B, 0] == pytest.approx(60)
    assert cost_to_add(held, state)[A, 2] == pytest.approx(30)
    held[A, 2] += 1
    both = cost_to_add(held, state)[A, 2] + cost_to_take(held, state)[C, 2]
    assert both == pytest.approx(23)


@st.composite
def demands(draw: st.DrawFn) -> Demand:
    m, n = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    return random_demand(rng, m, n)


@given(demands())
@settings(max_examples=120, deadline=None)
def test_invariants(case: Demand) -> None:
    found = schedule(case, phi_0=512)
    assert found.feasible  # targets fit: with no data-intensive partition the greedy finds a way
    assert (found.placement >= 0).all()
    assert (found.placement.sum(axis=0) <= case.node_cores).all()
    assert (found.placement.sum(axis=1) >= case.targets).all()
    again = schedule(case, phi_0=512)
    assert again.steps == found.steps
    grown = found.placement.sum(axis=1) > case.placement.sum(axis=1)
    for j in np.flatnonzero((case.data_intensity > found.phi) & grown):
        remote = np.arange(len(case.node_cores)) != case.homes[j]
        assert (found.placement[j, remote] <= case.placement[j, remote]).all()


def test_milp_formulation_agrees_with_enumeration() -> None:
    case = Demand(
        placement=np.array([[2, 1], [1, 1]]),
        targets=np.array([2, 3]),
        node_cores=np.array([3, 3]),
        state_bytes=np.array([100.0, 50.0]),
        homes=np.array([0, 1]),
        data_intensity=np.zeros(2),
    )
    best = min(
        moved_bytes(case.placement, x, case.state_bytes)
        for cells in itertools.product(range(4), repeat=4)
        if (x := np.array(cells).reshape(2, 2)).sum(axis=0).max() <= 3
        and (x.sum(axis=1) >= case.targets).all()
    )
    assert optimum(case) == pytest.approx(best)


def test_migration_cost_near_the_optimum() -> None:
    """200 random small instances: median ratio to the optimum <= 1.10, exchanges cut the tail."""
    greedy, better = (np.array(cost_ratios(20, 200, exchanges)) for exchanges in (False, True))
    assert np.median(greedy) <= 1.10
    assert (better >= 1.0).all() and (better <= greedy + 1e-9).all()
    assert max(better[np.isfinite(better)]) < 10 and np.mean(better == 1) > 0.85


def cost(case: Demand, x: np.ndarray, payback: float) -> float:
    """What exchanges lower: state moved, and traffic between nodes while it pays back."""
    remote = np.ones(x.shape)
    remote[np.arange(len(x)), case.homes] = 0
    traffic = float((x * remote * case.data_intensity[:, None]).sum())
    return moved_bytes(case.placement, x, case.state_bytes) + payback * traffic


@given(demands(), st.floats(0, 1000))
@settings(max_examples=60, deadline=None)
def test_an_exchange_is_the_best_of_all(case: Demand, payback: float) -> None:
    """Every pair of partitions, or of one and free cores, over every pair of nodes."""
    start = schedule(case).placement
    free = case.node_cores - start.sum(axis=0)
    before = np.vstack([free, start])
    best = cost(case, start, payback)
    for j, p in itertools.product(range(1, len(before)), range(len(before))):
        for r, h in itertools.permutations(range(before.shape[1]), 2):
            if j != p and before[j, r] > 0 and before[p, h] > 0:
                x = before.copy()
                x[j, r], x[j, h], x[p, h], x[p, r] = (
                    x[j, r] - 1,
                    x[j, h] + 1,
                    x[p, h] - 1,
                    x[p, r] + 1,
                )
                best = min(best, cost(case, x[1:], payback))
    once = improve(case, start, payback, most_swaps=1)
    assert cost(case, once, payback) == pytest.approx(best, rel=1e-6, abs=1e-3)


@given(demands(), st.floats(0, 1000))
@settings(max_examples=60, deadline=None)
def test_exchanges_keep_counts_and_lower_their_own_objective(case: Demand, payback: float) -> None:
    start = schedule(case).placement
    after = improve(case, start, payback)
    assert cost(case, after, payback) <= cost(case, start, payback) * (1 + 1e-9) + 1e-6
    assert (after >= 0).all() and (after.sum(axis=1) == start.sum(axis=1)).all()
    assert (after.sum(axis=0) <= case.node_cores).all()
    assert (improve(case, start, payback, most_swaps=0) == start).all()


def test_exchanges_bring_a_data_intensive_partition_home() -> None:
    """A worked example in which Algorithm 1 leaves B's remote cores alone."""
    case = demand([2, 5, 4], [100, 800, 50], state_bytes=np.array([1.0, 1.0, 1.0]))
    after = improve(case, schedule(case).placement, payback_s=60.0)
    assert after[B].tolist() == [1, 4, 0]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"targets": np.array([0, 1, 1])}, r"targets\[0\]"),
        ({"homes": np.array([0, 1, 3])}, r"homes\[2\]"),
        ({"node_cores": np.array([3, 4, 4])}, "placement on node 0"),
        ({"state_bytes": np.array([1.0, -1.0, 1.0])}, r"state_bytes\[1\]"),
        ({"data_intensity": np.array([1.0, np.nan, 1.0])}, r"data_intensity\[1\]"),
        ({"placement": np.array([[0.5]])}, "placement"),
    ],
)
def test_wrong_inputs_name_the_field(change: dict[str, object], field: str) -> None:
    with pytest.raises(InputError, match=field):
        demand([1, 1, 1], [1, 1, 1], **change)


def test_phi_must_be_positive() -> None:
    with pytest.raises(InputError, match="phi_0"):
        schedule(demand([1, 1, 1], [1, 1, 1]), phi_0=0.0)
