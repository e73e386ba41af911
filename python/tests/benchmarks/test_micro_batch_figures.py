"""The arithmetic of the micro-batch benchmarks: no Spark."""

from __future__ import annotations

import pytest

from laneshift.errors import InputError
from laneshift_bench import quiet
from laneshift_bench.auto import same
from laneshift_bench.batches import Batches, digest
from laneshift_bench.hot import Hot, in_order
from laneshift_bench.query import BenchmarkError


def test_tasks_start_in_their_order_on_the_core_that_is_free_first() -> None:
    assert in_order([3, 1, 1, 1], 2) == 3
    assert in_order([1, 1, 1, 3], 2) == 4
    assert in_order([1, 1], 8) == 1
    assert in_order([], 8) == 0


def test_three_quarters_in_one_of_four_partitions_leave_half_again_to_two_cores() -> None:
    hot = Hot(4, 9)
    assert hot.share == pytest.approx(0.75)
    assert hot.stock(2) == pytest.approx(0.75)
    assert hot.ideal(2) == pytest.approx(0.5)
    assert hot.kept == pytest.approx(0.25 + 0.75 / 9)


def test_of_two_hundred_equal_partitions_one_hot_one_matters_only_if_it_starts_late() -> None:
    first, last = Hot(200, 20), Hot(200, 20, 199)
    assert first.stock(4) / first.ideal(4) == pytest.approx(1.0, abs=0.01)
    assert last.stock(4) / last.ideal(4) == pytest.approx(69 / 54.75)
    assert first.stock(4) < first.anywhere(4) < last.stock(4)


def test_twenty_times_all_others_is_nearly_the_whole_batch() -> None:
    hot = Hot.of_all_others(200, 20, 100)
    assert hot.share == pytest.approx(20 / 21)
    assert hot.stock(4) == pytest.approx(20 / 21 + 25 / 199 / 21)
    assert hot.stock(4) / hot.ideal(4) > 3.8


def test_a_hot_partition_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="at: found 4"):
        Hot(4, 9, 4)


def test_batches_that_learn_are_in_the_mean_and_not_in_the_median() -> None:
    found = Batches((900.0, 500.0, 100.0, 110.0, 90.0), 2)
    assert found.settled_ms == 100.0
    assert found.learning_ms == 700.0
    assert found.all_ms == 340.0


def test_results_are_compared_whatever_their_order() -> None:
    one, other = digest(["a|1", "b|2"]), digest(["b|2", "a|1"])
    same("made up", {"stock": one, "jar alone": other})
    with pytest.raises(BenchmarkError, match="jar alone"):
        same("made up", {"stock": one, "jar alone": digest(["a|1", "b|2", "b|2"])})
    with pytest.raises(BenchmarkError, match="no row came out"):
        same("made up", {"stock": digest([]), "jar alone": digest([])})


def test_a_benchmark_waits_for_a_quiet_machine_and_says_if_it_was_not() -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    def clock() -> float:
        return now[0]

    calm = quiet.wait(180, lambda: 4.0 - now[0] / 10, clock, sleep)
    assert calm.met and calm.waited_s == 35
    assert str(calm) == "yes, load 0.50 after waiting 35 s"
    busy = quiet.wait(12, lambda: 4.0, clock, sleep)
    assert not busy.met and busy.waited_s == 12
    assert str(busy).startswith("**no**, load 4.00 after waiting 12 s")
