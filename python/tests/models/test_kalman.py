"""Filters: the gain that is known, and behaviour on constant and sloped loads."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laneshift.errors import InputError
from laneshift.models.kalman import LevelFilter, RateFilter, SlopeFilter


def feed(filter_: RateFilter, rates: list[float]) -> RateFilter:
    for rate in rates:
        filter_ = filter_.observe(rate)
    return filter_


def test_gain_settles_at_092() -> None:
    f = LevelFilter()
    for _ in range(50):
        f = f.observe(100.0)
    assert f.gain == pytest.approx(0.92, abs=0.005)


@pytest.mark.parametrize("start", [LevelFilter(), SlopeFilter()])
def test_first_sample_initialises_and_constant_load_is_kept(start: RateFilter) -> None:
    assert start.forecast() == 0.0
    assert feed(start, [70.0]).forecast() == 70.0
    assert feed(start, [70.0] * 30).forecast(5) == pytest.approx(70.0)


def test_slope_follows_a_ramp_and_level_lags() -> None:
    ramp = [100.0 * i for i in range(1, 60)]
    assert feed(SlopeFilter(), ramp).forecast(2) == pytest.approx(6100, rel=0.001)
    assert feed(LevelFilter(), ramp).forecast(2) < 5900


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=30))
@settings(max_examples=40, deadline=None)
def test_forecasts_are_never_negative(rates: list[float]) -> None:
    for start in (LevelFilter(), SlopeFilter()):
        assert feed(start, rates).forecast(3) >= 0
    level = feed(LevelFilter(), rates).forecast()
    assert min(rates) - 1e-6 <= level <= max(rates) + 1e-6


def test_slope_matches_the_matrix_form() -> None:
    import numpy as np

    f, h = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 0.0]])
    q, r = np.diag([0.1, 0.3]), 0.2
    x, p = np.array([5.0, 0.0]), np.zeros((2, 2))
    ours = SlopeFilter(0.1, 0.3, 0.2).observe(5.0)
    for z in (6.0, 9.0, 8.0, 20.0):
        x, p = f @ x, f @ p @ f.T + q
        gain = (p @ h.T) / (h @ p @ h.T + r)
        x = x + gain[:, 0] * (z - x[0])
        p = (np.eye(2) - gain @ h) @ p
        ours = ours.observe(z)
    assert ours.forecast(1) == pytest.approx(x[0] + x[1])


def test_wrong_inputs_name_the_field() -> None:
    with pytest.raises(InputError, match="process_noise"):
        LevelFilter(process_noise=0.0)
    with pytest.raises(InputError, match="rate"):
        SlopeFilter().observe(math.nan)
