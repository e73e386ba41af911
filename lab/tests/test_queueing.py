"""How long rows wait, against the tail of M/M/k, by hand and against a simulation of lanes."""

import math
from typing import Any

import numpy as np
import pytest

from laneshift.errors import InputError
from laneshift.models.queueing import erlang_c, sojourn_time
from laneshift_lab.queueing import lanes_sojourn_time, wait_quantile


def test_wait_quantile_is_the_tail_of_the_wait() -> None:
    c = erlang_c(3, 2.5)
    wait = wait_quantile(3, 25, 10, 0.99)
    assert c * math.exp(-(30 - 25) * wait) == pytest.approx(0.01)
    assert wait_quantile(30, 25, 10, 0.5) == 0.0
    assert wait_quantile(2, 20, 10, 0.5) == math.inf
    with pytest.raises(InputError, match="probability"):
        wait_quantile(1, 1.0, 2.0, 1.0)


def test_lanes_have_queues_of_their_own() -> None:
    """By hand: 16 lanes at 90 % take 1/(1 - 0.9) = 10 service times, one queue for all 1.4."""
    assert lanes_sojourn_time(16, 14_400, 1000) == pytest.approx(0.010)
    assert sojourn_time(16, 14_400, 1000) == pytest.approx(0.0014, abs=5e-5)
    assert lanes_sojourn_time(1, 900, 1000) == pytest.approx(sojourn_time(1, 900, 1000))
    # half and half of equal costs: half of the waiting; 3/4 and 1/4 of 1.2: 1/0.1 and 1/0.7
    assert lanes_sojourn_time(2, 1.6, 1.0, variation=0.0) == pytest.approx(1 + 4 / 2)
    uneven = 0.75 / 0.1 + 0.25 / 0.7
    assert lanes_sojourn_time(2, 1.2, 1.0, [0.75, 0.25]) == pytest.approx(uneven)
    assert lanes_sojourn_time(2, 1.2, 1.0, [0.9, 0.1]) == math.inf
    assert lanes_sojourn_time(4, 0.0, 2.0) == 0.5
    assert lanes_sojourn_time(2, 0.9, 1.0, [1.0, 0.0]) == pytest.approx(10.0)


@pytest.mark.parametrize(
    ("shares", "load", "variation"),
    [([0.25] * 4, 0.8, 1.0), ([0.4, 0.3, 0.2, 0.1], 0.55, 1.0), ([0.25] * 4, 0.8, 0.0)],
)
def test_lanes_against_a_simulation(shares: list[float], load: float, variation: float) -> None:
    """Rows of a Poisson stream go to lanes by their shares; Lindley's recursion per lane."""
    rng = np.random.default_rng(7)
    rows, lam = 400_000, load * len(shares)
    at = np.cumsum(rng.exponential(1.0 / lam, rows))
    lane = rng.choice(len(shares), rows, p=shares)
    spent = np.zeros(rows)
    for i in range(len(shares)):
        mine = np.flatnonzero(lane == i)
        cost = rng.exponential(1.0, mine.size) if variation else np.ones(mine.size)
        # W(n+1) = max(0, W(n) + S(n) - A(n)) is a random walk less its running minimum.
        walk = np.concatenate([[0.0], np.cumsum(cost[:-1] - np.diff(at[mine]))])
        spent[mine] = walk - np.minimum.accumulate(walk) + cost
    told = lanes_sojourn_time(len(shares), lam, 1.0, shares, variation)
    assert spent[rows // 10 :].mean() == pytest.approx(told, rel=0.08)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"lanes": 0}, "lanes"),
        ({"shares": [0.5, 0.6]}, "shares"),
        ({"shares": [1.0]}, "shares"),
        ({"variation": -1.0}, "variation"),
    ],
)
def test_wrong_lanes_are_named(given: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError, match=field):
        lanes_sojourn_time(**{"lanes": 2, "arrival_rate": 1.0, "service_rate": 1.0} | given)
