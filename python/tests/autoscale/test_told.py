"""What is told of turns: each thing once, until it changes or a minute has gone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoscale.scripted import Moving, Scripted, lanes
from autoscale.test_batches import Batches
from laneshift.autoscale.decisions import AGAIN_S, Decision, LaneChange, SourceLimit, Told, kind
from laneshift.autoscale.loop import AutoscaleLoop
from laneshift.autoscale.options import AutoscaleOptions
from laneshift.scheduler.cluster_load import ClusterLoad
from laneshift.scheduler.ids import PartitionId
from laneshift.scheduler.plan import Plan, Reason, Shortfall
from laneshift.scheduler.registry import policy as named
from plugin.fake import set_lanes

EMPTY = Decision(0.0, "1", "laneshift", applied=True)


def change(after: int, why: str = "busy") -> tuple[LaneChange, ...]:
    return (LaneChange(PartitionId("q:0.1"), 1, after, why),)


@pytest.mark.parametrize(
    ("note", "other"),
    [
        ("budget: 9 cores wanted, 8 available: add nodes", "budget: 1,204 cores wanted, 8 availab"
         "le: add nodes"),
        ("batches of q are to take 2.1 s at most", "batches of q are to take 1e-05 s at most"),
        ("latency 0.51 s instead of 0.1 s", "latency 12 s instead of 0.1 s"),
    ],
)  # fmt: skip
def test_notes_that_differ_in_quantities_are_of_a_kind(note: str, other: str) -> None:
    assert kind(note) == kind(other) != note


@pytest.mark.parametrize(
    "notes",
    [
        ("q:0.1 waits for lanes", "q:0.2 waits for lanes", "q:1.1 waits for lanes"),
        ("key 7 cannot be split", "key 8 cannot be split"),
        ("shard 1 of q:0.1 stays", "shard 2 of q:0.1 stays"),
        ("it stays on executor 1", "it stays on executor 2"),
        ("orders-2:0.1 stays", "orders-3:0.1 stays"),
        ("1f3c-11:0.1 stays", "1f3c-12:0.1 stays"),
    ],
)
def test_notes_on_different_things_are_of_different_kinds(notes: tuple[str, ...]) -> None:
    assert len(set(map(kind, notes))) == len(notes)


def test_notes_that_alternate_are_told_once_a_minute() -> None:
    told, seen = Told(), []
    for second in range(150):
        note = f"{second} cores wanted" if second % 2 else f"{second} s of latency"
        decision = replace(EMPTY, time_s=1000.0 + second, notes=(note,) if second % 3 else ())
        if told.is_news(decision, measured=True):
            seen.append(second)
    assert len(seen) == 6
    assert seen[:2] == [1, 2] and all(
        b - a >= AGAIN_S for a, b in zip(seen, seen[2:], strict=False)
    )
    other = replace(EMPTY, time_s=1150.0, executor="2", notes=("7 cores wanted",))
    assert told.is_news(other, measured=True)  # of another executor
    told.forget("2")
    assert told.is_news(other, measured=True)


def test_what_is_asked_for_is_told_until_it_changes() -> None:
    told = Told()

    def news(**what: Any) -> bool:
        measured = what.pop("measured", True)
        return told.is_news(replace(EMPTY, **what), measured=measured)

    assert news(changes=change(2))
    assert not news(changes=change(2, "busier"))
    assert not news(measured=False)  # between two batches nothing is wanted
    assert not news(changes=change(2))
    assert news(changes=change(3))
    assert news(changes=change(2))
    assert news(changes=change(2), applied=False)
    assert not news()  # a batch that leaves all as it is
    assert news(changes=change(2), applied=False)
    assert news(changes=change(2), applied=False, notes=("something else",))
    for always in (
        {"shard_moves": 1},
        {"limits": (SourceLimit("q", 1.0, 1, "x"),)},
    ):
        assert news(**always) and news(**always)


def test_a_dry_run_says_what_it_would_do_once() -> None:
    gateway = Batches()
    made = AutoscaleLoop(gateway, Scripted(say=lanes(p0=5)), AutoscaleOptions(dry_run=True))
    for _ in range(4):
        gateway.batch()
        for _ in range(3):
            made.turn()
    assert [[c.what for c in d.changes] for d in made.decisions()] == [["running:0.0 2 -> 5 lanes"]]
    set_lanes(gateway.parts[0], 3)
    gateway.batch()
    made.turn()
    assert [c.what for c in made.decisions()[-1].changes] == ["running:0.0 3 -> 5 lanes"]
    set_lanes(gateway.parts[0], 5)
    for lanes_now in (5, 3):  # what was wanted has come, and goes again
        set_lanes(gateway.parts[0], lanes_now)
        gateway.batch()
        made.turn()
    assert len(made.decisions()) == 3
    assert gateway.sent == []


def test_notes_of_an_overload_are_folded() -> None:
    def say(cluster: ClusterLoad, turn: int) -> Plan:
        short = Shortfall(Reason.BUDGET, 9 + turn, 8, f"{9 + turn} cores wanted, 8 available")
        late = Shortfall(Reason.OVERLOAD, 9, 8, f"{turn} rows are late")
        return Plan(shortfalls=(short,) if turn % 2 else (late,))

    gateway = Moving()
    made = AutoscaleLoop(gateway, Scripted(say=say))
    for _ in range(50):
        made.turn()
    assert len(made.decisions()) == 2
    for _ in range(30):
        made.turn()
    assert len(made.decisions()) == 4


def test_laneshift_says_of_an_overload_that_lasts_what_there_is_to_say() -> None:
    from autoscale.test_overload import Stream

    stream = Stream(9000.0, 2)
    stream.data["executors"][0].update(cores=4)
    made = AutoscaleLoop(stream, named("laneshift"))
    for _ in range(100):
        made.turn()
    noted = [d for d in made.decisions() if d.notes and not d.changes]
    assert any("cores" in note for d in made.decisions() for note in d.notes)
    assert len(noted) <= 8  # it was one in most turns
