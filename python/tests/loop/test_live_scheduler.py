"""The loop against a gateway without a JVM."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from facade.fake import HANDOFF, RUNNING, FakeGateway
from laneshift.errors import LaneshiftError, SessionError, error
from laneshift.inputcheck import InputError
from laneshift.loop.scheduler import LiveScheduler
from laneshift.loop.throttles import GRACE_S
from laneshift.report.recording import read_recording
from laneshift.scheduler import registry
from laneshift.scheduler.ids import LaneId, LaneRef, PartitionId, ShardId
from laneshift.scheduler.plan import CoreChange, Plan, ShardMove, Throttle
from laneshift.scheduler.policies.base import Policy
from laneshift.scheduler.snapshot import Snapshot
from laneshift.scheduler.trace import read_trace
from laneshift.session import Laneshift


@dataclass(frozen=True, kw_only=True)
class Scripted(Policy[int]):
    """Says what the test wants; its state counts the turns."""

    name: ClassVar[str] = "scripted"
    summary: ClassVar[str] = "for tests"
    source: ClassVar[str] = "ours"
    say: Callable[[Snapshot, int], Plan]

    def start(self) -> int:
        return 0

    def decide(self, snapshot: Snapshot, state: int) -> tuple[Plan, int]:
        return self.say(snapshot, state), state + 1


def lanes(**wanted: int) -> Callable[[Snapshot, int], Plan]:
    """A plan for ``running:0.N``: pN=lanes."""

    def say(snapshot: Snapshot, _: int) -> Plan:
        changes = []
        for name, after in wanted.items():
            part = snapshot.partitions[int(name[1:])]
            if part.cores != after:
                changes.append(CoreChange(part.partition, part.cores, after))
        return Plan(core_changes=tuple(changes))

    return say


class Moving(FakeGateway):
    """Time and counts go on with every look: so many rows come to each of two partitions."""

    rows = 500
    passed = 1.0

    def snapshot(self) -> dict[str, Any]:
        self.data["time_ms"] += 1000
        (query,) = self.data["queries"]
        if query["given"]:
            query["given"]["rows"] += round(2 * self.rows / self.passed)
        for part in query["operators"][0]["partitions"]:
            for name in ("rows_in", "rows_taken"):
                part[name] += self.rows
            part["busy_s"] += 0.5
        return super().snapshot()


def loop(gateway: FakeGateway, say: Callable[[Snapshot, int], Plan], **more: Any) -> LiveScheduler:
    made = LiveScheduler(gateway, Scripted(say=say), **more)
    assert made.turn() == ()  # nothing was measured yet
    return made


def test_who_shrinks_goes_first() -> None:
    gateway = Moving()
    (decision,) = loop(gateway, lanes(p0=4, p1=1)).turn()
    assert gateway.sent == [
        ("set_lanes", RUNNING, 0, 1, 1),
        ("set_lanes", RUNNING, 0, 0, 4),
    ]
    assert decision.applied
    assert [str(c).split(":")[1][:4] for c in decision.changes] == ["0.0 ", "0.1 "]
    assert "500 rows/s come in, a busy core takes 1,000 rows/s: 0.50 cores" in str(
        decision.changes[0]
    )


def test_nobody_grows_before_lanes_have_gone() -> None:
    class Later(Moving):
        def set_lanes(self, query: str, operator: int, partition: int, lanes: int) -> Any:
            super().set_lanes(query, operator, partition, lanes)
            return {"lanes": lanes, "applied": "next-batch"}

    gateway = Later()
    (decision,) = loop(gateway, lanes(p0=4, p1=1)).turn()
    assert gateway.sent == [("set_lanes", RUNNING, 0, 1, 1)]
    assert "running:0.0 waits for lanes that go" in decision.notes[0]


def test_never_more_lanes_than_the_budget() -> None:
    gateway = Moving()
    gateway.data["executors"][0].update(cores=8, active_tasks=5)  # five cores for lanes
    (decision,) = loop(gateway, lanes(p0=6, p1=6)).turn()
    assert sum(c.after for c in decision.changes) <= 5


def test_lanes_go_when_spark_needs_their_cores() -> None:
    gateway = Moving()
    made = loop(gateway, lambda *_: Plan())
    gateway.data["executors"][0].update(cores=4, active_tasks=3)
    (decision,) = made.turn()
    assert gateway.sent == [("set_lanes", RUNNING, 0, 1, 1)]
    assert "Spark leaves 3 cores" in decision.changes[0].reason


def test_a_policy_cannot_take_the_last_lane() -> None:
    gateway = Moving()
    loop(gateway, lanes(p0=0, p1=2)).turn()
    assert gateway.sent == [("set_lanes", RUNNING, 0, 0, 1)]


@pytest.mark.parametrize("how", ["dry run", "paused"])
def test_decides_but_sends_nothing(how: str) -> None:
    gateway = Moving()
    made = loop(gateway, lanes(p0=4), dry_run=how == "dry run")
    if how == "paused":
        made.pause()
    (decision,) = made.turn()
    assert decision.changes
    assert not decision.applied
    assert gateway.sent == []
    if how == "paused":
        made.resume()
        assert made.turn()[0].applied


def test_shards_move_inside_their_partition_only() -> None:
    gateway = Moving()

    def say(snapshot: Snapshot, _: int) -> Plan:
        one, two = (p.partition for p in snapshot.partitions)
        return Plan(
            shard_moves=(
                ShardMove(ShardId(3), LaneRef(one, LaneId(1)), LaneRef(one, LaneId(0))),
                ShardMove(ShardId(4), LaneRef(one, LaneId(0)), LaneRef(two, LaneId(0))),
            )
        )

    (decision,) = loop(gateway, say).turn()
    assert gateway.sent == [("move_shard", RUNNING, 0, 0, 3, 0)]
    assert decision.shard_moves == 1
    assert "shard 4 cannot leave its partition" in decision.notes[0]


def throttling(*targets: tuple[str, float]) -> Callable[[Snapshot, int], Plan]:
    def say(*_: object) -> Plan:
        return Plan(
            throttles=tuple(Throttle(PartitionId(t), rate, windows=2) for t, rate in targets)
        )

    return say


def limits(gateway: FakeGateway) -> list[tuple[float, float]]:
    """What was sent: rows per second and seconds."""
    return [(rate, seconds) for method, _, rate, seconds in gateway.sent]


END = (0.0, 0.0)


def test_a_throttle_becomes_a_limit_of_the_source() -> None:
    gateway = Moving()  # 500 rows/s come to each of two partitions
    (decision,) = loop(
        gateway, throttling(("running:0.0", 100.0), ("running:source", 600.0))
    ).turn()
    # The partition gets half of the source's rows, and 200 is less than 600.
    assert gateway.sent == [("limit_source", RUNNING, 200.0, 2 * 1.0 + GRACE_S)]
    (limit,) = decision.limits
    assert str(limit) == (
        "source of running at 200 rows/s at most for 2 windows:"
        " running:0.0 is to get 100 rows/s at most, 0.5 of the source's rows"
    )
    assert decision.notes == ()
    assert gateway.told[0]["notes"] == [str(limit)]


def test_what_a_limit_does_to_the_rate_does_not_change_the_next_one() -> None:
    gateway = Moving()
    gateway.passed = 0.25  # a filter leaves so much of what the source gives
    gateway.data["queries"][0]["given"]["rows"] *= 4
    made = loop(gateway, throttling(("running:0.0", 100.0)))
    for rows in (500, 130, 7, 0, 4000):
        gateway.rows = rows
        made.turn()
    assert [rate for rate, _ in limits(gateway)] == pytest.approx([800.0] * 5)


def test_executors_ask_for_their_share_and_the_lowest_holds() -> None:
    gateway = Moving()
    (operator,) = gateway.data["queries"][0]["operators"]
    operator["partitions"][1]["executor"] = "2"
    gateway.data["executors"].append(gateway.data["executors"][0] | {"executor": "2"})

    def say(snapshot: Snapshot, _: int) -> Plan:
        rate = {"driver": 100.0, "2": 300.0}[snapshot.nodes[0].node]
        return Plan(throttles=(Throttle(snapshot.sources[0].source, rate),))

    made = loop(gateway, say)
    made.turn()
    made.turn()
    assert [rate for rate, _ in limits(gateway)] == [200.0] * 4


def test_what_cannot_be_throttled_says_so() -> None:
    class Fixed(Chain):
        def limit_source(self, query: str, rate: float, seconds: float) -> Any:
            raise error("LANESHIFT_SOURCE_NOT_LIMITED", query=query, why="rate stands still")

    gateway = Fixed()
    made = loop(gateway, throttling(("running:0.0", 10.0), ("running:1.1", 10.0)))
    (decision,) = made.turn()
    assert decision.limits == ()
    assert (
        "running:0.0 cannot be slowed down to 10 rows/s: it is fed by another" in decision.notes[0]
    )
    assert "the source of running is not slowed down: " in decision.notes[1]
    assert "rate stands still" in decision.notes[1]


def test_a_source_that_does_not_count_says_so() -> None:
    gateway = Moving()
    gateway.data["queries"][0]["given"] = None
    (decision,) = loop(gateway, throttling(("running:source", 10.0))).turn()
    assert gateway.sent == []
    (note,) = decision.notes
    assert "running:source cannot be slowed down to 10 rows/s: its source does not count" in note


def test_little_seen_is_no_base_for_a_limit() -> None:
    gateway = Moving()
    gateway.rows = 40
    gateway.data["queries"][0]["given"]["rows"] = 0
    for part in gateway.data["queries"][0]["operators"][0]["partitions"]:
        part["rows_in"] = 0
    made = loop(gateway, throttling(("running:1", 10.0), ("running:0.1", 10.0)))
    (decision,) = made.turn()
    assert gateway.sent == []
    assert decision.notes[1] == (
        "running:0.1 cannot be slowed down to 10 rows/s:"
        " fewer than 100 rows that came to it have been counted so far"
    )
    assert made.turn()[0].limits


def test_a_limit_ends_with_the_turn_that_does_not_ask_again() -> None:
    gateway = Moving()

    def say(_: Snapshot, turn: int) -> Plan:
        windows = {0: 1, 1: 1, 3: 3, 4: 1}.get(turn)
        target = PartitionId("running:0.0")
        return Plan(throttles=(Throttle(target, 100.0, windows),) if windows else ())

    made = loop(gateway, say)
    sent = []
    for _ in range(7):
        gateway.data["time_ms"] += 700  # however late a turn is
        made.turn()
        sent.append(limits(gateway))
        gateway.sent.clear()
    held = (200.0, pytest.approx(1.7 + GRACE_S))
    thrice = (200.0, pytest.approx(3 * 1.7 + GRACE_S))
    assert sent == [[held], [held], [END], [thrice], [held], [END], []]


@pytest.mark.parametrize("how", ["stop", "pause"])
def test_a_scheduler_that_ends_or_pauses_lets_sources_go(how: str) -> None:
    gateway = Moving()
    made = LiveScheduler(
        gateway, Scripted(say=throttling(("running:0.0", 100.0))), interval_s=0.1
    ).begin()
    until(lambda: made.turns >= 4)
    if how == "pause":
        made.pause()
        until(lambda: gateway.sent[-1] == ("limit_source", RUNNING, *END))
    made.stop()
    assert limits(gateway)[-1] == END
    assert limits(gateway).count(END) == 1


def test_a_dry_run_limits_nothing() -> None:
    gateway = Moving()
    made = loop(gateway, throttling(("running:0.0", 10.0)), dry_run=True)
    (decision,) = made.turn()
    for _ in range(4):
        made.turn()
    assert gateway.sent == []
    assert [line for line in decision.lines() if "at most for 2 windows (not carried out)" in line]
    assert decision.to_plugin()["notes"] == list(decision.lines())


def test_only_sources_enter_the_chain_of_a_query() -> None:
    seen: list[Snapshot] = []

    def say(snapshot: Snapshot, _: int) -> Plan:
        seen.append(snapshot)
        return Plan()

    loop(Chain(), say).turn()
    (snapshot,) = seen
    (source,) = snapshot.sources
    assert (source.source, source.feeds) == ("running:source", ("running:1.0", "running:1.1"))
    assert snapshot.heads == source.feeds
    assert source.rate == snapshot.external_rate == 6000
    assert {(e.upstream, e.downstream, e.ratio) for e in snapshot.edges} == {
        (f"running:1.{u}", f"running:0.{d}", 0.5) for u in range(2) for d in range(2)
    }
    assert [p.queue_rows / p.queue_capacity_rows for p in snapshot.partitions] == pytest.approx(
        [5000 / (2**20 / 100)] * 4
    )


def test_a_refused_command_is_noted_and_the_others_are_sent() -> None:
    class Refusing(Moving):
        def set_lanes(self, query: str, operator: int, partition: int, lanes: int) -> Any:
            if partition == 0:
                raise error("LANESHIFT_PARTITION_MOVED", partition=0)
            return super().set_lanes(query, operator, partition, lanes)

    gateway = Refusing()
    (decision,) = loop(gateway, lanes(p0=3, p1=3)).turn()
    assert gateway.sent == [("set_lanes", RUNNING, 0, 1, 3)]
    assert "running:0.0 keeps its lanes" in decision.notes[0]


def until(condition: Callable[[], Any], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def test_a_failing_policy_does_not_end_the_loop() -> None:
    def say(snapshot: Snapshot, state: int) -> Plan:
        del snapshot, state
        raise ZeroDivisionError("of the user")

    made = LiveScheduler(Moving(), Scripted(say=say), interval_s=0.01).begin()
    until(lambda: len(made.decisions()) >= 2)
    assert made.is_running
    assert made.decisions()[0].error == "ZeroDivisionError: of the user"
    made.stop()
    assert not made.is_running


def test_the_loop_ends_with_its_session() -> None:
    class Gone(Moving):
        def snapshot(self) -> dict[str, Any]:
            raise error("LANESHIFT_SESSION_STOPPED", method="snapshot")

    made = LiveScheduler(Gone(), Scripted(say=lambda *_: Plan()), interval_s=0.01).begin()
    until(lambda: not made.is_running)
    assert "has stopped" in (made.decisions()[-1].error or "")


def test_a_listener_hears_of_what_has_something_to_say() -> None:
    heard: list[Any] = []
    made = loop(Moving(), lanes(p0=4))
    made.on_decision(heard.append)
    made.turn()
    assert [len(d.changes) for d in heard] == [1]


def test_the_plugin_is_told_of_it_too() -> None:
    gateway = Moving()
    made = loop(gateway, lanes(p0=4))
    made.turn()
    (told,) = gateway.told
    assert told["time_ms"] == gateway.data["time_ms"]
    assert (told["policy"], told["executor"], told["applied"]) == ("scripted", "driver", True)
    (change,) = told["changes"]
    assert (change["partition"], change["before"], change["after"]) == ("running:0.0", 2, 4)


def test_a_trace_can_be_read_again(tmp_path: Path) -> None:
    file = tmp_path / "trace"
    made = loop(Moving(), lanes(p0=4), trace=file)
    made.turn()
    made.turn()
    made.stop()
    times = [snapshot.time_s for snapshot in read_trace(file)]
    assert len(times) == 2
    assert times[1] == times[0] + 1
    assert list(read_recording(file).decisions) == list(made.decisions())
    assert made.decisions()


def test_a_listener_may_end_the_loop_that_writes_a_trace(tmp_path: Path) -> None:
    made = LiveScheduler(
        Moving(), Scripted(say=lanes(p0=4)), interval_s=0.01, trace=tmp_path / "trace"
    )
    made.on_decision(lambda _: made.stop())
    made.begin()
    until(lambda: not made.is_running)
    made.stop()
    assert [d.error for d in read_recording(tmp_path / "trace").decisions] == [None]


def test_each_move_is_noted_once(tmp_path: Path) -> None:
    class Shifting(Moving):
        """Two handoffs in each turn, one of them without a pause; some were before the start."""

        def __init__(self) -> None:
            super().__init__()
            old = [HANDOFF | {"seq": n, "time_ms": self.data["time_ms"] - n} for n in range(5)]
            self.history: list[dict[str, Any]] = old

        def snapshot(self) -> dict[str, Any]:
            for n, pause in enumerate((0, 1500)):
                self.data["queries"][0]["operators"][0]["partitions"][n]["handoffs"] += 1
                at = {"time_ms": self.data["time_ms"] + 900, "pause_us": pause}
                self.history.append(HANDOFF | at | {"seq": 9, "partition": n})
            return super().snapshot()

        def handoffs(self, query: str, limit: int) -> list[dict[str, Any]]:
            return self.history[-limit:]

    gateway = Shifting()
    made = loop(gateway, lanes(), trace=tmp_path / "trace")
    first = gateway.data["time_ms"]
    for _ in range(20):
        made.turn()
    made.stop()
    moves = read_recording(tmp_path / "trace").moves
    assert [m.time_s for m in moves] == [first / 1000 + 1 + n for n in range(20)]
    assert {(m.count, m.paused, m.max_ms) for m in moves} == {(2, 1, 1.5)}


class Chain(Moving):
    """Operator 1 feeds operator 0; load and queues rise, then fall."""

    def __init__(self) -> None:
        super().__init__()
        self.data["executors"][0]["cores"] = 16
        (down,) = self.data["queries"][0]["operators"]
        self.data["queries"][0]["operators"] = [
            down | {"upstream": [1]},
            copy.deepcopy(down) | {"operator_id": 1},
        ]
        self.looks = 0

    def snapshot(self) -> dict[str, Any]:
        self.looks += 1
        rising = self.looks <= 6
        self.data["time_ms"] += 1000
        self.data["queries"][0]["given"]["rows"] += 6000 if rising else 100
        for operator in self.data["queries"][0]["operators"]:
            for part in operator["partitions"]:
                rows = 3000 if rising else 50
                part["rows_in"] += rows
                part["rows_taken"] += min(rows, 1000)
                part["busy_s"] += 1.9 if rising else 0.1
                part["blocked_s"] += 0.5 if rising else 0.0
                part["queue_rows"] = [5000 if rising else 0] * part["lanes"]
                part["queue_bytes"] = [500_000 if rising else 0] * part["lanes"]
        return FakeGateway.snapshot(self)

    def set_lanes(self, query: str, operator: int, partition: int, lanes: int) -> Any:
        part = self.data["queries"][0]["operators"][operator]["partitions"][partition]
        part["lanes"] = lanes
        part["lane_of_shard"] = [shard % lanes for shard in range(part["shards"])]
        for name, value in (("lane_rows", 0), ("lane_busy", 0.5)):
            part[name] = [value] * lanes
        return super().set_lanes(query, operator, partition, lanes)


@pytest.mark.parametrize("name", registry.names())
def test_every_policy_of_the_library_starts_by_name(name: str) -> None:
    gateway = Chain()
    live = Laneshift(gateway)
    with live.start(name, interval_s=0.1) as made:
        until(lambda: made.turns >= 12)
    assert made.policy.name == name
    assert [d.error for d in made.decisions() if d.error] == []
    changed = [command for command in gateway.sent if command[0] == "set_lanes"]
    assert bool(changed) == (name != "static")


class TestStart:
    """Arguments of Laneshift.start."""

    def test_by_name_with_parameters(self) -> None:
        live = Laneshift(Moving())
        with live.start("elasticutor", target_latency_ms=20, smoothing=0.5, interval_s=30) as made:
            assert live.scheduler is made
            assert made.policy.target_s == 0.02  # type: ignore[attr-defined]
            assert made.policy.smoothing == 0.5  # type: ignore[attr-defined]
            with pytest.raises(SessionError, match="elasticutor drives the queries"):
                live.start("static")
        live.start("static", interval_s=30).stop()

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ({"policy": "elastic"}, ["elastic", "one of", "craa"]),
            ({"policy": 3}, ["policy", "3", "a name or a Policy"]),
            (
                {"policy": "craa", "target_latency_ms": 5},
                ["craa", "no latency target", "laneshift"],
            ),
            ({"target_latency_ms": 0}, ["target_latency_ms", "0", "ms"]),
            ({"target_latency_ms": float("nan")}, ["target_latency_ms", "nan"]),
            ({"interval_s": 0.05}, ["interval_s", "0.05", "0.1", "3600"]),
            ({"interval_s": "1"}, ["interval_s", "'1'"]),
            ({"cores": 0}, ["cores", "0", "1"]),
            ({"cores": 1.5}, ["cores", "1.5", "a whole number"]),
            ({"smoothing": 0.5}, ["parameter of laneshift", "smoothing", "one of"]),
            (
                {"policy": Scripted(say=lambda *_: Plan()), "target_latency_ms": 5},
                ["name together"],
            ),
        ],
    )
    def test_wrong_arguments(self, arguments: dict[str, Any], words: list[str]) -> None:
        gateway = Moving()
        live = Laneshift(gateway)
        with pytest.raises(InputError) as caught:
            live.start(**arguments)
        for word in words:
            assert word in str(caught.value)
        assert live.scheduler is None
        assert gateway.sent == []

    def test_unknown_query(self) -> None:
        with pytest.raises(LaneshiftError, match="there is no elastic query"):
            Laneshift(Moving()).start(query="nobody")

    def test_trace_is_never_overwritten(self, tmp_path: Path) -> None:
        file = tmp_path / "trace"
        file.touch()
        with pytest.raises(FileExistsError):
            Laneshift(Moving()).start(trace=file)


def test_a_query_has_one_scheduler(tmp_path: Path) -> None:
    gateway = Moving()
    gateway.driven_by = gateway.renewed_by = "craa"
    made = LiveScheduler(gateway, Scripted(say=lanes(p0=4)), trace=tmp_path / "trace")
    with pytest.raises(SessionError, match="Another scheduler, with the policy craa, drives all"):
        made.begin()
    assert not made.is_running
    assert gateway.claims == [] and gateway.sent == []
    assert not (tmp_path / "trace").exists()


def test_a_scheduler_takes_over_from_one_that_has_died() -> None:
    gateway = Moving()
    gateway.driven_by = "craa"
    with LiveScheduler(gateway, Scripted(say=lanes(p0=4)), interval_s=0.1, query="run").begin():
        assert gateway.claims[0] == ("scripted", "run")
    assert gateway.released == 1


def test_a_scheduler_whose_queries_another_one_has_taken_sends_nothing() -> None:
    gateway = Moving()
    made = LiveScheduler(gateway, Scripted(say=lanes(p0=4)), interval_s=0.1)
    gateway.set_lanes = lambda *_: {"lanes": 4, "applied": "now"}  # type: ignore[method-assign]
    with made.begin():
        until(lambda: made.turns > 2)
        gateway.driven_by = gateway.renewed_by = "craa"
        until(lambda: any("OTHER_SCHEDULER" in (d.error or "") for d in made.decisions()))
        turns = made.turns
        time.sleep(0.3)
        assert made.turns == turns
        gateway.driven_by = None
        until(lambda: made.turns > turns)


def test_a_dry_run_claims_nothing() -> None:
    gateway = Moving()
    gateway.driven_by = gateway.renewed_by = "craa"
    made = LiveScheduler(gateway, Scripted(say=lanes(p0=4)), interval_s=0.1, dry_run=True)
    with made.begin():
        until(lambda: made.turns > 2)
    assert gateway.claims == []
