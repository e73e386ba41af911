"""Loads, key distributions, and the window models of CRAA and OERA."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laneshift.errors import InputError
from laneshift_lab.simulator import rates
from laneshift_lab.simulator.rates import Levels, Rate, Sine
from laneshift_lab.simulator.window import CRAA_CHAIN, BufferedOperator, Chain
from laneshift_lab.simulator.workload import (
    StockKeys,
    TopicKeys,
    ZipfKeys,
    shard_shares,
    shards_of_keys,
    zipf,
)


@pytest.mark.parametrize(("skew", "cores"), [(0.5, 198.5), (0.6, 97.6), (0.7, 50.1), (0.8, 27.1)])
def test_hottest_key_bounds_the_cores(skew: float, cores: float) -> None:
    """Elasticutor, 2019, 3.2, computed: 1 / share of the hottest of 10,000 keys."""
    assert 1 / zipf(10_000, skew)[0] == pytest.approx(cores, abs=0.06)


@pytest.mark.parametrize("keys", [ZipfKeys(500, 0.8, 6, 5), StockKeys(200), TopicKeys(300)])
def test_weights_sum_to_one_change_and_repeat(keys: ZipfKeys | StockKeys | TopicKeys) -> None:
    once, again = list(keys.changes(30.0)), list(keys.changes(30.0))
    assert len(once) > 2
    assert once[0][0] == 0.0
    for (t, w), (u, v) in zip(once, again, strict=True):
        assert t == u
        np.testing.assert_array_equal(w, v)
        assert w.sum() == pytest.approx(1.0)
    assert not np.array_equal(once[0][1], once[-1][1])


def test_omega_is_shuffles_per_minute() -> None:
    assert [t for t, _ in ZipfKeys(10, 0.5, 2, 1).changes(120.0)] == [0, 30, 60, 90]
    assert len(list(ZipfKeys(10, 0.5, 0, 1).changes(120.0))) == 1


def test_two_tier_hashes_are_independent() -> None:
    """With one hash and a common factor, a partition would see only some shards."""
    where = shards_of_keys(20_000, 32, 256, 0)
    assert np.unique(where).size > 0.85 * 32 * 256
    share = shard_shares(zipf(20_000, 0.0), where, 32 * 256)
    assert share.sum() == pytest.approx(1.0)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([Sine(), rates.stage(), rates.step(), rates.jitter(), rates.diurnal(3)]),
    st.floats(0, 2000), st.floats(0.5, 400),
)  # fmt: skip
def test_means_add_up(rate: Rate, start: float, length: float) -> None:
    middle, end = start + length / 3, start + length
    parts = rate.mean(start, middle) * (middle - start) + rate.mean(middle, end) * (end - middle)
    assert rate.mean(start, end) * length == pytest.approx(parts, rel=1e-6, abs=1e-3)
    assert rate.mean(start, end) >= 0


def test_the_papers_loads() -> None:
    assert Sine().mean(0, 500) == pytest.approx(5000)
    assert Sine().mean(124.999, 125.001) == pytest.approx(7500)
    assert [rates.step().mean(5 * i, 5 * i + 5) for i in range(7)] == pytest.approx(
        [1000, 2000, 5000, 6000, 5000, 2000, 1000]
    )
    assert rates.jitter().mean(50, 55) == pytest.approx(6000)
    assert rates.jitter().mean(160, 210) == pytest.approx(3000)
    assert rates.stage().mean(250, 350) == pytest.approx(10_000)
    values = rates.random_levels(1)
    assert 1000 <= values.mean(0, 5) <= 50_000


def test_oera_check_values() -> None:
    """Worked by hand from OERA, 2023: P_E 100, dt 10, Bs 5000."""
    chain = Chain((BufferedOperator("c", 100, 5000, units=10),), 10.0, lag=False)
    chain.step(1050.0)  # leaves 500 rows: R = 0.1
    state = chain.step(1500.0)[0]
    assert state.backlog == 5000  # level 1.1, clipped; 500 rows lost
    assert state.lost == 500
    state = chain.step(1500.0, [12])[0]
    assert state.lost == 3000  # level 1.6
    fresh = Chain((BufferedOperator("c", 100, 5000, units=17),), 10.0, lag=False)
    fresh._ops[0].backlog = 5000.0
    state = fresh.step(1500.0)[0]
    assert state.backlog / 5000 == pytest.approx(0.6)
    assert state.lost == 0


def test_craa_transfer_function_values() -> None:
    """CRAA, 2018, by hand: CR 1, P 1000: (I 800, BO 2000) -> 1000; (800, 500) -> 900; and CR .5."""
    for backlog, out in ((2000, 1000), (500, 900)):
        chain = Chain((BufferedOperator("o", 1000, 1e6),), 5.0)
        chain._ops[0].backlog = backlog
        assert chain.step(800.0)[0].output_rate == pytest.approx(out)
    half = Chain((BufferedOperator("o", 1000, 1e6, ratio=0.5),), 5.0)
    assert half.step(1200.0)[0].output_rate == pytest.approx(500)


def test_chain_lags_one_window_and_conserves_rows() -> None:
    chain = Chain(CRAA_CHAIN, 5.0)
    units = [math.ceil(3000 / op.unit_rate) for op in CRAA_CHAIN]
    seen = [chain.step(3000.0, units) for _ in range(8)]
    assert [s[4].input_rate for s in seen] == [0, 0, 0, 0, 3000, 3000, 3000, 3000]
    assert all(s.lost == 0 for window in seen for s in window)
    burst = chain.step(6000.0)
    assert burst[0].lost == pytest.approx(3000 * 5 - 50)


def test_delay_pause_and_throttle() -> None:
    op = BufferedOperator("o", 100, 1e9)
    late = Chain((op,), 5.0, delay_s=2.0)
    assert late.step(1e4, [11])[0].processed == pytest.approx(100 * 2 + 1100 * 3)
    paused = Chain((op,), 5.0, pause_s=1.0)
    assert paused.step(1e4, [10])[0].processed == pytest.approx(1000 * 4)
    assert paused.step(1e4, [10])[0].processed == pytest.approx(1000 * 5)
    paused.throttle(0, 300.0)
    assert paused.step(1e4)[0].processed == pytest.approx(1500)
    assert paused.step(1e4)[0].processed == pytest.approx(5000)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: zipf(0, 1.0), "n_keys"),
        (lambda: zipf(5, -1.0), "skew"),
        (lambda: Sine(100, 200), "amplitude: found 200"),
        (lambda: Levels(()), "pieces"),
        (lambda: Levels(((1.0, 0.0),)), r"pieces\[0\] s"),
        (lambda: Levels(((-1.0, 1.0),)), r"pieces\[0\] rate"),
        (lambda: rates.random_levels(1, low=9.0, high=5.0), "low"),
        (lambda: BufferedOperator("o", 0.0, 1.0), "unit_rate of o"),
        (lambda: BufferedOperator("o", 1.0, 1.0, units=5, max_units=4), "units of o"),
        (lambda: Chain(CRAA_CHAIN, 5.0, delay_s=6.0), "delay_s"),
        (lambda: Chain(CRAA_CHAIN, 5.0).step(-1.0), "source_rate"),
        (lambda: Chain(CRAA_CHAIN, 5.0).step(1.0, [0, 1, 1, 1, 1]), "units of O1"),
    ],
)
def test_wrong_inputs(make: Callable[[], object], match: str) -> None:
    with pytest.raises(InputError, match=match):
        make()
