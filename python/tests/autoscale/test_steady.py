"""A clock that is set back takes no time away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autoscale.scripted import Moving, Scripted, keeping
from autoscale.test_presses import press
from laneshift.autoscale.loop import AutoscaleLoop
from laneshift.autoscale.measure import Meter
from laneshift.autoscale.options import AutoscaleOptions
from laneshift.autoscale.pictures import BEHIND_MS, Steady
from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.trace import read_trace
from laneshift.plugin.snapshot import Snapshot
from plugin.fake import FakeGateway, press_of, snapshot_of


def at(time_ms: int, count_ms: int | None) -> Snapshot:
    data = FakeGateway().data | {"time_ms": time_ms, "count_ms": count_ms}
    return snapshot_of(data)


def test_time_goes_on_by_the_count() -> None:
    steady = Steady()
    pictures = [(1_000_000, 50), (1_001_000, 1_050), (941_500, 2_050), (942_500, 3_050)]
    found = [steady.of(at(*each)) for each in pictures]
    assert [live.time_ms for live in found] == [1_000_000, 1_001_000, 1_002_000, 1_003_000]
    assert [live.set_back_ms for live in found] == [0, 0, 60_500, 60_500]
    # Forward: by a little it is the clock's, by more time that has passed while it slept.
    assert steady.of(at(1_005_000, 4_050)).time_ms == 1_004_000
    assert steady.of(at(1_005_000 + BEHIND_MS, 5_050)).time_ms == 1_005_000
    slept = steady.of(at(9_000_000, 6_050))
    assert (slept.time_ms, slept.set_back_ms) == (9_000_000, 0)
    assert Steady().of(at(7, None)).time_ms == 7


class SetBack(Moving):
    """Its clock is set back by two minutes before the third look."""

    count = 0

    def on_snapshot(self) -> dict[str, Any]:
        self.count += 1
        if self.count == 4:
            self.data["time_ms"] -= 120_000
        return super().on_snapshot() | {"count_ms": 1000 * self.count}


def test_windows_budgets_and_traces_do_not_hear_of_it(tmp_path: Path) -> None:
    seen: list[ClusterLoad] = []
    gateway, trace = SetBack(), tmp_path / "trace.jsonl"
    made = AutoscaleLoop(gateway, Scripted(say=keeping(seen)), AutoscaleOptions(trace=trace))
    gateway.data["executors"][0]["active_tasks"] = 6
    made.turn()
    gateway.data["executors"][0]["active_tasks"] = 2
    for _ in range(14):
        assert all(decision.error is None for decision in made.turn())
    made.stop()
    assert [load.window_s for load in seen] == [1.0] * 14
    assert [load.time_s - seen[0].time_s for load in seen] == pytest.approx(range(14))
    assert [load.nodes[0].cores for load in seen] == [4] * 10 + [8] * 4, "10 s, not two minutes"
    assert len(list(read_trace(trace))) == 14


def test_a_press_is_told_with_the_clocks_time() -> None:
    gateway, meter, steady = SetBack(), Meter(), Steady()
    for _ in range(3):
        meter.measure(steady.of(gateway.snapshot()))
    live = steady.of(gateway.snapshot())
    assert live.set_back_ms == 120_000
    part = gateway.data["queries"][0]["operators"][0]["partitions"][0]
    since = gateway.data["time_ms"] - 500
    told = press_of(press(part, since, rows_in=part["rows_in"] - 400))
    (island,) = meter.glance(live, {told.key: told}, {told.key})
    assert island.cluster is not None and island.cluster.window_s == pytest.approx(0.5)
