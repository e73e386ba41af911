"""Snapshots as numpy arrays: values, derived values, and that they cannot be changed."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from laneshift import PartitionSnapshot, Snapshot
from laneshift.contract.metrics import METRICS
from laneshift.plugin.partition import HotKey
from laneshift.plugin.rescale import RescaleProgress
from laneshift.plugin.snapshot import ExecutorSnapshot, StoresSnapshot
from plugin.fake import FakeGateway, partition


def snapshot_with(part: dict[str, object]) -> Snapshot:
    gateway = FakeGateway()
    gateway.data["queries"][0]["operators"][0]["partitions"] = [part]
    return gateway.snapshot()


def test_a_snapshot_has_what_the_plugin_sent() -> None:
    snapshot = FakeGateway().snapshot()
    (running,) = snapshot.queries
    assert (running.name, running.active) == ("running", True)
    (operator,) = running.operators
    assert (operator.lanes, operator.handoffs, operator.rows_in) == (4, 10, 2000)
    assert operator.rows_in_per_s == 200.0
    part = operator.partitions[1]
    assert (part.partition, part.shards, part.max_lanes) == (1, 8, 6)
    assert part.lane_of_shard.dtype == np.int64
    assert part.shard_load.dtype == np.float64
    assert part.pause_us.p99 == 2000.0
    assert (part.bytes_in, part.bytes_out, part.bytes_in_per_s) == (48000, 16000, 4800.0)
    assert (part.state_rows, part.state_memory_bytes, part.state_file_bytes) == (
        300,
        70_000,
        20_000,
    )
    assert part.hot_keys == (HotKey("0badcafe", None, 0.625),)
    assert (part.latency_ms.mean, part.latency_ms.p99, part.latency_ms.count) == (4.5, 9.0, 450)
    assert running.batch is not None and running.batch.duration_s == 5.25
    assert [s.backlog_rows for s in running.batch.sources] == [40, None]
    assert running.batch.state == (StoresSnapshot("stateStoreSave", 2, 2, 0.125, 4096),)


def test_live_metrics_are_what_a_snapshot_measures() -> None:
    """The shared vocabulary has every measured field, and no other."""
    text = Path(__file__).with_name("no_metrics.json").read_text("utf-8")
    data, named = FakeGateway().data, {of: set(names) for of, names in json.loads(text).items()}
    (executor,) = data["executors"]
    measured = set(partition(0)) - named["Partition"]
    measured |= set(data["queries"][0]["batch"]["sources"][0]) - named["Source"]
    measured |= set(data["queries"][0]["rescale"]) - named["RescaleReply"]
    measured |= set(executor) - named["Executor"]
    assert measured == {m.name for m in METRICS.values() if m.live}
    fields = {f.name for f in dataclasses.fields(PartitionSnapshot)} | {"rows", "rows_per_s"}
    fields |= {f.name for f in dataclasses.fields(ExecutorSnapshot)}
    fields |= {f.name for f in dataclasses.fields(RescaleProgress)}
    assert measured <= fields | {"backlog_rows"}


def test_an_executor_says_what_uses_its_cores() -> None:
    (executor,) = FakeGateway().snapshot().executors
    assert (executor.cores, executor.active_tasks, executor.home_lanes) == (8, 3, 2)
    assert (executor.host_lanes, executor.idle_cores, executor.leaving) == (0, 3, False)
    assert (executor.remote_rows, executor.remote_bytes_sent) == (700, 70_000)


def test_lanes_at_home_are_those_that_are_not_elsewhere() -> None:
    there = {"executor": "2", "open": True, "kept_bytes": 0, "rows_sent": 0, "frames": 0}
    there |= {"state_reads": 0, "bytes_sent": 0, "bytes_received": 0}
    lanes = [there | {"lane": 1}, there | {"lane": 5}, there | {"lane": -1, "open": False}]
    wanted = {"2": 3}
    part = partition(0) | {"elsewhere": lanes, "wanted_elsewhere": wanted}
    found = snapshot_with(part).queries[0].operators[0].partitions[0]
    assert (found.lanes, found.home_lanes) == (2, 1)  # lane 5 has shards to give away
    assert found.wanted_elsewhere == {"2": 3}


def test_lane_load_sums_the_shards_of_each_lane() -> None:
    part = FakeGateway().snapshot().queries[0].operators[0].partitions[0]
    np.testing.assert_array_equal(part.lane_load, [0 + 2 + 4 + 6, 1 + 3 + 5 + 7])
    assert part.imbalance == pytest.approx(16 / 14)


def test_idle_partitions_are_even() -> None:
    idle = partition(0) | {"shard_load": [0.0] * 8}
    assert snapshot_with(idle).queries[0].operators[0].partitions[0].imbalance == 1.0


def test_nothing_in_a_snapshot_can_be_changed() -> None:
    snapshot = FakeGateway().snapshot()
    part = snapshot.queries[0].operators[0].partitions[0]
    with pytest.raises(dataclasses.FrozenInstanceError):
        part.lanes = 3  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        part.shard_load[0] = 1.0
