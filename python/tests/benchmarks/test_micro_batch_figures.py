"""The arithmetic of the micro-batch benchmarks: no Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from laneshift.errors import InputError, LaneshiftError
from laneshift_bench import auto_cases, quiet, recorded
from laneshift_bench.auto import Found, same
from laneshift_bench.auto_cases import cases
from laneshift_bench.batches import Batches, digest
from laneshift_bench.hot import Hot, in_order, of_keys, undivided
from laneshift_bench.measure import Latency, Measurement
from laneshift_bench.microbatch import (
    HEADER,
    LOADS,
    Watched,
    contenders,
    load_of,
    notes,
    table,
)
from laneshift_bench.offered import (
    SHAPES,
    Oracle,
    Stages,
    batches_until,
    burst,
    constant,
    day,
    due,
    held_core_seconds,
    missed,
)
from laneshift_bench.query import BenchmarkError, Running
from laneshift_bench.report import Report, kept
from plugin.fake import RUNNING, FakeGateway, FakeQuery
from session.transports import TRANSPORTS, facade


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


def test_recorded_keys_go_to_partitions_by_their_hash_and_are_whole() -> None:
    batches = [[(3, 0.5), (5, 0.25), (-1, 0.25)], [(0, 0.5), (1, 0.5)]]
    assert of_keys(batches, 4, 2) == pytest.approx((0.75 + 0.5) / 2)
    assert of_keys(batches, 1, 2) == 1
    assert undivided(batches, 2) == pytest.approx(0.5)
    assert undivided(batches, 8) == pytest.approx(0.5)


def test_a_recording_is_read_a_file_for_each_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded, "BUILD", tmp_path)
    table = pa.table({"key": list(range(10))})
    recording = recorded.Recording("made up", lambda: table)
    files = recording.files(3, 3)
    assert [pq.read_table(file)["key"].to_pylist() for file in files] == [
        [0, 1, 2], [3, 4, 5], [6, 7, 8],
    ]  # fmt: skip
    ages = [file.stat().st_mtime for file in files]
    assert ages == sorted(set(ages))
    with pytest.raises(InputError, match="batches: found 4"):
        recording.files(3, 4)


def test_every_case_has_the_batches_that_were_asked_for() -> None:
    asked = [case.stream for case in cases(quick=False, batches=3)]
    assert {stream.batches for stream in asked} == {3}
    assert all(1 <= stream.first < 3 for stream in asked)


@pytest.mark.parametrize("name", ["Python, slow", "Python, 200 partitions"])
def test_a_case_of_an_earlier_run_has_its_lines_again(name: str) -> None:
    [case] = [case for case in cases(quick=True) if case.name == name]
    runs = {
        tried.side.name: [Batches((900.0, 100.0 + n, 100.0 + n), 1)] * 2
        for n, tried in enumerate(case.sides)
    }
    first, again = Report("a", "A", "", ()), Report("a", "A", "", ())
    Found(case, runs, "2026-11-28 15:13 UTC at fae2f31").add_to(first)
    data = json.loads(json.dumps(first.data))[case.name]
    Found.restored(case, data).add_to(again)
    assert again == first
    assert set(data["alike"]) == ({"2", "4", "8", "16", "200"} if case.tuned else set())
    # A case that has another side since is shown without it.
    del data["jar alone"], data[case.sides[-1].side.name]
    assert set(Found.restored(case, data).runs) == set(data) - {
        "ratio",
        "over",
        "ran",
        "alike",
        "arithmetic",
    }


def test_the_published_cases_can_be_kept() -> None:
    published = kept(Path(__file__).parents[3] / "benchmarks" / "results" / "auto.json")
    found = [Found.restored(case, published[case.name])
             for case in cases(quick=False) if case.name in published]  # fmt: skip
    assert found and all(one.ran and "jar alone" in one.runs for one in found)


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


def oracle(stages: Stages, **more: Any) -> Oracle:
    """Of two equal partitions, 10 ms a row, 16 cores."""
    given: dict[str, Any] = {
        "trigger_s": 5.0, "cost_s": 0.01, "shares": (0.5, 0.5), "cores": 16, "target": 0.8,
        "fixed_s": 0.0,
    }  # fmt: skip
    return Oracle(stages, **(given | more))


def test_shapes_of_a_load_last_as_long_as_they_should() -> None:
    for shape in SHAPES.values():
        assert sum(seconds for _, seconds in shape(100, 60)) == pytest.approx(60)
    assert due(burst(100, 100), 100) == pytest.approx(40 * 100 + 20 * 400 + 40 * 100)
    rates = [rate for rate, _ in day(100, 600)]
    assert sum(rates) / len(rates) == pytest.approx(100)
    assert (min(rates), max(rates)) == pytest.approx((25, 175), rel=0.03)


def test_the_oracle_has_the_fewest_lanes_that_keep_to_the_target() -> None:
    # 200 rows/s are 2 cores' worth, a partition 5 s a batch; 4 s are allowed.
    constant_load = oracle(constant(200, 60))
    assert constant_load.needed(1000).tolist() == [2, 2]
    assert constant_load.core_seconds() == 4 * 60
    assert oracle(constant(200, 60), target=1.0).core_seconds() == 2 * 60
    assert oracle(constant(200, 60), fixed_s=2.0).needed(1000).tolist() == [3, 3]


def test_the_oracle_follows_a_burst_and_keeps_within_the_cores() -> None:
    found = oracle(burst(200, 100))
    assert found.lanes().tolist() == [4] * 8 + [10] * 4 + [4] * 8
    assert (found.first, found.peak) == (2, 5)
    assert oracle(burst(200, 100), cores=6).lanes().max() == 6
    assert oracle(constant(200, 10), shares=(0.9, 0.1), cores=4).needed(1000).tolist() == [3, 1]


def test_more_partitions_than_cores_hold_no_more_than_the_cores() -> None:
    found = oracle(constant(100, 60), shares=(0.02,) * 50, cores=4)
    assert found.lanes().max() == 4


def test_an_oracle_without_time_for_rows_is_refused() -> None:
    with pytest.raises(InputError, match="fixed_s"):
        oracle(constant(100, 60), fixed_s=4.0)


def test_a_batch_that_is_as_long_as_its_interval_misses_no_trigger() -> None:
    assert missed([400, 5000, 999], 5.0) == 0
    assert missed([5001, 10_000, 10_001], 5.0) == 1 + 1 + 2


def test_core_seconds_are_lanes_times_time() -> None:
    held = [(1.0, 2), (4.0, 6), (8.0, 2), (30.0, 9)]
    assert held_core_seconds(held, 0.0, 10.0, 16) == 4 * 2 + 4 * 6 + 2 * 2
    assert held_core_seconds(held, 0.0, 10.0, 4) == 4 * 2 + 4 * 4 + 2 * 2
    assert held_core_seconds([], 0.0, 10.0, 4) == 0


def test_capacity_is_there_in_the_batch_that_has_the_lanes() -> None:
    batches = [(0.0, 2), (5.0, 2), (10.0, 4), (15.0, 8), (20.0, 8), (25.0, 2)]
    assert batches_until(batches, 7.0, 8) == 2
    assert batches_until(batches, 17.0, 2, at_most=True) == 2
    assert batches_until(batches, 7.0, 9) is None


def test_core_seconds_of_a_run_are_compared_with_the_oracle() -> None:
    load = load_of("burst", 5.0, 100.0)
    run = Watched(0.0, latency=Measurement(1, 1.0, 1.0, *[Latency(1, 1.0, 2.0, 3.0, 4.0)] * 2))
    run.held = [(0.0, 2), (46.0, 10), (66.0, 4)]
    run.batches = [(5.0 * i, 2000.0 if i != 9 else 6000.0) for i in range(1, 20)]
    run.changes = [46.0, 66.0, 120.0]
    found = run.figures(load)
    assert found["core_seconds"] == 46 * 2 + 20 * 10 + 34 * 4
    assert (found["changes"], found["changes_settled"], found["missed"]) == (2, 2, 1)
    # One that takes 6 s misses a trigger; had the last batch hung, those after it would count.
    run.batches = run.batches[:-3]
    assert run.figures(load)["missed"] == 1 + 3
    # The batches at 45 s and 50 s read the burst first; lanes were there at the end of the first.
    assert (found["up"], found["down"]) == (1, 1)


def test_all_sides_of_a_load_share_its_cores() -> None:
    for name in LOADS:
        load = load_of(name, 5.0, 60.0)
        assert int(str(load.source["keys"])) <= 10_000_000, "all that the source has"
        for one in contenders(load, ["static", "laneshift"]):
            lanes = int(one.side.options.get("lanes", "1").replace("auto", "1"))
            resident = min(lanes * one.side.partitions, load.cores)
            assert resident <= load.cores
            if one.side.options.get("lanes", "auto") != "auto":
                assert lanes <= int(one.side.options["maxLanes"])
    names = [one.name for one in contenders(load_of("skew", 5.0, 60.0), ["laneshift"])]
    assert names == [
        "stock", "stock, 4 a core", "stock, 8 a core", "stock, 8 salts", "jar alone", "laneshift",
    ]  # fmt: skip


def test_the_table_is_made_of_data_that_a_file_may_have_kept() -> None:
    load = load_of("burst", 5.0, 100.0)
    run = Watched(0.0, latency=Measurement(1, 1.0, 1.0, *[Latency(1, 1.0, 2.0, 3.0, 4.0)] * 2))
    run.held, run.batches = [(0.0, 4)], [(5.0, 2000.0), (10.0, 3000.0)]
    part = {
        "oracle_core_seconds": 400.0, "static_core_seconds": 200.0, "peak_core_seconds": 800.0,
        "seconds": 100.0,
        "sides": {
            "laneshift": run.figures(load) | {"ran": "today at b"},
            "craa": run.figures(load) | {"ran": "yesterday at a"},
        },
    }  # fmt: skip
    data = json.loads(json.dumps({load.part: part}))
    row, _ = table(data)
    assert len(row) == len(HEADER)
    assert row[:9] == ["burst", "5", "laneshift", "0", "0", "17", "400", "2.00", "0.50"]
    assert row[9:] == ["1.00", "2,500", "3,000", "0.00", "0.00", "never, never"]
    (note,) = notes(data)
    assert "100 s a run" in note and "laneshift: today at b; craa: yesterday at a." in note
    del data[load.part]["sides"]["craa"]
    assert notes(data)[0].endswith(". today at b.")


def test_lanes_by_hand_wait_until_the_partition_is_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gateway = FakeGateway()
    (operator,) = gateway.data["queries"][0]["operators"]
    last = operator["partitions"].pop()
    waits: list[float] = []

    def computed(seconds: float) -> None:
        waits.append(seconds)
        operator["partitions"].append(last)

    run = Running(FakeQuery(RUNNING, active=True), None)  # type: ignore[arg-type]
    monkeypatch.setattr(auto_cases.SparkSession, "active", lambda: None)
    monkeypatch.setattr(auto_cases.time, "sleep", computed)
    with facade(TRANSPORTS[0], gateway) as app:
        monkeypatch.setattr(auto_cases, "attach", lambda _: app)
        auto_cases.more_lanes(1, 4, run)
        assert gateway.sent == [("set_lanes", RUNNING, 0, 1, 4)] and len(waits) == 1
        with pytest.raises(LaneshiftError, match="NO_SUCH_PARTITION"):
            auto_cases.more_lanes(2, 4, run)
