"""Micro-batches in the live loop: measured once per batch, held between them, taken over once."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from autoscale.scripted import Scripted, lanes
from laneshift.autoscale.decisions import Decision
from laneshift.autoscale.loop import AutoscaleLoop
from laneshift.autoscale.measure import Meter
from laneshift.autoscale.options import AutoscaleOptions
from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.ids import PartitionId
from laneshift.contract.partition_load import PartitionLoad
from laneshift.contract.plan import CoreChange, Plan
from laneshift.contract.trace import read_trace
from laneshift.errors import error
from laneshift.policies.registry import PLANNERS, names
from laneshift.policies.registry import policy as named
from plugin.fake import RUNNING, FakeGateway, partition, set_lanes

P0, P1 = PartitionId("running:0.0"), PartitionId("running:0.1")


class Batches(FakeGateway):
    """A query whose batches end when a test says so; a look takes a second.

    20,000 rows/s in batches of 5 s, half a minute of work in all on 4 lanes.
    """

    def __init__(
        self, partitions: int = 2, cores: int = 16, trigger: str = "interval", lanes: int = 2
    ) -> None:
        super().__init__()
        self.rate, self.cost_s, self.shares = 20_000.0, 1e-4, [1.0 / partitions] * partitions
        self.data["executors"][0].update(cores=cores, active_tasks=0)
        self.query = self.data["queries"][0]
        interval_s = 5.0 if trigger == "interval" else None
        self.query.update(
            mode="micro-batch", trigger={"kind": trigger, "interval_s": interval_s}, batch=None
        )
        self.parts = [partition(n, lanes=min(2, lanes)) for n in range(partitions)]
        for part in self.parts:
            set_lanes(part, lanes)
            part.update(running=False, batch_id=0, last_batch=None, auto=False, hot_keys=[])
        self.query["operators"][0]["partitions"] = self.parts
        self.number = 6

    def on_snapshot(self) -> dict[str, Any]:
        self.data["time_ms"] += 1000
        return super().on_snapshot()

    def batch(self, *, every_s: float = 5.0, fixed_s: float = 0.3) -> None:
        """One more batch ends: what came in ``every_s``."""
        self.number += 1
        rows = self.rate * every_s
        longest = 0.0
        for part, share in zip(self.parts, self.shares, strict=True):
            busy = rows * share * self.cost_s
            took = busy / part["lanes"]
            longest = max(longest, took)
            part["rows_in"] += round(rows * share)
            part["rows_out"] += round(rows * share)
            part["batch_id"] = self.number
            part["last_batch"] = {
                "batch_id": self.number,
                "lanes": part["lanes"],
                "rows": round(rows * share),
                "busy_s": busy,
                "took_s": took,
            }
        self.query["batch"] = {
            "batch_id": self.number,
            "duration_s": longest + fixed_s,
            "sources": [
                {"name": "x", "rows": round(rows), "rows_per_s": self.rate, "backlog_rows": None}
            ],
        }

    def on_set_lanes(self, query: str, operator: int, partition: Any, lanes: int) -> Any:
        set_lanes(self.parts[partition], lanes)
        self.parts[partition]["auto"] = False
        return super().on_set_lanes(query, operator, partition, lanes)


def batches(gateway: Any, autoscaler: AutoscaleLoop, count: int) -> list[Decision]:
    """So many batches of the gateway's query, with a look before and behind each."""
    said = []
    for _ in range(count):
        said += autoscaler.turn()
        gateway.batch()
        said += autoscaler.turn()
    return [decision for decision in said if not decision.is_empty]


def looks(meter: Meter, gateway: Batches, count: int = 1) -> list[ClusterLoad | None]:
    found = []
    for _ in range(count):
        (island,) = meter.measure(gateway.snapshot())
        found.append(island.cluster if island.is_new else None)
    return found


def measured(gateway: Batches, batches: int = 3) -> PartitionLoad:
    meter = Meter()
    looks(meter, gateway)
    for _ in range(batches):
        gateway.batch()
        (last,) = looks(meter, gateway)
    assert last is not None
    return last.partition(P0)


def test_a_batchs_load_is_its_rows_over_the_interval() -> None:
    part = measured(Batches())
    assert part.offered_rate == pytest.approx(10_000)
    assert part.service_rate_per_core == pytest.approx(10_000)
    assert part.batch is not None and part.batch.paced
    assert (part.batch.period_s, part.batch.batch_id) == (5.0, 9)
    assert part.batch.rows == pytest.approx(50_000)
    assert part.batch.work_s == pytest.approx(5.0)
    assert part.batch.fixed_s == pytest.approx(0.3)
    assert part.batch.took_s == pytest.approx(2.8)
    assert not part.saturated


@pytest.mark.parametrize("trigger", ["back-to-back", "available-now"])
def test_without_an_interval_a_batchs_time_is_its_period(trigger: str) -> None:
    gateway = Batches(trigger=trigger)
    gateway.rate = 20_000.0
    part = measured(gateway)
    assert part.batch is not None and not part.batch.paced
    assert part.batch.fixed_s == 0.0
    assert part.batch.period_s == pytest.approx(2.8)
    if trigger == "available-now":
        assert part.offered_rate == pytest.approx(50_000 / 2.8)
    else:  # what the source says, which had other batches meanwhile
        assert part.offered_rate == pytest.approx(10_000)


def test_nothing_is_new_between_two_batches() -> None:
    gateway, meter = Batches(), Meter()
    assert looks(meter, gateway, 2) == [None, None]  # no batch has ended yet
    gateway.batch()
    assert [found is not None for found in looks(meter, gateway, 4)] == [True, False, False, False]
    gateway.batch()
    assert looks(meter, gateway)[0] is not None


def with_a_batch() -> tuple[Batches, Meter]:
    """One batch has ended and was looked at."""
    gateway, meter = Batches(), Meter()
    looks(meter, gateway)
    gateway.batch()
    looks(meter, gateway)
    return gateway, meter


def test_a_batch_counts_with_the_news_of_all_partitions() -> None:
    gateway, meter = with_a_batch()
    before = gateway.parts[1]["last_batch"]
    gateway.batch()
    late, gateway.parts[1]["last_batch"] = gateway.parts[1]["last_batch"], before
    assert looks(meter, gateway) == [None]
    gateway.parts[1]["last_batch"] = late
    (found,) = looks(meter, gateway)
    assert found is not None
    assert {p.batch.batch_id for p in found.partitions if p.batch} == {8}


def test_an_operator_that_batches_leave_out_is_not_waited_for() -> None:
    gateway, meter = with_a_batch()
    apart = copy.deepcopy(gateway.query["operators"][0])
    apart["operator_id"] = 1000
    gateway.query["operators"].append(apart)
    gateway.batch()
    looks(meter, gateway, 2)
    gateway.batch()
    (found,) = looks(meter, gateway)
    assert found is not None
    assert {p.batch.batch_id for p in found.partitions if p.batch} == {9}


def test_who_is_silent_holds_no_batch_back_for_ever() -> None:
    gateway, meter = with_a_batch()
    silent = gateway.parts[1]["last_batch"]
    counted = 0
    for _ in range(6):
        gateway.batch()
        gateway.parts[1]["last_batch"] = silent
        counted += looks(meter, gateway) != [None]
    assert counted == 3


def test_a_policy_is_asked_once_per_batch(tmp_path: Path) -> None:
    asked: list[float] = []

    def say(cluster: ClusterLoad, _: int) -> Plan:
        asked.append(cluster.window_s)
        return Plan()

    gateway = Batches()
    gateway.batch()
    made = AutoscaleLoop(gateway, Scripted(say=say), AutoscaleOptions(trace=tmp_path / "trace"))
    for _ in range(4):
        for _ in range(5):
            made.turn()
        gateway.batch()
    made.stop()
    assert asked == [1.0, 4.0, 5.0, 5.0]
    recorded = list(read_trace(tmp_path / "trace"))
    batches = [cluster.partition(P0).batch for cluster in recorded]
    assert [batch.batch_id for batch in batches if batch] == [7, 8, 9, 10]


@pytest.mark.parametrize("name", ["laneshift", "elasticutor", "craa", "oera", "kalman", "median"])
def test_a_steady_query_keeps_its_lanes(name: str) -> None:
    """The measured case: 31 changes in 75 s, or 4 lanes that became 8."""
    gateway = Batches()
    made = AutoscaleLoop(gateway, named(name))
    for second in range(75):
        if second % 5 == 3:
            gateway.batch()
        made.turn()
    assert [command for command in gateway.sent if command[0] == "set_lanes"] == []


def test_more_rows_get_more_lanes_with_the_first_batch_that_has_them() -> None:
    gateway = Batches()
    made = AutoscaleLoop(gateway, named("elasticutor"))
    for _ in range(5):
        gateway.batch()
        made.turn()
    gateway.rate *= 3
    gateway.batch()
    (decision,) = made.turn()
    assert [(c.before, c.after) for c in decision.changes] == [(2, 5), (2, 5)]
    assert "150,000 rows every 5 s are 15 s of work, and the batch took 7.8 s" in str(
        decision.changes[0]
    )


def test_the_pages_example_is_what_a_decision_says() -> None:
    page = (Path(__file__).parents[3] / "docs/autoscaling.md").read_text("utf-8")
    gateway = Batches()
    gateway.query["name"], gateway.rate = "orders", 40_000.0
    made = AutoscaleLoop(gateway, named("laneshift"))
    gateway.batch()
    made.turn()
    gateway.batch()
    (decision,) = made.turn()
    assert [c.after for c in decision.changes] == [4, 4]
    assert f"\n{decision.changes[1]}\n" in page


def test_a_query_without_batches_has_nothing_to_do() -> None:
    gateway, meter = Batches(), Meter()
    gateway.batch()
    looks(meter, gateway, 2)
    assert looks(meter, gateway, 13) == [None] * 13
    found = looks(meter, gateway, 10)
    new = [cluster for cluster in found if cluster is not None]
    assert len(new) == 1
    assert new[0].partition(P0).offered_rate == 0.0
    gateway.batch()
    (again,) = looks(meter, gateway)
    assert again is not None and again.partition(P0).offered_rate == pytest.approx(10_000)


def test_the_first_batch_may_have_had_a_backlog() -> None:
    gateway, meter = Batches(), Meter()
    looks(meter, gateway)
    gateway.rate *= 10
    gateway.batch()
    gateway.query["batch"]["sources"][0]["rows_per_s"] = 0.0  # as Spark says of a run's first
    assert looks(meter, gateway) == [None]
    gateway.rate /= 10
    gateway.batch()
    (cluster,) = looks(meter, gateway)
    assert cluster is not None and cluster.partition(P0).offered_rate == pytest.approx(10_000)


@pytest.mark.parametrize("name", [name for name in names() if name not in PLANNERS])
def test_no_lane_goes_on_the_word_of_a_batch_that_began_amid_its_interval(name: str) -> None:
    gateway = Batches(lanes=4)
    made = AutoscaleLoop(gateway, named(name))
    made.turn()
    gateway.rate = 1_000.0  # rows began to come at the end of the interval
    gateway.batch()
    made.turn()
    assert all(part["lanes"] >= 4 for part in gateway.parts)
    gateway.rate = 20_000.0
    gateway.batch()
    made.turn()
    assert all(part["lanes"] >= 2 for part in gateway.parts)


def test_what_a_batch_that_began_amid_its_interval_asks_for_comes_at_once() -> None:
    gateway = Batches(lanes=1)
    made = AutoscaleLoop(gateway, named("elasticutor"))
    made.turn()
    gateway.rate = 60_000.0
    gateway.batch()
    made.turn()
    assert all(part["lanes"] > 1 for part in gateway.parts)


def test_a_few_rows_are_few_once_two_batches_have_had_them() -> None:
    gateway = Batches(lanes=4)
    made = AutoscaleLoop(gateway, named("threshold"))
    made.turn()
    gateway.rate = 1_000.0
    gateway.batch()
    (first,) = made.turn()
    assert not first.changes and "may be a part of what comes" in first.notes[0]
    gateway.batch()
    (second,) = made.turn()
    assert len(second.changes) == 2 and not second.notes


def test_the_first_batch_after_an_idle_time_takes_no_lane_either() -> None:
    gateway, meter = Batches(), Meter()
    for _ in range(3):
        gateway.batch()
        looks(meter, gateway)
    looks(meter, gateway, 20)  # three intervals without a batch
    gateway.rate = 4_000.0
    gateway.batch()
    (first,) = looks(meter, gateway)
    gateway.rate = 20_000.0
    gateway.batch()
    (second,) = looks(meter, gateway)
    assert first is not None and second is not None
    assert [c.partition(P0).batch.at_least for c in (first, second)] == [True, False]  # type: ignore[union-attr]
    assert second.partition(P0).offered_rate == pytest.approx(10_000)


def test_rows_after_an_idle_time_have_not_come_in_the_time_since_spark_last_looked() -> None:
    gateway, meter = Batches(trigger="back-to-back"), Meter()
    looks(meter, gateway)
    gateway.batch()
    batch = gateway.query["batch"]
    source = batch["sources"][0]
    source["rows_per_s"] = source["rows"] / 0.01
    (cluster,) = looks(meter, gateway)
    assert cluster is not None
    rates = [part.offered_rate for part in cluster.partitions]
    assert sum(rates) == pytest.approx(source["rows"] / batch["duration_s"], rel=0.01)


def test_rows_of_a_batch_back_to_back_came_while_the_one_before_ran() -> None:
    """Each is longer than the one before: over its own time its rows would be too few to tell."""
    gateway, meter = Batches(trigger="back-to-back", lanes=1), Meter()
    gateway.cost_s = 1.2e-4
    looks(meter, gateway)
    took_s = 2.0
    for _ in range(3):
        gateway.batch(every_s=took_s)
        took_s = gateway.query["batch"]["duration_s"]
        (last,) = looks(meter, gateway)
    assert took_s > 4.0 and last is not None
    part = last.partition(P0)
    assert part.offered_rate == pytest.approx(10_000, rel=0.01)
    assert part.offered_load == pytest.approx(1.2, rel=0.01)


def test_a_batch_without_rows_says_nothing() -> None:
    gateway, meter = Batches(trigger="back-to-back"), Meter()
    looks(meter, gateway)
    shown = []
    for n in range(12):
        rate, gateway.rate = gateway.rate, gateway.rate if n % 2 else 0.0
        gateway.batch()
        gateway.rate = rate
        shown += [c.partition(P0).offered_rate for c in looks(meter, gateway) if c is not None]
    assert shown == pytest.approx([10_000] * 6)


def test_chance_is_no_change_and_a_change_is() -> None:
    gateway, meter = Batches(), Meter()
    looks(meter, gateway)
    shown = []
    for factor in (1.0, 1.04, 0.97, 1.02, 0.99, 1.05, 0.96):
        gateway.rate = 20_000 * factor
        gateway.batch()
        (cluster,) = looks(meter, gateway)
        assert cluster is not None
        shown.append(cluster.partition(P0).offered_rate)
    assert set(shown) == {10_000.0}
    gateway.rate = 30_000
    gateway.batch()
    (cluster,) = looks(meter, gateway)
    assert cluster is not None and cluster.partition(P0).offered_rate == 15_000


def test_an_older_plugin_is_measured_as_before() -> None:
    gateway = Batches()
    del gateway.query["trigger"]
    for part in gateway.parts:
        del part["last_batch"], part["auto"]
    meter = Meter()
    looks(meter, gateway)
    (cluster,) = looks(meter, gateway)
    assert cluster is not None and cluster.partition(P0).batch is None


class TestBudget:
    """What runs counts, not what is there."""

    @pytest.mark.parametrize("partitions", [50, 200])
    def test_a_hot_one_of_many_gets_cores(self, partitions: int) -> None:
        gateway = Batches(partitions, cores=4, lanes=1)
        gateway.shares = [0.5] + [0.5 / (partitions - 1)] * (partitions - 1)
        gateway.cost_s = 1.2e-4
        made = AutoscaleLoop(gateway, named("laneshift"))
        for _ in range(4):
            gateway.batch()
            made.turn()
        assert 2 <= gateway.parts[0]["lanes"] <= 4
        assert {part["lanes"] for part in gateway.parts[1:]} == {1}

    def test_never_more_lanes_than_cores_for_one(self) -> None:
        gateway = Batches(50, cores=4, lanes=1)
        gateway.batch()

        def say(cluster: ClusterLoad, _: int) -> Plan:
            assert cluster.partition(P0).max_cores == 4
            assert cluster.total_cores == 53
            return Plan(core_changes=(CoreChange(P0, 1, 9), CoreChange(P1, 1, 9)))

        made = AutoscaleLoop(gateway, Scripted(say=say))
        made.turn()
        made.turn()
        assert sum(part["lanes"] for part in gateway.parts) <= 53

    def test_even_partitions_that_all_run_share_the_cores(self) -> None:
        gateway, meter = Batches(2, cores=8), Meter()
        gateway.batch()
        looks(meter, gateway)
        gateway.batch()
        (cluster,) = looks(meter, gateway)
        assert cluster is not None and cluster.total_cores == 8

    def test_in_real_time_mode_all_run_at_once(self) -> None:
        gateway = Batches(50, cores=4, lanes=1)
        gateway.query["mode"] = "real-time"
        (island,) = Meter().measure(gateway.snapshot())
        assert island.budget == 50


class TestTakingOver:
    """Lanes that were the plugin's own."""

    @pytest.mark.parametrize("name", ["static", "laneshift"])
    def test_once_in_the_first_turn(self, name: str) -> None:
        gateway = Batches()
        for part in gateway.parts:
            part["auto"] = True
        made = AutoscaleLoop(gateway, named(name))
        for _ in range(3):
            made.turn()
        assert gateway.sent == [("set_lanes", RUNNING, 0, n, 2) for n in (0, 1)]

    def test_even_if_the_plugin_tells_late_that_they_are(self) -> None:
        gateway = Batches()
        gateway.parts[0]["auto"] = True
        kept: list[Any] = []
        gateway.on_set_lanes = lambda *what: (
            kept.append(what)
            or {  # type: ignore[func-returns-value, method-assign]
                "lanes": 2,
                "applied": "next-batch",
            }
        )
        made = AutoscaleLoop(gateway, named("static"))
        for _ in range(3):
            made.turn()
        assert kept == [(RUNNING, 0, 0, 2)]

    def test_with_the_count_that_the_policy_wants(self) -> None:
        gateway = Batches()
        made = AutoscaleLoop(gateway, Scripted(say=lanes(p0=4)))
        gateway.batch()
        made.turn()
        for part in gateway.parts:
            part["auto"] = True
        gateway.sent.clear()
        gateway.batch()
        set_lanes(gateway.parts[0], 2)
        made.turn()
        assert gateway.sent == [("set_lanes", RUNNING, 0, 0, 4), ("set_lanes", RUNNING, 0, 1, 2)]

    @pytest.mark.parametrize("how", ["dry run", "paused"])
    def test_not_where_nothing_is_sent(self, how: str) -> None:
        gateway = Batches()
        gateway.parts[0]["auto"] = True
        made = AutoscaleLoop(gateway, named("static"), AutoscaleOptions(dry_run=how == "dry run"))
        if how == "paused":
            made.pause()
        for _ in range(3):
            made.turn()
        assert gateway.sent == []

    def test_a_refusal_is_noted_and_tried_again(self) -> None:
        gateway = Batches()
        gateway.parts[0]["auto"] = True
        sent = gateway.on_set_lanes

        def refuse(*_: Any) -> Any:
            gateway.on_set_lanes = sent  # type: ignore[method-assign]
            raise error("LANESHIFT_PARTITION_MOVED", partition=0)

        gateway.on_set_lanes = refuse  # type: ignore[method-assign]
        made = AutoscaleLoop(gateway, named("static"))
        (decision,) = made.turn()
        assert "running:0.0 is still the plugin's" in decision.notes[0]
        made.turn()
        assert gateway.sent == [("set_lanes", RUNNING, 0, 0, 2)]


class TestTargets:
    """What a target says of a batch."""

    def test_a_time_per_batch_that_planning_alone_exceeds(self) -> None:
        gateway = Batches()
        made = AutoscaleLoop(gateway, named("elasticutor", target_batch_s=0.2))
        gateway.batch()
        made.turn()
        gateway.batch()
        (decision,) = made.turn()
        assert "to take 0.2 s at most, and 0.3 s of each is planning" in decision.notes[0]
        assert decision.changes == ()  # lanes would not help

    def test_a_time_per_batch_shorter_than_a_row(self) -> None:
        gateway = Batches()
        gateway.rate, gateway.cost_s = 4.0, 0.5
        made = AutoscaleLoop(gateway, named("laneshift", target_batch_s=0.4))
        gateway.batch()
        made.turn()
        gateway.batch()
        (decision,) = made.turn()
        assert "a single row takes 0.5 s" in decision.notes[0]

    def test_a_time_per_batch_that_lanes_reach(self) -> None:
        gateway = Batches()
        made = AutoscaleLoop(gateway, named("elasticutor", target_batch_s=1.5))
        for _ in range(3):
            gateway.batch()
            made.turn()
        assert gateway.query["batch"]["duration_s"] < 1.5
