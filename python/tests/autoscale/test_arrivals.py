"""Chance is not taken for a change, a change is seen at once."""

from __future__ import annotations

import numpy as np
import pytest

from laneshift.autoscale.rates import Arrivals

WINDOW_S = 0.5


def after(arrivals: Arrivals, rate: float, windows: int, seed: int) -> list[float]:
    """What is said of so many windows of Poisson arrivals."""
    counts = np.random.default_rng(seed).poisson(rate * WINDOW_S, windows)
    return [arrivals.add(float(rows), WINDOW_S) for rows in counts]


def test_one_window_is_its_rate() -> None:
    assert Arrivals().add(300, 0.5) == 600


def test_nothing_arrives() -> None:
    arrivals = Arrivals()
    assert [arrivals.add(0, WINDOW_S) for _ in range(20)] == [0.0] * 20


@pytest.mark.parametrize("rate", [4.0, 40.0, 400.0, 40_000.0])
def test_a_constant_load_looks_constant(rate: float) -> None:
    said = np.array(after(Arrivals(), rate, 4000, seed=1)[10:])
    deviation = np.sqrt(rate / 5.0)
    assert said.mean() == pytest.approx(rate, rel=0.02)
    assert said.std() < 1.2 * deviation
    assert (np.abs(said - rate) > 4.5 * deviation).sum() <= 4


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("times", "windows"), [(8.0, 1), (2.0, 1), (1.5, 1), (1.3, 3), (0.0, 1), (0.5, 1), (0.75, 4)]
)
def test_a_change_is_seen(times: float, windows: int, seed: int) -> None:
    arrivals = Arrivals()
    after(arrivals, 400, 20, seed)
    said = after(arrivals, times * 400, windows, seed + 100)[-1]
    chance = 4 * np.sqrt(times * 400 / (windows * WINDOW_S))
    assert said == pytest.approx(times * 400, abs=chance)
    assert abs(said - 400) > 0.5 * abs(times * 400 - 400)


def test_uneven_windows_count_by_their_length() -> None:
    arrivals = Arrivals()
    arrivals.add(100, 1.0)
    assert arrivals.add(310, 3.0) == pytest.approx(410 / 4)


def test_old_windows_are_forgotten() -> None:
    arrivals = Arrivals()
    for _ in range(100):
        arrivals.add(100, WINDOW_S)
    for _ in range(9):
        arrivals.add(104, WINDOW_S)  # too little to be told from chance
    assert arrivals.add(104, WINDOW_S) == pytest.approx(208)
