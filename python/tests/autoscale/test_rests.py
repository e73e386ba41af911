"""Pauses between two batches of Real-time Mode are not taken for a load that goes and comes."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from laneshift.autoscale.cores import Island
from laneshift.autoscale.measure import Meter
from laneshift.contract.ids import PartitionId
from laneshift.contract.partition_load import PartitionLoad
from plugin.fake import FakeGateway, set_lanes, snapshot_of

P0 = PartitionId("running:0.0")
STEP_S = 0.5


class Stream:
    """A query whose two partitions of two lanes take 500 rows/s a core, looked at twice a second.

    Attributes:
        rate: rows/s that arrive at each partition, in batches and between.
        waiting: rows of each partition that are still to be taken in.
    """

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.waiting = 0.0
        self.meter = Meter()
        self.data: dict[str, Any] = FakeGateway().data
        self.data["executors"][0].update(cores=8, active_tasks=4)

    @property
    def parts(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.data["queries"][0]["operators"][0]["partitions"]
        return found

    def look(self) -> Island:
        (island,) = self.meter.measure(snapshot_of(copy.deepcopy(self.data)))
        return island

    def step(self, *, runs: bool = True) -> Island:
        """Half a second, all of it with or without running lanes."""
        self.data["time_ms"] += round(1000 * STEP_S)
        self.waiting += self.rate * STEP_S
        most = 500.0 * self.parts[0]["lanes"] * STEP_S if runs else 0.0
        taken = round(min(self.waiting, most))
        self.waiting -= taken
        for part in self.parts:
            part["running"] = runs
            part["rows_in"] += taken
            part["rows_taken"] += taken
            part["busy_s"] += taken / 500
            part["blocked_s"] += STEP_S if runs and self.waiting >= 1 else 0.0
        return self.look()

    def pause(self, steps: int) -> list[Island]:
        """The end of a batch, so many steps without lanes, and the begin of the next one."""
        found = [self.step(runs=False) for _ in range(steps)]
        for part in self.parts:
            part["batch_id"] += 1
        return found


def first(island: Island) -> PartitionLoad:
    assert island.cluster is not None
    return island.cluster.partition(P0)


def running(rate: float) -> Stream:
    """A stream that has run for a while."""
    stream = Stream(rate)
    stream.look()
    for _ in range(6):
        island = stream.step()
    assert first(island).offered_rate == pytest.approx(rate)
    return stream


@pytest.fixture
def steady() -> Stream:
    return running(rate=600)


def test_a_pause_and_catching_up_are_no_change_of_load(steady: Stream) -> None:
    islands = steady.pause(3) + [steady.step() for _ in range(20)]
    parts = [first(island) for island in islands]
    assert steady.waiting == 0
    assert [part.offered_rate for part in parts] == pytest.approx([600] * len(parts), rel=0.05)
    assert [part.service_rate_per_core for part in parts] == pytest.approx([500] * len(parts))
    assert not any(part.saturated for part in parts)
    assert {part.queue_rows for part in parts} == {3.0}


def test_it_is_measured_again_once_it_has_caught_up(steady: Stream) -> None:
    steady.pause(1)
    for _ in range(3):
        steady.step()
    assert steady.waiting == 0
    steady.rate = 900
    assert first(steady.step()).offered_rate == pytest.approx(900)


def test_a_backlog_that_stays_long_is_shown() -> None:
    stream = running(rate=900)
    during = [first(island) for island in stream.pause(3)]
    for part in stream.parts:
        part["queue_rows"] = [150, 80]
    stream.step()  # the batch began in it
    after = [first(stream.step()) for _ in range(4)]
    for part in stream.parts:  # empty queues: what waits is before them
        part["queue_rows"] = [0, 0]
    after.append(first(stream.step()))
    assert not any(part.saturated for part in during)
    assert all(part.saturated for part in after)
    assert [part.queue_rows for part in after] == [230] * 4 + [0]
    assert [part.offered_rate for part in after] == pytest.approx([900] * 5)


def test_more_lanes_work_off_the_backlog_and_are_counted() -> None:
    stream = running(rate=900)
    stream.pause(3)
    for part in stream.parts:
        set_lanes(part, 4)
    island = stream.step()
    assert (first(island).cores, first(island).lanes, first(island).shards) == (4, (), None)
    found = [first(stream.step()) for _ in range(8)]
    assert [part.cores for part in found] == [4] * 8
    assert found[-1].offered_rate == pytest.approx(900, rel=0.05)
    assert not found[-1].saturated


def test_more_lanes_do_not_hide_a_backlog_that_is_still_there() -> None:
    stream = running(rate=900)
    stream.pause(8)
    assert not first(stream.step()).saturated  # the batch began in it
    assert first(stream.step()).saturated
    for part in stream.parts:
        set_lanes(part, 3)
    seen = []
    while stream.waiting:
        seen.append(first(stream.step()).saturated)
    assert len(seen) > 5
    assert all(seen[:-1])
    assert not first(stream.step()).saturated


def test_partitions_of_a_query_pause_together(steady: Stream) -> None:
    for part in steady.parts:
        part["rows_in"] += 5  # the source has ended, this one waits for its end
    steady.parts[1]["running"] = False
    steady.data["time_ms"] += 500
    assert first(steady.look()).offered_rate == pytest.approx(600)


@pytest.mark.parametrize("rate", [100.0, 2000.0])
def test_a_load_that_changed_in_the_pause_is_seen_in_time(steady: Stream, rate: float) -> None:
    steady.rate = rate
    steady.pause(2)
    for _ in range(23):
        part = first(steady.step())
    taken = min(rate, 1000.0)  # two lanes take no more
    assert part.offered_rate == pytest.approx(taken, rel=0.2)
    assert part.saturated is (rate > 1000)


def test_short_batches_are_measured_over_whole_ones(steady: Stream) -> None:
    steady.rate = 900.0  # so that it never catches up with a pause before the next one
    rates = []
    for _ in range(12):
        for island in [*steady.pause(1), *(steady.step() for _ in range(5))]:
            rates.append(first(island).offered_rate)
    assert rates[-20:] == pytest.approx([850] * 20, abs=60)


def test_a_pause_within_a_window_is_one(steady: Stream) -> None:
    steady.rate = 0
    for part in steady.parts:
        part["batch_id"] += 1
    assert first(steady.step()).offered_rate == pytest.approx(600)


def test_before_the_first_whole_window_there_is_nothing_to_see() -> None:
    stream = Stream(rate=600)
    for part in stream.parts:
        part["running"] = False
    stream.look()
    assert stream.step().cluster is None
    assert first(stream.step()).offered_rate == pytest.approx(600)


def test_work_that_is_with_the_state_again_is_no_pause(steady: Stream) -> None:
    apart = copy.deepcopy(steady.data["queries"][0]["operators"][0])
    apart["operator_id"] = 1000
    for part in apart["partitions"]:
        part["running"] = False
    steady.data["queries"][0]["operators"].append(apart)
    steady.pause(1)
    steady.rate = 900.0
    assert [first(steady.step()).offered_rate for _ in range(14)][-4:] == pytest.approx([900] * 4)


def test_micro_batches_are_measured_through(steady: Stream) -> None:
    steady.data["queries"][0]["mode"] = "micro-batch"
    assert first(steady.pause(1)[0]).offered_rate == 0


def test_tasks_of_a_batch_that_begins_do_not_count_as_others(steady: Stream) -> None:
    assert steady.look().budget == 6
    steady.data["executors"][0]["active_tasks"] = 7
    steady.parts[0]["running"] = False
    assert steady.look().budget == 6
    steady.parts[0]["running"] = True
    assert steady.look().budget == 3


def test_a_partition_that_never_runs_again_does_not_hide_others(steady: Stream) -> None:
    steady.parts[1]["running"] = False
    steady.data["executors"][0]["active_tasks"] = 6
    assert steady.look().budget == 6
    steady.data["time_ms"] += 11_000
    assert steady.look().budget == 3


def test_rows_that_a_lane_gives_back_are_no_new_executor(steady: Stream) -> None:
    for part in steady.parts:
        part["rows_taken"] -= 2000
    assert first(steady.step()).offered_rate == pytest.approx(600)


@pytest.mark.parametrize("counted", [0, 10**6])
def test_a_partition_that_moves_in_a_pause_is_measured_anew(counted: int) -> None:
    stream = running(600)
    stream.step(runs=False)
    stream.data["executors"][0]["executor"] = "7"
    for part in stream.parts:
        part.update(executor="7", rows_in=counted, rows_taken=counted)
    assert [island.cluster for island in stream.pause(2)] == [None, None]
    shown = first([stream.step() for _ in range(8)][-1])
    assert shown.home == "7"
    assert shown.offered_rate == pytest.approx(600, rel=0.01)
