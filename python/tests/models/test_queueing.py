"""M/M/k and the Jackson network against worked examples, closed forms and brute force."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laneshift.errors import InputError
from laneshift.models.queueing import (
    erlang_b,
    erlang_c,
    network_sojourn_time,
    sojourn_time,
)
from laneshift_experiments.models import simulated_sojourn

VECTORS = [  # Elasticutor, 2019, 4.1: k, lambda, mu, C, E[T_j]
    (1, 5, 10, 0.500000000, 0.200000000),
    (2, 15, 10, 0.642857143, 0.228571429),
    (3, 25, 10, 0.702247191, 0.240449438),
    (4, 25, 10, 0.319856704, 0.121323780),
    (8, 7600, 1000, 0.844168631, 0.003110422),
    (32, 30000, 1000, 0.630222721, 0.001315111),
]


@pytest.mark.parametrize(("k", "lam", "mu", "c", "time"), VECTORS)
def test_worked_examples(k: int, lam: float, mu: float, c: float, time: float) -> None:
    assert erlang_c(k, lam / mu) == pytest.approx(c, abs=5e-10)
    assert sojourn_time(k, lam, mu) == pytest.approx(time, abs=5e-10)


def test_k_must_exceed_the_offered_load_strictly() -> None:
    assert sojourn_time(2, 20, 10) == math.inf
    assert erlang_c(2, 2.0) == 1.0


@given(st.integers(1, 60), st.floats(0.0, 0.999))
@settings(max_examples=60, deadline=None)
def test_recursion_equals_the_factorial_form(k: int, utilisation: float) -> None:
    a = k * utilisation
    last = a**k / math.factorial(k) / (1 - utilisation)
    direct = last / (sum(a**n / math.factorial(n) for n in range(k)) + last)
    assert erlang_c(k, a) == pytest.approx(direct, rel=1e-9, abs=1e-300)
    other = direct / (k * (1 - utilisation)) + 1.0 if a > 0 else 1.0
    assert sojourn_time(k, a, 1.0) == pytest.approx(other, rel=1e-9)


def test_no_overflow_for_thousands_of_cores() -> None:
    assert 0 < erlang_c(5000, 4950.0) < 1
    assert erlang_b(5000, 4950.0) < 0.02


@given(st.integers(1, 40), st.floats(0.1, 30.0))
@settings(max_examples=60, deadline=None)
def test_convex_and_decreasing_in_k(k: int, a: float) -> None:
    base = math.floor(a) + k
    t0, t1, t2 = (sojourn_time(base + i, a, 1.0) for i in range(3))
    assert t0 >= t1 >= t2 >= 1.0
    assert t0 - t1 >= t1 - t2 - 1e-12


def test_network_sums_by_visits() -> None:
    lam, mu = [100.0, 100.0, 60.0], [50.0, 30.0, 40.0]
    assert network_sojourn_time(100, lam, mu, [3, 4, 2]) == pytest.approx(0.129394, abs=5e-7)
    assert network_sojourn_time(100, lam, mu, [3, 5, 2]) == pytest.approx(0.103041, abs=5e-7)
    assert network_sojourn_time(100, lam, mu, [3, 5, 3]) == pytest.approx(0.086124, abs=5e-7)
    assert network_sojourn_time(100, lam, mu, [4, 5, 3]) == pytest.approx(0.078974, abs=5e-7)
    assert network_sojourn_time(100, lam, mu, [2, 5, 3]) == math.inf
    assert network_sojourn_time(0, [0.0], [1.0], [1]) == 0.0


@pytest.mark.parametrize("utilisation", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("cores", [(1,), (4,), (3, 4, 2)])
def test_the_model_is_within_15_percent_of_a_simulation(
    cores: tuple[int, ...], utilisation: float
) -> None:
    """The whole sweep: ``make experiments ARGS=model-sojourn``."""
    rate = utilisation * min(cores)
    m = len(cores)
    model = network_sojourn_time(rate, [rate] * m, [1.0] * m, list(cores))
    rows = int(min(10_000 / (1 - utilisation), 100_000))
    found = [
        simulated_sojourn(cores, utilisation, rows, np.random.default_rng(seed))
        for seed in range(3)
    ]
    assert model == pytest.approx(np.mean(found), rel=0.15)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: erlang_c(0, 1.0), "servers"),
        (lambda: erlang_c(1, -1.0), "offered_load"),
        (lambda: erlang_c(1, math.nan), "offered_load"),
        (lambda: sojourn_time(1, 1.0, 0.0), "service_rate"),
        (lambda: sojourn_time(1, math.inf, 1.0), "arrival_rate"),
        (lambda: network_sojourn_time(0, [1.0], [2.0], [1]), "external_rate"),
        (lambda: network_sojourn_time(1, [1.0], [2.0], [1.5]), "servers"),
        (lambda: network_sojourn_time(1, [1.0, -2.0], [2.0, 2.0], [1, 1]), r"arrival_rates\[1\]"),
    ],
)
def test_wrong_inputs_name_the_field(call: object, field: str) -> None:
    assert callable(call)
    with pytest.raises(InputError, match=field):
        call()
