"""The live benchmarks' arithmetic, on runs that are made up: no Spark."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from laneshift.errors import InputError
from laneshift_bench.bound import divided, partitioned, rates, taken
from laneshift_bench.burst import BASE, TIMES, Burst, live
from laneshift_bench.driven import Lap, Run
from laneshift_bench.live import cases as live_cases
from laneshift_bench.live import room
from laneshift_bench.measure import Latency
from laneshift_bench.query import BenchmarkError
from laneshift_bench.rescale import first_output_s, longest_gap_s
from laneshift_bench.setting import STOCK, Setting

GIVEN: dict[str, Any] = {
    "name": "made up",
    "cores": 8,
    "partitions": 2,
    "cost_us": 1000,
    "stages": ((100.0, 2.0), (300.0, 2.0)),
    "zipf": 0.5,
}


def run_of(rates: list[float], p99_ms: float = 5.0, lanes: int = 8) -> Run:
    """A run whose n-th half second had ``rates[n]`` rows/s."""
    made = Run("laneshift")
    for at, rate in enumerate(rates):
        for slot in range(5):
            made.counts[round(0.5 * at + 0.1 * slot, 3)] = round(rate * 0.1)
        latency = Latency(round(rate / 2), 1.0, p99_ms, p99_ms, p99_ms)
        made.laps.append(Lap(0.5 * (at + 1), latency, lanes))
    return made


def test_rates_and_backlog_are_counted_from_the_first_row_due() -> None:
    setting = Setting(**GIVEN)
    assert [setting.due(t) for t in (0.0, 1.0, 3.0, 5.0)] == [0.0, 100.0, 500.0, 1100.0]
    run = run_of([100.0] * 4 + [200.0] * 4)
    assert run.rate(0.0, 2.0) == 100.0
    assert run.rate(2.0, 4.0) == 200.0
    times, backlog = run.backlog(setting, 0.5)
    assert times.tolist() == [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0]
    assert backlog.round(6).tolist() == [0, 0, 0, 0, 50, 100, 150, 200]


def test_latency_is_that_of_the_median_half_second() -> None:
    run = run_of([100.0] * 8)
    run.laps[5] = Lap(3.0, Latency(50, 1.0, 900.0, 900.0, 900.0), 4)
    assert run.p99_ms(0.0, 4.0) == 5.0
    assert run.p99_ms(2.5, 3.0) == 900.0
    assert math.isnan(run.p99_ms(10.0, 12.0))
    assert run.most_lanes == 8
    assert run.lanes(2.9, 3.6) == 6.0


def test_a_burst_is_answered_when_its_rate_comes_out_and_over_when_nothing_waits() -> None:
    burst = Burst(2.0, 4.0, 4.0)
    high = TIMES * BASE
    # One second late, caught up with afterwards: 1 s of the burst waits at 7,200 rows/s.
    rates = [BASE] * 4 + [0.0] * 2 + [high] * 6 + [BASE + high] * 2 + [BASE] * 6
    found = live(burst, run_of(rates))
    assert found.full_s == pytest.approx(1.5)
    assert found.most_rows == pytest.approx(high)
    assert found.drained_s == pytest.approx(1.0, abs=0.11)


def test_a_burst_that_nobody_answers_is_never_over() -> None:
    burst = Burst(2.0, 4.0, 4.0)
    found = live(burst, run_of([BASE] * 20))
    assert math.isinf(found.full_s)
    assert math.isinf(found.drained_s)


def test_cores_that_move_follow_the_load() -> None:
    shares, owner = np.full(10, 0.1), np.array([0] * 7 + [1] * 3)
    assert rates(partitioned(4, 2, [shares], owner)) == pytest.approx([4 / 0.7])
    assert rates(divided(8, 2, [shares], owner)) == pytest.approx([5 / 0.7])  # 5 and 3


def test_a_partition_that_has_all_the_load_gets_all_cores_but_one() -> None:
    shares = np.full(100, 0.01)
    assert rates(divided(5, 2, [shares], np.zeros(100, dtype=np.int64))) == pytest.approx([4.0])


def test_one_key_runs_on_one_lane_at_a_time() -> None:
    shares, owner = np.array([0.5, 0.1, 0.1, 0.1, 0.1, 0.1]), np.zeros(6, dtype=np.int64)
    assert rates(partitioned(4, 1, [shares], owner)) == pytest.approx([2.0])
    assert rates(divided(4, 1, [shares], owner)) == pytest.approx([2.0])


def test_who_is_late_takes_the_rows_of_earlier_periods() -> None:
    def due(at_s: float) -> float:
        return 100 * at_s

    # Of 200 rows/s a core; periods of 2 s have 200 rows each: the first takes 4 s, the second 1 s,
    # the third is in time from 6 s on, and lasts.
    work = np.array([[4.0, 1.0], [0.5, 1.0], [2.0, 2.0]])
    assert taken(due, work, 0.005, 2.0, 0.0, 4.0) == pytest.approx(50, rel=0.01)
    assert taken(due, work, 0.005, 2.0, 4.0, 5.0) == pytest.approx(200, rel=0.03)
    assert taken(due, work, 0.005, 2.0, 5.0, 9.0) == pytest.approx(100, rel=0.01)
    assert taken(due, np.array([[0.5]]), 0.005, 2.0, 0.0, 9.0) == pytest.approx(100)


def test_rows_that_may_wait_keep_other_cores_busy() -> None:
    def due(at_s: float) -> float:
        return 400 * at_s

    # Two cores of 100 rows/s; 400 rows are all the one's, then 400 the other's. With room for 100
    # both work for a second of each three: 300 rows in the first 3 s, then 400 in every 3 s.
    work = np.array([[1.0, 0.0], [0.0, 1.0]] * 20)

    def rate(room: float) -> float:
        return taken(due, work, 0.01, 1.0, 0.0, 10.0, room)

    assert rate(0) == pytest.approx(100, rel=0.01)
    assert rate(100) == pytest.approx(130, rel=0.01)
    assert rate(10_000) == pytest.approx(200, rel=0.06)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("cores", 0, "cores of made up: found 0"),
        ("partitions", 3, "a divisor of 8 cores"),
        ("lanes", 5, "1 to 4"),
        ("stages", (), "at least one"),
        ("stages", ((-1.0, 1.0),), "rate of made up: found -1.0"),
        ("queued_s", 0.0, "queued_s of made up: found 0.0"),
    ],
)
def test_a_wrong_setting_is_refused(name: str, value: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Setting(**(GIVEN | {name: value}))


def test_sides_are_stock_and_policies_with_the_same_cores() -> None:
    setting = Setting(**GIVEN)
    assert setting.side(STOCK).partitions == 8
    assert setting.side(STOCK).options == {}
    driven = setting.side("elasticutor")
    assert driven.partitions == 2
    assert (driven.options["lanes"], driven.options["maxLanes"]) == ("4", "7")
    with pytest.raises(InputError, match="found 'fastest'"):
        setting.side("fastest")


def test_percentiles_over_all_rows_are_not_those_of_the_median_lap() -> None:
    calm = Latency(100, 1.0, 1.0, 1.0, 1.0, ((1000, 100),))
    late = Latency(300, 9.0, 9.0, 9.0, 9.0, ((1000, 10), (9000, 290)))
    found = Latency.merged([calm, late, calm])
    assert (found.count, found.p50_ms, found.p99_ms, found.max_ms) == (500, 9.0, 9.0, 9.0)
    assert Latency.merged([calm]).p99_ms == 1.0
    assert math.isnan(Latency.merged([]).p99_ms)
    most = Latency.merged([Latency(100, 1, 1, 1, 5, ((1000, 99), (5000, 1)))])
    assert (most.p99_ms, most.p999_ms) == (1.0, 5.0)


def test_the_first_output_is_of_a_batch_that_began_with_the_new_parallelism() -> None:
    came = [900.0, 1400.0, 2100.0, 2200.0, 3300.0]
    # The call at 1,000 ms; the batch that began at 1,350 was begun before the lanes were there.
    assert first_output_s(came, [2050.0, 3000.0], 1000.0) == pytest.approx(1.1)
    with pytest.raises(BenchmarkError, match="No row came"):
        first_output_s(came, [4000.0], 1000.0)
    with pytest.raises(BenchmarkError, match="No row came"):
        first_output_s(came, [], 1000.0)


def test_a_gap_begins_with_the_last_row_before_the_call() -> None:
    came = [100.0, 900.0, 1400.0, 4400.0, 5000.0]
    assert longest_gap_s(came, 1000.0, 5500.0) == 3.0
    assert longest_gap_s(came, 1000.0, 1300.0) == pytest.approx(0.4)
    assert longest_gap_s([900.0], 1000.0, 9900.0) == 9.0


def test_payloads_differ_in_nothing_but_the_rows_that_wait() -> None:
    (small, _), (large, _) = (live_cases(quick=True, payload=name)[0] for name in ("none", "large"))
    assert replace(small.setting, name="", row_bytes=0) == replace(
        large.setting, name="", row_bytes=0
    )
    # Buffers of 4 KB, two for each of 8 partitions: of 85 small rows, or of a large one.
    assert room(small.setting) == 2 * 8 * 85
    assert room(large.setting) == 2 * 8
    with pytest.raises(InputError, match="payload"):
        live_cases(quick=True, payload="huge")


def test_a_late_half_second_counts_with_all_its_rows() -> None:
    run = run_of([100.0] * 8)
    run.laps = [Lap(lap.end_s, Latency(50, 1, 5, 5, 5, ((5000, 50),)), 8) for lap in run.laps]
    run.laps[5] = Lap(3.0, Latency(900, 900.0, 900.0, 900.0, 900.0, ((900_000, 900),)), 8)
    assert run.p99_ms(0.0, 4.0) == 5.0
    assert run.p99_all_ms(0.0, 4.0) == 900.0
