"""Greedy core counts: a worked example, brute force, and every edge case."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laneshift.errors import InputError
from laneshift.models.allocation import (
    Network,
    Outcome,
    allocate_cores,
    allocate_shared,
    least_stable,
)
from laneshift.models.queueing import network_sojourn_time

LAM, MU = [100.0, 100.0, 60.0], [50.0, 30.0, 40.0]


@pytest.mark.parametrize(
    ("target", "budget", "cores", "time", "outcome"),
    [  # Elasticutor, 2019, 4.2
        (0.2, 99, [3, 4, 2], 0.129394, Outcome.MET),
        (0.11, 99, [3, 5, 2], 0.103041, Outcome.MET),
        (0.1, 99, [3, 5, 3], 0.086124, Outcome.MET),
        (0.1, 11, [3, 5, 3], 0.086124, Outcome.MET),
        (0.085, 99, [4, 5, 3], 0.078974, Outcome.MET),
        (0.1, 10, [3, 5, 2], 0.103041, Outcome.BUDGET),
    ],
)
def test_worked_examples(
    target: float, budget: int, cores: list[int], time: float, outcome: Outcome
) -> None:
    found = allocate_cores(100, LAM, MU, target, budget)
    assert found.cores.tolist() == cores and found.outcome is outcome
    assert found.sojourn_s == pytest.approx(time, abs=5e-7)
    assert found.wanted_cores == (11 if outcome is Outcome.BUDGET else sum(cores))


def test_an_unreachable_target_is_rejected_not_chased() -> None:
    floor = sum(lam / mu for lam, mu in zip(LAM, MU, strict=True)) / 100
    assert floor == pytest.approx(0.068333, abs=5e-7)
    for target in (floor, 0.05):
        found = allocate_cores(100, LAM, MU, target, 1000)
        assert found.outcome is Outcome.UNREACHABLE and found.wanted_cores is None
        assert found.cores.tolist() == [3, 4, 2]
    assert allocate_cores(100, LAM, MU, floor * 1.001, 10_000).outcome is Outcome.MET


def test_overload_scales_in_proportion_and_keeps_one_each() -> None:
    found = allocate_cores(1000, [1000.0, 500.0, 1.0], [10.0, 10.0, 10.0], 1.0, 32)
    assert found.outcome is Outcome.OVERLOAD and math.isinf(found.sojourn_s)
    assert found.cores.sum() == 32 and found.cores[2] == 1
    assert found.cores[0] / found.cores[1] == pytest.approx(2.0, rel=0.1)
    assert found.wanted_cores == 101 + 51 + 1


def test_partitions_without_rows_keep_one_core() -> None:
    assert allocate_cores(0, [0.0, 0.0], [1.0, 1.0], 0.1, 9).cores.tolist() == [1, 1]
    assert allocate_cores(5, [5.0, 0.0], [1.0, 1.0], 9.0, 9).cores.tolist()[1] == 1
    assert least_stable([0.0, 2.5, 3.0], [1.0, 1.0, 1.0]).tolist() == [1, 3, 4]


def test_a_limit_of_one_partition_is_kept_and_reported() -> None:
    found = allocate_cores(100, LAM, MU, 0.08, 99, limits=[3, 5, 3])
    assert found.outcome is Outcome.CORE_LIMIT and found.cores.tolist() == [3, 5, 3]
    low = allocate_cores(100, LAM, MU, 0.2, 99, limits=[2, 9, 9])
    assert low.outcome is Outcome.CORE_LIMIT and low.cores.tolist() == [2, 4, 2]


def test_one_partition_at_its_limit_leaves_the_target_to_the_others() -> None:
    """Loads of 10 and 2.99 cores, 8 at most for the first: the second must not get 3 (99.7 %)."""
    lam, mu, target = [10_000.0, 2990.0], [1000.0, 1000.0], 0.002
    found = allocate_cores(12_990, lam, mu, target, 64, limits=[8, 64])
    assert found.cores.tolist() == [8, 4]
    assert found.outcome is Outcome.CORE_LIMIT and found.limited.tolist() == [True, False]
    assert network_sojourn_time(2990, [2990.0], [1000.0], [4]) <= target
    # so too where rows pass both, and where both are beyond their own limits
    assert allocate_cores(10_000, lam, mu, 0.0026, 64, [8, 64]).cores.tolist() == [8, 4]
    both = allocate_cores(12_990, lam, mu, target, 64, limits=[8, 2])
    assert both.cores.tolist() == [8, 2] and both.limited.all() and math.isinf(both.sojourn_s)


def test_a_limit_that_is_reached_on_the_way_leaves_the_target_to_the_others() -> None:
    """10 cores keep up with 9.9 cores' load, but its rows alone wait longer than all may."""
    lam, mu, target = [9900.0, 2990.0], [1000.0, 1000.0], 0.002
    found = allocate_cores(12_890, lam, mu, target, 64, limits=[10, 64])
    assert found.cores.tolist() == [10, 4]  # and not the whole cluster for the second
    assert found.outcome is Outcome.CORE_LIMIT and found.limited.tolist() == [True, False]


def test_a_limit_that_others_make_up_for_is_no_shortfall() -> None:
    found = allocate_cores(100, LAM, MU, 0.1, 99, limits=[3, 9, 9])
    assert found.outcome is Outcome.MET and not found.limited.any()


def test_beside_a_limit_the_budget_may_not_suffice_either() -> None:
    lam, mu = [10_000.0, 2990.0], [1000.0, 1000.0]
    few = allocate_cores(12_990, lam, mu, 0.002, 11, limits=[8, 64])
    assert few.cores.tolist() == [8, 3]
    assert few.outcome is Outcome.BUDGET and few.limited.tolist() == [True, False]
    over = allocate_cores(12_990, lam, mu, 0.002, 10, limits=[8, 64])
    assert over.outcome is Outcome.OVERLOAD and over.cores.sum() == 10
    never = allocate_cores(12_990, lam, mu, 0.001, 64, limits=[8, 64])
    assert never.outcome is Outcome.UNREACHABLE and never.cores.tolist() == [8, 3]


@given(st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_what_is_not_at_a_limit_is_sized_as_without_any(seed: int) -> None:
    """Parallel partitions: the others meet the target by themselves, whatever is at its limit."""
    rng = np.random.default_rng(seed)
    load = rng.uniform(0.1, 12, int(rng.integers(2, 6)))
    limits = np.where(rng.random(load.size) < 0.4, rng.integers(1, 8, load.size), 10**6)
    target = float(rng.uniform(1.2, 3))  # in mean service times
    found = allocate_cores(float(load.sum()), load, np.ones(load.size), target, 10_000, limits)
    assert (found.cores <= limits).all()
    rest = ~found.limited
    if rest.any():
        entering = float(load[rest].sum())
        assert (
            network_sojourn_time(entering, load[rest], np.ones(rest.sum()), found.cores[rest])
            <= target
        )
    assert (found.cores == np.where(rest, found.cores, limits)).all()
    assert found.limited.any() == (found.outcome is Outcome.CORE_LIMIT)


def test_a_core_that_ends_a_huge_wait_leaves_an_exact_time() -> None:
    lam, mu = [1.999999999999993, 1.0], [2.0, 2.0]
    found = allocate_cores(2, lam, mu, 2.0, 9)
    assert found.cores.tolist() == [2, 1]
    assert found.sojourn_s == pytest.approx(network_sojourn_time(2, lam, mu, found.cores), rel=1e-9)


rates = st.lists(st.tuples(st.floats(0.5, 40), st.floats(2, 20)), min_size=1, max_size=3)


@given(rates, st.floats(1.05, 6.0))
@settings(max_examples=40, deadline=None)
def test_greedy_is_optimal_against_brute_force(
    pairs: list[tuple[float, float]], slack: float
) -> None:
    lam, mu = [p[0] for p in pairs], [p[1] for p in pairs]
    entering = lam[0]
    target = slack * sum(x / y for x, y in pairs) / entering
    found = allocate_cores(entering, lam, mu, target, 400)
    assert found.outcome is Outcome.MET
    assert found.sojourn_s == pytest.approx(
        network_sojourn_time(entering, lam, mu, found.cores), rel=1e-9
    )
    used = int(found.cores.sum())
    start = least_stable(lam, mu).tolist()
    spare = used - 1 - sum(start)
    if 0 <= spare <= 12:
        fewer = (
            [s + e for s, e in zip(start, extra, strict=True)]
            for extra in itertools.product(range(spare + 1), repeat=len(lam))
            if sum(extra) == spare
        )
        best = min(network_sojourn_time(entering, lam, mu, k) for k in fewer)
        assert best > target * (1 - 1e-9)


@given(rates, st.floats(0.5, 6.0), st.integers(0, 30))
@settings(max_examples=40, deadline=None)
def test_budget_is_never_exceeded(
    pairs: list[tuple[float, float]], slack: float, extra: int
) -> None:
    lam, mu = [p[0] for p in pairs], [p[1] for p in pairs]
    budget = len(lam) + extra
    target = slack * sum(x / y for x, y in pairs) / lam[0]
    found = allocate_cores(lam[0], lam, mu, target, budget)
    assert found.cores.min() >= 1
    assert found.cores.sum() <= budget
    assert (found.outcome is Outcome.MET) == (found.sojourn_s <= target)


def query(
    loads: list[float], service: float, target: float, limits: list[int] | None = None
) -> Network:
    mu = np.full(len(loads), service)
    lam = np.array(loads) * mu
    most = None if limits is None else np.array(limits)
    return Network(float(lam.sum()), lam, mu, target, most)


def test_queries_are_sized_for_targets_of_their_own() -> None:
    """Many cheap rows and few dear ones: the mean over all would leave the dear ones waiting."""
    cheap, dear = query([0.1], 100_000, 0.015), query([2.5], 100, 0.015)
    shared = allocate_shared([cheap, dear], 16)
    assert [found.cores.tolist() for found in shared] == [[1], [4]]
    assert [found.outcome for found in shared] == [Outcome.MET] * 2
    pooled = allocate_cores(10_250, [10_000, 250], [100_000, 100], 0.015, 16)
    assert (
        pooled.cores.tolist() == [1, 3] and network_sojourn_time(250, [250.0], [100.0], [3]) > 0.02
    )


def test_too_few_cores_go_to_the_query_farthest_from_its_target() -> None:
    one, two = query([4.5], 1000, 0.0011), query([2.9], 1000, 0.0022)
    enough = [found.cores.tolist() for found in allocate_shared([one, two], 64)]
    assert enough == [[7], [4]]
    for budget in range(8, 11):
        shared = allocate_shared([one, two], budget)
        lateness = max(f.sojourn_s / n.target_s for f, n in zip(shared, (one, two), strict=True))
        best = min(
            max(
                network_sojourn_time(4500, [4500.0], [1000.0], [k]) / one.target_s,
                network_sojourn_time(2900, [2900.0], [1000.0], [budget - k]) / two.target_s,
            )
            for k in range(5, budget - 2)
        )
        assert lateness == pytest.approx(best)
        assert sum(int(found.cores.sum()) for found in shared) == budget
        assert any(found.outcome is Outcome.BUDGET for found in shared)
        assert all(f.wanted_cores == k for f, k in zip(shared, (7, 4), strict=True))
    over = allocate_shared([one, two], 7)
    assert [found.outcome for found in over] == [Outcome.OVERLOAD] * 2
    assert [found.cores.tolist() for found in over] == [[4], [3]]


def test_limits_and_queries_without_rows_beside_others() -> None:
    idle, stuck, free = query([0.0], 9, 1.0), query([5.0], 9, 1.0, [2]), query([2.9], 9, 0.13)
    shared = allocate_shared([idle, stuck, free], 8)
    assert [found.cores.tolist() for found in shared] == [[1], [2], [5]]
    tight = allocate_shared([idle, stuck, free], 7)
    assert [found.cores.tolist() for found in tight] == [[1], [2], [4]]
    assert tight[1].outcome is Outcome.CORE_LIMIT and tight[2].outcome is Outcome.BUDGET


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"target_s": 0.0}, "target_s"),
        ({"target_s": math.nan}, "target_s"),
        ({"budget": 2}, "budget"),
        ({"service_rates": [1.0, 0.0, 1.0]}, r"service_rates\[1\]"),
        ({"arrival_rates": [1.0, -1.0, 1.0]}, r"arrival_rates\[1\]"),
        ({"external_rate": 0.0}, "external_rate"),
        ({"limits": [1, 0, 1]}, r"limits\[1\]"),
    ],
)
def test_wrong_inputs_name_the_field(change: dict[str, object], field: str) -> None:
    good: dict[str, object] = {
        "external_rate": 100.0,
        "arrival_rates": LAM,
        "service_rates": MU,
        "target_s": 0.1,
        "budget": 20,
    }
    with pytest.raises(InputError, match=field) as caught:
        allocate_cores(**{**good, **change})  # type: ignore[arg-type]
    assert caught.value.remedy
