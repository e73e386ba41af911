"""Rescales in the live loop: measured batch by batch, sent once, waited for, refused in peace."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from autoscale.test_batches import Batches, batches
from laneshift.autoscale.decisions import Decision
from laneshift.autoscale.loop import AutoscaleLoop
from laneshift.autoscale.measure import Meter
from laneshift.autoscale.options import AutoscaleOptions
from laneshift.autoscale.queries import AGAIN_S
from laneshift.contract.store_load import StoreLoad
from laneshift.contract.trace import read_entries, read_trace
from laneshift.errors import error
from laneshift.policies.registry import policy as named
from laneshift.policies.rescaling import SETTLED
from laneshift_lab.replay import replay
from plugin.fake import RUNNING, executor, partition, rescaling, set_lanes

COMMIT_S = 0.1


class Stores(Batches):
    """Next to no rows, and a commit of 0.1 s in each of many state partitions, on two cores."""

    def __init__(self, partitions: int = 64, trigger: str = "back-to-back") -> None:
        super().__init__(partitions, cores=2, trigger=trigger, lanes=1)
        self.rate = 100.0
        self.refuses = ""
        self.query["rescale"] = None
        self.query["operators"][0].update(tasks=partitions, partition_count=partitions)

    def batch(self, *, every_s: float = 5.0, fixed_s: float = 0.3) -> None:
        super().batch(every_s=every_s, fixed_s=fixed_s)
        for part in self.parts:
            part["last_batch"]["took_s"] += COMMIT_S
        count = len(self.parts)
        self.query["batch"].update(
            duration_s=fixed_s + count / 2 * COMMIT_S,
            state=[
                {
                    "name": "stateStoreSave",
                    "partitions": count,
                    "stores": count,
                    "commit_s": count * COMMIT_S,
                    "written_bytes": 50_000,
                }
            ],
        )

    def on_rescale(self, query: str, partitions: int) -> dict[str, Any]:
        if self.refuses:
            raise error(
                "LANESHIFT_RESCALE_FAILED",
                query=query,
                partitions=partitions,
                before=len(self.parts),
                why=self.refuses,
            )
        self.query["rescale"] = rescaling(
            "waiting", **{"before": len(self.parts), "after": partitions, "stores_written": 0}
        )
        return super().on_rescale(query, partitions)

    def take_over(self, state: str = "done") -> None:
        asked = self.query["rescale"]
        self.query["rescale"] = rescaling(
            state, **{"before": asked["before"], "after": asked["after"], "pause_ms": 250.0}
        )
        if state != "done":
            return
        self.parts[:] = [partition(n, lanes=1) for n in range(asked["after"])]
        for part in self.parts:
            set_lanes(part, 1)
            part.update(running=False, batch_id=0, last_batch=None, auto=False)
        self.shares = [1.0 / len(self.parts)] * len(self.parts)
        self.query["operators"][0].update(tasks=len(self.parts), partition_count=len(self.parts))


def loop(gateway: Stores, **more: Any) -> AutoscaleLoop:
    parameters = {"rescale": True} | more.pop("parameters", {})
    return AutoscaleLoop(
        gateway, named(more.pop("policy", "laneshift"), **parameters), AutoscaleOptions(**more)
    )


def asked(gateway: Stores) -> list[tuple[Any, ...]]:
    return [each for each in gateway.sent if each[0] == "rescale"]


def stores(gateway: Stores, count: int, **more: Any) -> StoreLoad:
    meter = Meter(**more)
    for _ in range(count):
        gateway.batch()
        islands = meter.measure(gateway.snapshot())
    (load,) = [s for i in islands if i.cluster is not None for s in i.cluster.stores]
    return load


def test_stores_are_measured_from_batches() -> None:
    load = stores(Stores(), 4)
    assert (load.query, load.operators) == ("running", ("running:0",))
    assert (load.partitions, load.slots, load.batches) == (64, 2, 4)
    assert load.took_s == pytest.approx(3.5)
    assert load.period_s == pytest.approx(3.5)
    assert load.commit_s == pytest.approx(6.4)
    assert load.per_store_s == pytest.approx(COMMIT_S, rel=0.05)
    assert load.work_s == pytest.approx(0.05, rel=0.1)
    assert load.state_bytes == 64 * 90_000 and load.largest_bytes == 90_000
    assert not load.under_way and load.since_s is None
    assert load.cost.batch_s(64) == pytest.approx(load.took_s, rel=0.01)


def test_a_triggers_interval_is_the_period_and_fewer_tasks_are_the_slots() -> None:
    gateway = Stores(trigger="interval")
    gateway.query["operators"][0].update(tasks=1)
    load = stores(gateway, 3)
    assert load.period_s == 5.0
    assert load.slots == 1


def test_each_query_is_in_one_cluster_load_however_many_executors_have_it() -> None:
    gateway = Stores(8)
    gateway.data["executors"].append(executor("2", cores=2, active_tasks=0))
    for part in gateway.parts[4:]:
        part["executor"] = "2"
    load = stores(gateway, 3)
    assert load.slots == 4 and load.partitions == 8


def test_a_plugin_that_does_not_tell_of_stores_is_left_alone() -> None:
    gateway = Stores()
    autoscaler = loop(gateway)
    for _ in range(SETTLED + 2):
        gateway.batch()
        del gateway.query["batch"]["state"]
        assert autoscaler.turn() == () or not any(d.rescales for d in autoscaler.decisions())
    assert asked(gateway) == []


@pytest.mark.parametrize("policy", ["laneshift", "elasticutor", "naive-ec", "resource-centric"])
def test_a_rescale_is_asked_for_once_and_waited_for(policy: str) -> None:
    gateway = Stores()
    autoscaler = loop(gateway, policy=policy)
    assert not any(d.rescales for d in batches(gateway, autoscaler, SETTLED - 1))
    said = batches(gateway, autoscaler, 3)
    ((_, query, after),) = asked(gateway)
    assert query == RUNNING and 2 <= after <= 8
    ((change,),) = [d.rescales for d in said if d.rescales]
    assert (change.before, change.after) == (64, after)
    (decision,) = [d for d in said if d.rescales]
    assert decision.applied
    assert f"running 64 -> {after} state partitions: a batch takes 3.5 s" in next(decision.lines())
    # What it says is in the trace, for people and for the plugin.
    assert Decision.from_json(decision.to_json()) == decision
    assert f"64 -> {after} state partitions: a batch" in decision.to_plugin().notes[0]
    gateway.take_over()
    more = batches(gateway, autoscaler, 10)
    assert not any(d.rescales for d in more) and len(asked(gateway)) == 1


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_one_that_came_to_nothing_is_not_asked_for_again_at_once(state: str) -> None:
    gateway = Stores()
    autoscaler = loop(gateway, parameters={"rescale_payback_s": 30.0})
    batches(gateway, autoscaler, SETTLED + 1)
    gateway.take_over(state)
    batches(gateway, autoscaler, 14)  # 28 s
    assert len(asked(gateway)) == 1
    batches(gateway, autoscaler, 3)
    assert len(asked(gateway)) == 2


def test_an_operators_own_rescale_counts_and_is_waited_for() -> None:
    gateway = Stores(32)
    autoscaler = loop(gateway, parameters={"rescale_payback_s": 60.0})
    gateway.query["rescale"] = rescaling("building", **{"before": 32, "after": 64})
    batches(gateway, autoscaler, SETTLED + 3)
    gateway.take_over()
    batches(gateway, autoscaler, 20)
    assert asked(gateway) == []
    batches(gateway, autoscaler, 20)
    assert len(asked(gateway)) == 1


def test_what_is_refused_is_said_once_and_left_for_a_while() -> None:
    gateway = Stores()
    gateway.refuses = "the log of its file sink has to have every batch"
    autoscaler = loop(gateway)
    said = batches(gateway, autoscaler, 15)
    notes = [note for d in said for note in d.notes]
    assert len(notes) == 1 and "keeps its 64 state partitions" in notes[0]
    assert "file sink" in notes[0]
    assert not any(d.rescales for d in said)
    gateway.refuses = ""
    gateway.data["time_ms"] += round(1000 * AGAIN_S)
    batches(gateway, autoscaler, 2)
    assert len(asked(gateway)) == 1


def test_a_dry_run_says_it_and_sends_nothing() -> None:
    gateway = Stores()
    autoscaler = loop(gateway, dry_run=True)
    batches(gateway, autoscaler, SETTLED + 4)
    (decision,) = [d for d in autoscaler.decisions() if d.rescales]
    assert not decision.applied
    assert "state partitions (not carried out): " in next(decision.lines())
    assert gateway.sent == []


def test_off_by_default() -> None:
    gateway = Stores()
    autoscaler = AutoscaleLoop(gateway, named("laneshift"))
    batches(gateway, autoscaler, SETTLED + 4)
    assert not any(d.rescales for d in autoscaler.decisions()) and asked(gateway) == []


def test_a_trace_has_it_and_a_replay_decides_the_same(tmp_path: Path) -> None:
    gateway = Stores()
    autoscaler = loop(gateway, trace=tmp_path / "trace")
    batches(gateway, autoscaler, SETTLED + 1)
    autoscaler.stop()
    (done,) = [d for d in autoscaler.decisions() if d.rescales]
    told = [Decision.from_json(e.value) for e in read_entries(tmp_path / "trace") if e.event]
    assert [d.rescales for d in told if d.rescales] == [done.rescales]
    again = [r.plan.rescales for r in replay(read_trace(tmp_path / "trace"), autoscaler.policy)]
    assert next(each for each in again if each) == done.rescales
    other = named("laneshift", rescale=True, max_partitions=1)
    again = [r.plan.rescales for r in replay(read_trace(tmp_path / "trace"), other)]
    assert {change.after for each in again for change in each} == {1}


def test_the_newest_rescale_says_what_one_costs() -> None:
    gateway, meter = Stores(), Meter()

    def look() -> StoreLoad:
        gateway.batch()
        islands = meter.measure(copy.deepcopy(gateway.snapshot()))
        return next(s for i in islands if i.cluster is not None for s in i.cluster.stores)

    gateway.batch()
    meter.measure(gateway.snapshot())
    look()
    gateway.rescale(RUNNING, 8)
    assert look().under_way
    look()
    gateway.take_over()
    gateway.batch()  # the first one opens the stores, and does not count
    meter.measure(gateway.snapshot())
    load = look()
    assert (load.partitions, load.under_way, load.since_s) == (8, False, 1.0)
    assert load.pause_s == 0.25
    # Between the first look at it and the first at its end there were two seconds.
    assert load.build_bytes_per_s == pytest.approx(8 * 90_000 / 2)
