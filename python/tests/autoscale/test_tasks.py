"""Numbers of tasks in the live loop: measured, sent once, waited for, left if they do not come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autoscale.test_batches import Batches, batches
from laneshift.autoscale.decisions import Decision
from laneshift.autoscale.loop import AutoscaleLoop
from laneshift.autoscale.measure import Meter
from laneshift.autoscale.options import AutoscaleOptions
from laneshift.autoscale.queries import AGAIN_S
from laneshift.contract.tasks_load import TasksLoad
from laneshift.contract.trace import read_entries, read_trace
from laneshift.errors import error
from laneshift.policies.registry import policy as named
from laneshift.policies.tasking import LOOKS, SETTLED
from laneshift_lab.replay import replay
from plugin.fake import RUNNING, FakeGateway, partition, rescaling, set_lanes

TASK_S = 0.02


class Tasks(Batches):
    """Next to no rows and next to no commits in many state partitions, on two cores: what takes
    time are tasks. Whoever asks for others gets them with the next batch.
    """

    def __init__(self, partitions: int = 64) -> None:
        super().__init__(partitions, cores=2, trigger="back-to-back", lanes=1)
        self.rate = 100.0
        self.comes = True
        self.refuses = False
        self.wish = ""
        self.query["rescale"] = None
        self.query["operators"][0].update(tasks=partitions, partition_count=partitions)

    @property
    def tasks(self) -> int:
        return int(self.query["operators"][0]["tasks"])

    def batch(self, *, every_s: float = 5.0, fixed_s: float = 0.3) -> None:
        if self.wish and self.comes:
            count = len(self.parts)
            self.query["operators"][0]["tasks"] = (
                count if self.wish == "stock" else min(count, int(self.wish))
            )
            self.wish = ""
        super().batch(every_s=every_s, fixed_s=fixed_s)
        self.query["batch"].update(duration_s=fixed_s + self.tasks / 2 * TASK_S, state=[])

    def on_set_tasks(self, query: str, operator: int, tasks: str) -> dict[str, Any]:
        if self.refuses:
            raise error("LANESHIFT_TASKS_OUT_OF_RANGE", value=tasks, range="1 to 64")
        self.wish = tasks
        return super().on_set_tasks(query, operator, tasks)


def loop(gateway: FakeGateway, **more: Any) -> AutoscaleLoop:
    parameters = {"set_tasks": True} | more.pop("parameters", {})
    return AutoscaleLoop(
        gateway, named(more.pop("policy", "laneshift"), **parameters), AutoscaleOptions(**more)
    )


def asked(gateway: FakeGateway) -> list[tuple[Any, ...]]:
    return [each for each in gateway.sent if each[0] == "set_tasks"]


def look(gateway: FakeGateway, meter: Meter) -> TasksLoad:
    islands = meter.measure(gateway.snapshot())
    (load,) = [t for i in islands if i.cluster is not None for t in i.cluster.tasks]
    return load


def test_tasks_are_measured_from_batches() -> None:
    gateway, meter = Tasks(), Meter()
    meter.measure(gateway.snapshot())
    for _ in range(3):
        gateway.batch()
        load = look(gateway, meter)
    assert (load.query, load.operators) == ("running", ("running:0",))
    assert (load.tasks, load.partitions, load.slots, load.batches) == (64, 64, 2, 3)
    assert load.batch_id == gateway.number
    assert load.took_s == pytest.approx(0.94)
    assert load.rows == pytest.approx(500, rel=0.05)
    assert sum(load.each) == pytest.approx(0.05, rel=0.1)
    assert not load.is_real_time and load.coming is None


@pytest.mark.parametrize("policy", ["laneshift", "elasticutor", "naive-ec", "resource-centric"])
def test_fewer_are_asked_for_once_and_stay(policy: str) -> None:
    gateway = Tasks()
    autoscaler = loop(gateway, policy=policy)
    assert not any(d.tasks for d in batches(gateway, autoscaler, SETTLED - 1))
    said = batches(gateway, autoscaler, 30)
    assert asked(gateway) == [("set_tasks", RUNNING, 0, "2")]
    ((change,),) = [d.tasks for d in said if d.tasks]
    assert (change.before, change.after, gateway.tasks) == (64, 2, 2)
    (decision,) = [d for d in said if d.tasks]
    assert decision.applied
    assert next(decision.lines()).startswith("running 64 -> 2 tasks: a batch takes 0.94 s with 64")
    # What it says is in the trace, for people and for the plugin.
    assert Decision.from_json(decision.to_json()) == decision
    assert decision.to_plugin().notes[0].startswith("running 64 -> 2 tasks: a batch takes")


def test_what_does_not_come_is_said_once_and_left_for_a_while() -> None:
    gateway = Tasks()
    gateway.comes = False
    autoscaler = loop(gateway)
    said = batches(gateway, autoscaler, SETTLED + 12)
    assert len(asked(gateway)) == 1
    notes = [note for d in said for note in d.notes if "tasks instead of" in note]
    assert len(notes) == 1 and notes[0].startswith("running has 64 tasks instead of 2: there are")
    gateway.comes = True
    gateway.data["time_ms"] += round(1000 * AGAIN_S)
    batches(gateway, autoscaler, 4)
    assert gateway.tasks == 2


def test_what_is_refused_is_said_once_and_left_for_a_while() -> None:
    gateway = Tasks()
    gateway.refuses = True
    autoscaler = loop(gateway)
    said = batches(gateway, autoscaler, SETTLED + 12)
    notes = [note for d in said for note in d.notes if "keeps its 64 tasks instead of 2" in note]
    assert len(notes) == 1 and not any(d.tasks for d in said)
    gateway.refuses = False
    gateway.data["time_ms"] += round(1000 * AGAIN_S)
    batches(gateway, autoscaler, 4)
    assert gateway.tasks == 2


def test_somebody_elses_number_is_what_there_is() -> None:
    gateway = Tasks()
    autoscaler = loop(gateway)
    batches(gateway, autoscaler, SETTLED + 6)
    gateway.query["operators"][0]["tasks"] = 64  # by hand
    batches(gateway, autoscaler, SETTLED + 6)
    assert [each[3] for each in asked(gateway)] == ["2", "2"]


def test_not_while_its_stores_are_built() -> None:
    gateway = Tasks()
    gateway.query["rescale"] = rescaling("building", **{"before": 64, "after": 8})
    autoscaler = loop(gateway)
    for _ in range(SETTLED + 4):
        gateway.batch()
        gateway.query["batch"]["state"] = [
            {"name": "x", "partitions": 64, "stores": 64, "commit_s": 0.01, "written_bytes": 1}
        ]
        autoscaler.turn()
    assert asked(gateway) == []


def test_a_dry_run_says_it_and_sends_nothing() -> None:
    gateway = Tasks()
    autoscaler = loop(gateway, dry_run=True)
    batches(gateway, autoscaler, SETTLED + 6)
    (decision,) = [d for d in autoscaler.decisions() if d.tasks]
    assert not decision.applied
    assert next(decision.lines()).startswith("running 64 -> 2 tasks (not carried out): ")
    assert gateway.sent == []


def test_off_by_default() -> None:
    gateway = Tasks()
    autoscaler = AutoscaleLoop(gateway, named("laneshift"))
    batches(gateway, autoscaler, SETTLED + 6)
    assert not any(d.tasks for d in autoscaler.decisions()) and asked(gateway) == []


def test_a_trace_has_it_and_a_replay_decides_the_same(tmp_path: Path) -> None:
    gateway = Tasks()
    autoscaler = loop(gateway, trace=tmp_path / "trace")
    batches(gateway, autoscaler, SETTLED + 3)
    autoscaler.stop()
    (done,) = [d for d in autoscaler.decisions() if d.tasks]
    told = [Decision.from_json(e.value) for e in read_entries(tmp_path / "trace") if e.event]
    assert [d.tasks for d in told if d.tasks] == [done.tasks]
    again = [r.plan.tasks for r in replay(read_trace(tmp_path / "trace"), autoscaler.policy)]
    assert [each for each in again if each] == [done.tasks]


# ---- Real-time Mode


class RealTime(FakeGateway):
    """A Real-time query whose partitions take 0.03 of a core each; batches begin when a test says
    so, with as many tasks as there are free slots for.
    """

    def __init__(self, partitions: int = 64, slots: int = 64) -> None:
        super().__init__()
        self.slots = slots
        self.cores = 0.03
        self.wish = ""
        self.data["executors"][0].update(cores=slots, active_tasks=0)
        self.query = self.data["queries"][0]
        self.query["rescale"] = None
        self.parts = [partition(n, lanes=1) for n in range(partitions)]
        for part in self.parts:
            set_lanes(part, 1)
            part.update(max_elsewhere=0, lane_rows=[1000])
        self.query["operators"][0].update(
            partitions=self.parts, tasks=partitions, partition_count=partitions
        )

    @property
    def tasks(self) -> int:
        return int(self.query["operators"][0]["tasks"])

    def on_snapshot(self) -> dict[str, Any]:
        self.data["time_ms"] += 1000
        for part in self.parts:
            part["rows_in"] += 1000
            part["rows_out"] += 1000
            part["rows_taken"] += 1000
            part["busy_s"] += self.cores
        return super().on_snapshot()

    def batch(self) -> None:
        for part in self.parts:
            part["batch_id"] += 1
        if self.wish:
            assert self.wish.startswith("<=")
            self.query["operators"][0]["tasks"] = min(int(self.wish[2:]), self.slots)

    def on_set_tasks(self, query: str, operator: int, tasks: str) -> dict[str, Any]:
        self.wish = tasks
        return super().on_set_tasks(query, operator, tasks)


def turns(autoscaler: AutoscaleLoop, count: int) -> list[Decision]:
    said = [d for _ in range(count) for d in autoscaler.turn()]
    return [d for d in said if d.tasks or any("tasks instead" in note for note in d.notes)]


@pytest.mark.parametrize(
    ("partitions", "few"), [(16, 1), pytest.param(64, 4, marks=pytest.mark.deep("policies"))]
)
def test_a_night_and_a_day_of_a_real_time_query(partitions: int, few: int) -> None:
    gateway = RealTime(partitions)
    autoscaler = loop(gateway)
    said = turns(autoscaler, LOOKS + 20)
    assert [c.what for d in said for c in d.tasks] == [f"running {partitions} -> {few} tasks"]
    words = f"of {partitions} tasks the busiest needs 0.03 of its core; with {few}, 0.48"
    assert words in str(said[0].tasks[0])
    assert asked(gateway) == [("set_tasks", RUNNING, 0, f"<={few}")]
    assert gateway.tasks == partitions
    gateway.batch()
    assert turns(autoscaler, 30) == [] and gateway.tasks == few
    gateway.cores = 0.5
    said = turns(autoscaler, 30)
    assert asked(gateway)[-1][3] == f"<={partitions}" and said
    gateway.batch()
    assert turns(autoscaler, 30) == [] and gateway.tasks == partitions


def test_a_real_time_query_has_no_more_tasks_than_there_are_slots() -> None:
    gateway = RealTime(slots=8)
    gateway.query["operators"][0].update(tasks=4)
    gateway.cores = 0.5
    autoscaler = loop(gateway)
    turns(autoscaler, LOOKS + 20)
    assert asked(gateway)[-1][3] == "<=64"
    gateway.batch()
    turns(autoscaler, 20)
    gateway.batch()
    said = turns(autoscaler, 20)
    assert gateway.tasks == 8
    (note,) = [note for d in said for note in d.notes if "tasks instead of" in note]
    assert note.startswith("running has 8 tasks instead of 64: there are no slots for more")
    count = len(asked(gateway))
    gateway.batch()
    turns(autoscaler, 20)
    assert len(asked(gateway)) == count
