"""The burst forecaster: steps, slopes, cycles, noise, and its honesty about its own error."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laneshift.errors import InputError
from laneshift.models.burst import KEEP, BurstForecast, _quantile


def feed(rates: list[float], quantile: float = 0.9) -> BurstForecast:
    known = BurstForecast(quantile=quantile)
    for rate in rates:
        known = known.observe(rate)
    return known


STEP = [1000.0, 2000.0, 5000.0, 6000.0, 5000.0, 2000.0]


def test_constant_load_is_forecast_exactly_and_without_margin() -> None:
    known = feed([70.0] * 50)
    assert (known.forecast(1), known.upper(2), known.cycle) == (70.0, 70.0, 0)


def test_a_cycle_is_found_and_lowers_forecasts_only_once_confirmed() -> None:
    assert feed(STEP * 3).cycle == 6
    late = feed(STEP * 6)
    assert late.confirmed
    assert [late.forecast(h) for h in range(1, 8)] == [*STEP, STEP[0]]
    assert late.margin(4) == 0.0


def test_an_unconfirmed_cycle_only_raises() -> None:
    wave = [100.0] * 10 + [300.0] * 3 + [100.0] * 14
    known = feed([*wave, *wave[:10]])
    assert known.forecast(1) >= 100.0
    for cut in range(1, 2 * len(wave)):
        part = feed((wave * 2)[:cut])
        if not part.confirmed and part.expert == "last":
            assert part.forecast(1) >= part.rates[-1]


def test_a_broken_cycle_is_forgotten() -> None:
    known = feed(STEP * 6 + [4000.0] * 40)
    assert known.cycle == 0 and known.forecast(3) == 4000.0


def test_a_slope_is_followed() -> None:
    known = feed([1000.0 + 10.0 * i for i in range(40)])
    assert known.expert == "slope"
    # believed less with every window: 10 + 0.9 * 10
    assert known.forecast(2) == pytest.approx(1409.0)
    sine = feed([5000 + 2500 * math.sin(i / 16) for i in range(60)])
    assert sine.forecast(1) == pytest.approx(5000 + 2500 * math.sin(60 / 16), rel=0.01)


def test_the_margin_covers_the_quantile_of_noise() -> None:
    rng = np.random.default_rng(1)
    rates = rng.uniform(1000, 50_000, 400).tolist()
    known, covered = BurstForecast(quantile=0.9), []
    for rate in rates:
        covered.append(rate <= known.upper(1))
        known = known.observe(rate)
    assert 0.82 <= np.mean(covered[40:]) <= 0.98


def test_noise_is_averaged_and_a_noisy_slope_is_followed() -> None:
    rng = np.random.default_rng(3)
    noisy = 5000 * (1 + 0.1 * rng.standard_normal(60))
    level = feed(noisy.tolist())
    assert level.expert == "mean" and level.forecast(3) == pytest.approx(5000, rel=0.05)
    ramp = (1000 + 100 * np.arange(40)) * (1 + 0.05 * rng.standard_normal(40))
    rising = feed(ramp.tolist())
    assert rising.expert == "trend" and rising.forecast(1) == pytest.approx(5000, rel=0.08)


def test_a_single_burst_is_no_cycle() -> None:
    """Nothing moved before it: that a flat line repeats says nothing."""
    known = feed([3000.0] * 10 + [6000.0] + [3000.0] * 12)
    assert known.cycle == 0 and known.forecast(1) == 3000.0


def test_the_margin_grows_with_the_windows_that_it_must_cover() -> None:
    rng = np.random.default_rng(1)
    known = feed((5000 + 100 * rng.standard_normal(60)).tolist())
    assert 0 < known.margin(1) <= known.margin(2) <= known.margin(4)
    expected, upper = known.path(3)
    np.testing.assert_allclose(upper - expected, [known.margin(h) for h in (1, 2, 3)])


@given(st.lists(st.floats(0, 1e6), max_size=60), st.floats(0, 0.99))
@settings(max_examples=40, deadline=None)
def test_forecasts_are_finite_and_not_negative(rates: list[float], quantile: float) -> None:
    known = feed(rates, quantile)
    for windows in (1, 2, 7):
        assert 0 <= known.forecast(windows) <= known.upper(windows) < math.inf


def test_memory_is_bounded() -> None:
    known = feed([float(i % 7) for i in range(KEEP + 50)])
    assert len(known.rates) == KEEP and known.seen == KEEP + 50


def test_wrong_inputs_name_the_field() -> None:
    with pytest.raises(InputError, match="quantile"):
        BurstForecast(quantile=1.0)
    with pytest.raises(InputError, match="rate"):
        BurstForecast().observe(-1.0)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40), st.floats(0, 0.999))
def test_quantiles_are_those_of_numpy(values: list[float], share: float) -> None:
    assert _quantile(sorted(values), share) == np.quantile(values, share)
