"""Greedy core counts: a worked example, brute force, and every edge case."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laneshift.errors import InputError
from laneshift.models.allocation import Outcome, allocate_cores, least_stable
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
