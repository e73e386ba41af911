"""What is told of turns: each thing once, until it changes or a minute has gone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from autoscale.scripted import Moving, Scripted, lanes
from autoscale.test_batches import Batches
from laneshift.autoscale.decisions import (
    AGAIN_S,
    Decision,
    LaneChange,
    Note,
    SourceLimit,
    Told,
    not_done,
)
from laneshift.autoscale.loop import AutoscaleLoop
from laneshift.autoscale.options import AutoscaleOptions
from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.ids import KeyId, PartitionId
from laneshift.contract.plan import KeySplit, Plan, Reason, Shortfall
from laneshift.errors import error
from laneshift.policies.registry import policy as named
from plugin.fake import set_lanes

P1 = PartitionId("q:0.1")
EMPTY = Decision(0.0, "1", "laneshift", applied=True)


def change(after: int, why: str = "busy") -> tuple[LaneChange, ...]:
    return (LaneChange(P1, 1, after, why),)


def test_notes_of_a_kind_say_the_same_of_the_same() -> None:
    """What :func:`not_done` and the others make: kinds have names, and no quantities."""

    def short(cores: int, **more: Any) -> Note:
        message = f"{cores} cores wanted, 8 available"
        return not_done(Plan(shortfalls=(Shortfall(Reason.BUDGET, cores, 8, message, **more),)))[0]

    assert short(9, kind="x") != short(1204, kind="x") and short(9).kind == short(9)
    assert short(9, kind="x").kind == short(1204, kind="x").kind
    assert short(9, kind="of q:0.1").kind != short(9, kind="of q:0.2").kind
    keys = [not_done(Plan(key_splits=(KeySplit(P1, KeyId(key), 2),)))[0] for key in "78"]
    assert keys[0].kind != keys[1].kind

    def refused(partition: str, seconds: float) -> Note:
        problem = error("LANESHIFT_OTHER_AUTOSCALER", policy=partition, range="x", seconds=seconds)
        return Note.failed(problem, "it stays: ")

    assert refused("a", 1.5) != refused("a", 2.5)
    assert refused("a", 1.5).kind == refused("a", 2.5).kind != refused("b", 1.5).kind


def test_what_is_thrown_in_one_place_is_of_a_kind() -> None:
    def thrown(by: int) -> Note:
        try:
            assert by != 7, "another place"
            raise ValueError(f"{by} is too many")
        except (AssertionError, ValueError) as problem:
            return Note.failed(problem)

    assert thrown(1) != thrown(2) and thrown(1).kind == thrown(2).kind != thrown(7).kind


def test_notes_that_alternate_are_told_once_a_minute() -> None:
    told, seen = Told(), []
    for second in range(150):
        cores = Note(f"{second} cores wanted", "cores wanted")
        note = cores if second % 2 else Note(f"{second} s of latency", "latency")
        decision = replace(EMPTY, time_s=1000.0 + second, notes=(note,) if second % 3 else ())
        if told.is_news(decision, measured=True):
            seen.append(second)
    assert len(seen) == 6
    assert seen[:2] == [1, 2] and all(
        b - a >= AGAIN_S for a, b in zip(seen, seen[2:], strict=False)
    )
    other = replace(
        EMPTY, time_s=1150.0, executor="2", notes=(Note("7 cores wanted", "cores wanted"),)
    )
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
    assert news(changes=change(2), applied=False, notes=(Note("something else"),))
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
        short = Shortfall(Reason.BUDGET, 9 + turn, 8, f"{9 + turn} cores wanted", "cut")
        late = Shortfall(Reason.OVERLOAD, 9, 8, f"{turn} rows are late", "late")
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
