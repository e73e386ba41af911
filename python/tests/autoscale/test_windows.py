"""A policy's memory counts windows: the loop says which are whole, and which are shown again."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest

from autoscale.scripted import Moving, Scripted, keeping
from autoscale.test_batches import Batches
from autoscale.test_presses import press
from laneshift.autoscale.loop import AutoscaleLoop
from laneshift.autoscale.options import AutoscaleOptions
from laneshift.contract.cluster_load import ClusterLoad
from laneshift.policies import registry
from plugin.fake import FakeGateway, partition, press_of


class Wave(FakeGateway):
    """Two partitions whose rows go up and down in twenty seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.data["executors"][0] |= {"cores": 32}
        self.parts = self.data["queries"][0]["operators"][0]["partitions"]
        self.began = self.data["time_ms"]
        self.after_ms = 1000

    def rate(self) -> int:
        second = (self.data["time_ms"] - self.began) // 1000
        return 1000 + round(500 * math.sin(2 * math.pi * second / 20))

    def on_snapshot(self) -> dict[str, Any]:
        rows = self.rate() * self.after_ms // 1000
        self.data["time_ms"] += self.after_ms
        for part in self.parts:
            for name in ("rows_in", "rows_taken"):
                part[name] += rows
            part["busy_s"] += rows / 2000
        return super().on_snapshot()


def forecasts(*, pressed: bool) -> dict[str, tuple[int, tuple[float, ...]]]:
    gateway = Wave()
    made = AutoscaleLoop(gateway, registry.policy("laneshift"), AutoscaleOptions(dry_run=True))
    for turn in range(60):
        made.turn()
        if pressed and turn % 3 == 2:
            told = press_of(press(gateway.parts[0], gateway.data["time_ms"]))
            for gateway.after_ms in (200, 100, 100):
                made.short_turn({told.key: told}, {told.key})
            gateway.after_ms = 600
            made.turn()
            gateway.after_ms = 1000
        elif turn % 3 == 2:
            made.turn()
    ((_, state),) = made._turns._answers.values()
    return {name: (each.seen, each.errors) for name, each in state.demand.forecasts.items()}


def test_a_press_does_not_change_what_is_forecast() -> None:
    alone, beside = forecasts(pressed=False), forecasts(pressed=True)
    for name, (seen, errors) in alone.items():
        again, others = beside[name]
        assert again == seen
        assert len(others) == len(errors)
        assert sum(map(abs, others)) == pytest.approx(sum(map(abs, errors)), rel=0.05)


def test_a_batch_is_one_window_beside_a_query_of_real_time_mode() -> None:
    seen: list[ClusterLoad] = []
    gateway = Batches()
    other = copy.deepcopy(Moving().data["queries"][0]) | {
        "id": "other", "run_id": "other run", "name": "other", "trigger": None,
    }  # fmt: skip
    other["operators"][0]["partitions"] = parts = [partition(n) for n in range(2)]
    gateway.data["queries"].append(other)
    made = AutoscaleLoop(gateway, Scripted(say=keeping(seen)))
    made.turn()
    for batch in range(3):
        gateway.batch()
        for _ in range(5):
            for part in parts:
                part["rows_in"] += 500
                part["rows_taken"] += 500
                part["busy_s"] += 0.5
            made.turn()
        new = [
            {part.query: not part.repeated for part in cluster.partitions}
            for cluster in seen[5 * batch :]
        ]
        assert [each["running"] for each in new] == [True] + 4 * [False]
        assert all(each["other"] for each in new)


def test_a_short_turn_is_no_whole_window() -> None:
    seen: list[ClusterLoad] = []
    gateway = Wave()
    made = AutoscaleLoop(gateway, Scripted(say=keeping(seen)))
    made.turn()
    made.turn()
    told = press_of(press(gateway.parts[0], gateway.data["time_ms"]))
    gateway.after_ms = 200
    made.short_turn({told.key: told}, {told.key})
    assert [cluster.whole for cluster in seen] == [True, False]
    assert [part.repeated for part in seen[-1].partitions] == [False, True]
