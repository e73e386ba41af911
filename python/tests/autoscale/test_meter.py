"""Two pictures become rates, budgets and a policy's snapshot."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from laneshift.autoscale.cores import held, within_budget
from laneshift.autoscale.measure import Meter
from laneshift.autoscale.pictures import Lanes
from laneshift.autoscale.rates import UNKNOWN_RATE
from laneshift.autoscale.sources import SHARE_MS
from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.ids import PartitionId
from plugin.fake import FakeGateway, executor, partition, set_lanes, snapshot_of

P0, P1 = PartitionId("running:0.0"), PartitionId("running:0.1")


def later(
    data: dict[str, Any], seconds: float, rows: int, busy: float, **others: float
) -> dict[str, Any]:
    """``data`` after some time in which each partition took ``rows`` and worked ``busy`` s."""
    out = copy.deepcopy(data)
    out["time_ms"] += int(1000 * seconds)
    for query in out["queries"]:
        for operator in query["operators"]:
            for part in operator["partitions"]:
                part["rows_in"] += rows
                part["rows_taken"] += rows
                part["rows_out"] += rows // 2
                part["bytes_in"] += 48 * rows
                part["bytes_out"] += 16 * rows
                part["busy_s"] += busy
                for name, value in others.items():
                    part[name] = part[name] + value
    return out


def measured(meter: Meter, data: dict[str, Any]) -> ClusterLoad:
    (island,) = meter.measure(snapshot_of(data))
    assert island.cluster is not None
    return island.cluster


@pytest.fixture
def first() -> dict[str, Any]:
    return FakeGateway().data


def test_the_first_picture_has_no_rates(first: dict[str, Any]) -> None:
    (island,) = Meter().measure(snapshot_of(first))
    assert island.cluster is None
    assert island.lanes == {P0: 2, P1: 2}


def test_rates_are_counts_over_the_window(first: dict[str, Any]) -> None:
    meter = Meter()
    meter.measure(snapshot_of(first))
    part = measured(meter, later(first, 2.0, 3000, 1.5)).partition(P0)
    assert P0.startswith(part.query + ":")
    assert part.offered_rate == 1500
    assert part.service_rate_per_core == 2000  # 3000 rows in 1.5 busy seconds
    assert part.offered_load == 0.75
    assert part.selectivity == 0.5
    assert part.state_bytes == 70_000 + 20_000
    assert (part.input_bytes_per_s, part.output_bytes_per_s) == (72_000, 24_000)
    assert part.latency_p99_s == 0.009
    assert part.cores == 2
    assert part.max_cores == 6
    assert part.queue_rows == 3
    assert part.queue_capacity_rows == 2 * (1 << 20) / 100  # rows of 100 bytes are in its queues
    assert part.shards is not None
    assert part.shards.load_cores[4] == 4 / 2000
    assert not part.saturated


def test_an_idle_window_keeps_the_service_rate(first: dict[str, Any]) -> None:
    meter = Meter()
    meter.measure(snapshot_of(first))
    second = later(first, 1.0, 1000, 0.5)
    meter.measure(snapshot_of(second))
    part = measured(meter, later(second, 1.0, 0, 0.0)).partition(P1)
    assert part.offered_rate == 0
    assert part.service_rate_per_core == pytest.approx(2000)


def test_a_block_taken_ahead_is_no_faster_core(first: dict[str, Any]) -> None:
    meter = Meter()
    meter.measure(snapshot_of(first))
    data = first
    for _ in range(10):
        data = later(data, 0.5, 100, 0.2)
        assert measured(meter, data).partition(P0).service_rate_per_core == pytest.approx(500)
    taken = later(data, 0.5, 600, 0.5)  # a block of 500 rows is in the lane's hands
    assert 500 < measured(meter, taken).partition(P0).service_rate_per_core < 750
    worked = later(taken, 0.5, 0, 0.5)
    assert 480 < measured(meter, worked).partition(P0).service_rate_per_core < 550


def test_a_core_that_takes_seconds_for_few_rows_has_a_rate(first: dict[str, Any]) -> None:
    meter = Meter()
    meter.measure(snapshot_of(first))
    data = later(first, 0.5, 1, 0.5)
    assert measured(meter, data).partition(P0).service_rate_per_core == UNKNOWN_RATE
    for _ in range(4):
        data = later(data, 0.5, 1, 0.5)
        found = measured(meter, data).partition(P0).service_rate_per_core
    assert found == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("mode", "lanes", "blocked", "busy", "saturated"),
    [
        ("real-time", 2, 0.04, 1.0, False),
        ("real-time", 2, 0.2, 1.0, True),
        ("real-time", 2, 0.0, 1.99, False),  # what arrives is counted before the queues
        ("real-time", 1, 0.0, 0.97, True),
        ("real-time", 1, 0.0, 0.93, False),
        ("micro-batch", 2, 0.2, 1.0, False),
        ("micro-batch", 2, 0.0, 1.5, True),
    ],
)
def test_saturation(
    first: dict[str, Any], mode: str, lanes: int, blocked: float, busy: float, saturated: bool
) -> None:
    first["queries"][0]["mode"] = mode
    first["queries"][0]["operators"][0]["partitions"] = [partition(0, lanes=lanes)]
    meter = Meter()
    meter.measure(snapshot_of(first))
    cluster = measured(meter, later(first, 1.0, 1000, busy, blocked_s=blocked))
    assert cluster.partition(P0).saturated is saturated


def test_a_partition_that_counts_again_from_nothing_waits_a_turn(first: dict[str, Any]) -> None:
    meter = Meter()
    meter.measure(snapshot_of(first))
    second = later(first, 1.0, 100, 0.1)
    second["queries"][0]["operators"][0]["partitions"][0].update(rows_taken=10, rows_in=10)
    assert [p.partition for p in measured(meter, second).partitions] == [P1]


def test_the_budget_is_what_other_tasks_leave(first: dict[str, Any]) -> None:
    def budget(cores: int, tasks: int, cap: int | None = None) -> int:
        first["executors"][0].update(cores=cores, active_tasks=tasks)
        (island,) = Meter(cores=cap).measure(snapshot_of(first))
        return island.budget

    assert budget(8, 2) == 8  # the partitions' own two tasks are there for their first lanes
    assert budget(8, 5) == 5
    assert budget(8, 5, cap=4) == 4
    assert budget(2, 8) == 2  # never less than a lane each


def test_cores_that_were_taken_a_moment_ago_are_not_free(first: dict[str, Any]) -> None:
    meter = Meter()

    def budget(tasks: int, seconds: float) -> int:
        first["executors"][0].update(cores=8, active_tasks=tasks)
        first["time_ms"] += round(1000 * seconds)
        (island,) = meter.measure(snapshot_of(first))
        return island.budget

    assert budget(4, 0) == 6
    assert budget(2, 1) == 6  # a batch ends: its source's tasks are gone, and come again
    assert budget(5, 1) == 5
    assert budget(2, 9) == 5
    assert budget(2, 2) == 8


def test_executors_are_apart(first: dict[str, Any]) -> None:
    first["executors"].append(executor("7", cores=4, active_tasks=1))
    first["queries"][0]["operators"][0]["partitions"][1]["executor"] = "7"
    meter = Meter()
    meter.measure(snapshot_of(first))
    one, two = meter.measure(snapshot_of(later(first, 1.0, 100, 0.1)))
    assert (one.executor, list(one.partitions)) == ("driver", [P0])
    assert (two.executor, list(two.partitions)) == ("7", [P1])
    assert two.cluster is not None
    assert [n.cores for n in two.cluster.nodes] == [4]


def test_edges_follow_the_operators(first: dict[str, Any]) -> None:
    operators = first["queries"][0]["operators"]
    operators.append(
        {**operators[0], "operator_id": 1, "upstream": [0], "partitions": [partition(0)]}
    )
    operators[0]["partitions"] = [partition(0), partition(1)]
    meter = Meter()
    meter.measure(snapshot_of(first))
    cluster = measured(meter, later(first, 1.0, 100, 0.1))
    assert [(e.upstream, e.downstream, e.ratio) for e in cluster.edges] == [
        ("running:0", "running:1", 1.0)
    ]
    assert [p.partition for p in cluster.partitions] == [P0, P1, "running:1.0"]
    assert cluster.feeds.pairs(2) == [(0, 1.0), (1, 1.0)]


def test_only_one_query(first: dict[str, Any]) -> None:
    assert Meter(query="another").measure(snapshot_of(first)) == ()


def test_within_budget_takes_from_who_has_most() -> None:
    assert within_budget({P0: 5, P1: 2}, 5) == {P0: 3, P1: 2}
    assert within_budget({P0: 3, P1: 3}, 5) == {P0: 3, P1: 2}
    assert within_budget({P0: 3, P1: 1}, 9) == {P0: 3, P1: 1}


def test_held_is_the_picture_with_other_lanes(first: dict[str, Any]) -> None:
    meter = Meter()
    meter.measure(snapshot_of(first))
    cluster = measured(meter, later(first, 1.0, 100, 0.1))
    after = held(cluster, {P0: ("driver", Lanes(2)), P1: ("driver", Lanes(1))}, {"driver": 3})
    assert [p.cores for p in after.partitions] == [2, 1]
    assert after.total_cores == 3
    assert after.partition(P0).shards is not None
    assert after.partition(P1).shards is None


def shares(meter: Meter, data: dict[str, Any]) -> dict[PartitionId, float]:
    (island,) = meter.measure(snapshot_of(data))
    return dict(island.shares)


def given(data: dict[str, Any], rows: int, batch_id: int | None = None) -> dict[str, Any]:
    data["queries"][0]["given"] = {"rows": rows, "batch_id": batch_id}
    return data


def test_a_share_follows_keys_that_become_hot_and_cool_again(first: dict[str, Any]) -> None:
    """For a week a tenth of the rows comes to partition 0; then it has half of them."""
    week, rows = 7 * 86_400, 1000
    for part in first["queries"][0]["operators"][0]["partitions"]:
        part["rows_in"] = part["rows_taken"] = week * rows // 10
    data = given(first, week * rows)
    meter = Meter()
    assert shares(meter, data)[P0] == pytest.approx(0.1)
    found = []
    for _ in range(3 * SHARE_MS // 1000):
        data = given(later(data, 1.0, rows // 2, 0.1), data["queries"][0]["given"]["rows"] + rows)
        found.append(shares(meter, data)[P0])
    assert found[2 * SHARE_MS // 1000 :] == pytest.approx([0.5] * (SHARE_MS // 1000))
    for _ in range(200):  # a limit holds the source back, and few rows come
        data = given(later(data, 1.0, 1, 0.1), data["queries"][0]["given"]["rows"] + 2)
        assert shares(meter, data)[P0] == pytest.approx(0.5)


def test_the_first_shares_are_of_all_rows_since_the_query_started(first: dict[str, Any]) -> None:
    for part in first["queries"][0]["operators"][0]["partitions"]:
        part["rows_in"] = part["rows_taken"] = 0
    meter = Meter()
    assert shares(meter, given(first, 0)) == {}
    second = given(later(first, 1.0, 90, 0.1), 300)
    assert shares(meter, second) == {}  # too few
    third = given(later(second, 1.0, 30, 0.1), 400)
    assert shares(meter, third) == {P0: 0.3, P1: 0.3}
    assert shares(Meter(), third) == {P0: 0.3, P1: 0.3}
    moved = given(later(third, 1.0, 1000, 0.1), 2000)
    for name in ("rows_in", "rows_taken"):
        moved["queries"][0]["operators"][0]["partitions"][1][name] = 0  # on another executor
    assert shares(meter, moved) == {P0: 1120 / 2000, P1: 0.3}
    after = given(later(moved, 1.0, 500, 0.1), 3000)
    assert shares(meter, after) == {P0: 1620 / 3000, P1: 0.5}


def test_in_micro_batch_only_whole_batches_are_compared(first: dict[str, Any]) -> None:
    def at(data: dict[str, Any], batch: int) -> dict[str, Any]:
        for part in data["queries"][0]["operators"][0]["partitions"]:
            part["batch_id"] = batch
        return data

    meter = Meter()
    assert shares(meter, at(given(first, 2000, 7), 7)) == {P0: 0.5, P1: 0.5}
    running = at(given(later(first, 1.0, 400, 0.1), 2000, 7), 8)
    # The source's rows of batch 8 are not known yet.
    assert shares(meter, running) == {P0: 0.5, P1: 0.5}
    ended = given(later(running, 1.0, 100, 0.1), 6000, 8)
    assert shares(meter, ended) == {P0: 0.25, P1: 0.25}


def test_lanes_that_others_drive_have_their_cores(first: dict[str, Any]) -> None:
    """Two autoscalers, one for each query: together they have no more lanes than cores."""
    (query,) = first["queries"]
    other = copy.deepcopy(query) | {"id": "other", "run_id": "other run", "name": "other"}
    for part in other["operators"][0]["partitions"]:
        set_lanes(part, 3)
    first["queries"].append(other)
    first["executors"][0] |= {"cores": 16, "active_tasks": 5}
    meter = Meter(query["run_id"])
    meter.measure(snapshot_of(first))
    cluster = measured(meter, later(first, 1.0, 1000, 1.0))
    # One other task, and two partitions with three lanes each.
    assert [node.cores for node in cluster.nodes] == [16 - 1 - 2 * 3]
