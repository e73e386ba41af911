"""The arithmetic of predicted and measured times of a row: no Spark."""

from __future__ import annotations

import math

import numpy as np
import pytest

from laneshift_bench.measure import Latency
from laneshift_bench.query import BenchmarkError
from laneshift_bench.sojourn import (
    COST_S,
    MICRO_BATCH,
    REAL_TIME,
    TRIGGER_S,
    Case,
    Found,
    Taken,
    batch_sojourn_s,
    error,
    poisson_rates,
    way_ms,
)

LATENCY = Latency(1, 1.0, 1.0, 1.0, 1.0)


def test_a_row_of_a_batch_waits_for_its_trigger_and_for_its_turn() -> None:
    # 10 rows a second, 0.1 s each, on one lane: done 0.1, 0.2, ... 1 s after the trigger.
    alone = np.ones(1)
    assert batch_sojourn_s(10, 0.1, 1.0, alone) == pytest.approx(
        0.5 + np.mean(np.arange(1, 11)) / 10
    )
    assert batch_sojourn_s(10, 0.1, 1.0, np.array([0.5, 0.5])) == pytest.approx(0.5 + 0.3)
    assert math.isinf(batch_sojourn_s(10.1, 0.1, 1.0, alone))
    assert batch_sojourn_s(0, 0.1, 1.0, alone) == pytest.approx(0.55)


def test_lanes_with_more_rows_count_with_more_weight() -> None:
    even = batch_sojourn_s(10, 0.1, 1.0, np.array([0.5, 0.5]))
    uneven = batch_sojourn_s(10, 0.1, 1.0, np.array([0.8, 0.2]))
    assert uneven > even


def test_arrivals_are_poisson_and_the_same_each_time() -> None:
    rates = poisson_rates(500.0, 1)
    counts = rates / 1000
    assert counts.mean() == pytest.approx(0.5, rel=0.02)
    assert counts.var() == pytest.approx(0.5, rel=0.02)
    assert (rates == poisson_rates(500.0, 1)).all()


def test_models_differ_in_who_waits_for_whom() -> None:
    seen = Found(LATENCY, (1 / 16,) * 16, COST_S, Case(REAL_TIME, 16, 0.9).rate)
    found = Case(REAL_TIME, 16, 0.9).predictions(seen)
    assert found["one queue"] == pytest.approx(1000 * COST_S * 1.4, rel=0.05)
    assert found["own queues"] == pytest.approx(1000 * COST_S * 10)
    assert found["shares"] == pytest.approx(found["own queues"])
    assert "batch" not in found
    assert Case(MICRO_BATCH, 16, 0.9).predictions(seen)["batch"] > 1000 * TRIGGER_S / 2


def test_cost_rate_and_shares_are_those_between_two_looks() -> None:
    before = Taken(np.array([10, 20]), 0.5)
    found = Taken(np.array([40, 30]), 0.9).since(before, LATENCY, 4.0)
    assert found.shares == (0.75, 0.25)
    assert (found.cost_s, found.rows_per_s) == pytest.approx((0.01, 10.0))
    with pytest.raises(BenchmarkError, match="No row came"):
        before.since(before, LATENCY, 4.0)


def test_the_way_is_what_rows_take_that_cost_nothing() -> None:
    assert way_ms(REAL_TIME, 2.5) == 2.5
    assert way_ms(MICRO_BATCH, 500 * TRIGGER_S + 300) == pytest.approx(300)
    assert error(12.0, 10.0) == pytest.approx(0.2)
