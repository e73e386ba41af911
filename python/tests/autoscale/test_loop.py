"""The loop against a gateway without a JVM: what its turns do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autoscale.driven import Time
from autoscale.scripted import Chain, Moving, Scripted, lanes, loop, until
from laneshift.api.application import Application
from laneshift.api.autoscaler import Here
from laneshift.autoscale.loop import CLAIM_S, RENEW_S, AutoscaleLoop
from laneshift.autoscale.options import AutoscaleOptions
from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.ids import LaneId, LaneRef, ShardId
from laneshift.contract.plan import Plan, ShardMove
from laneshift.contract.trace import read_trace
from laneshift.errors import LaneshiftError, error
from laneshift.policies import registry
from laneshift.report.recording import read_recording
from plugin.fake import HANDOFF, RUNNING, STOPPED, query, set_lanes


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


class Later(Moving):
    """Lanes come with the next batch."""

    def on_set_lanes(self, query: str, operator: int, partition: Any, lanes: int) -> Any:
        super().on_set_lanes(query, operator, partition, lanes)
        return {"lanes": lanes, "applied": "next-batch"}


def test_nobody_grows_before_lanes_have_gone() -> None:
    gateway = Later()
    (decision,) = loop(gateway, lanes(p0=4, p1=1)).turn()
    assert gateway.sent == [("set_lanes", RUNNING, 0, 1, 1)]
    assert "running:0.0 waits for lanes that go" in decision.notes[0]


def test_who_grows_with_the_next_batch_need_not_wait_for_it() -> None:
    gateway = Later()
    gateway.data["queries"][0]["operators"][0]["handoff"] = "between-batches"
    (decision,) = loop(gateway, lanes(p0=4, p1=1)).turn()
    assert gateway.sent == [("set_lanes", RUNNING, 0, 1, 1), ("set_lanes", RUNNING, 0, 0, 4)]
    assert decision.notes == ()


def test_what_comes_with_the_next_batch_is_said_once() -> None:
    gateway = Moving()
    parts = gateway.data["queries"][0]["operators"][0]["partitions"]
    made = loop(gateway, lanes(p0=2, p1=1))
    for _ in range(3):
        made.turn()
    assert [[c.what for c in d.changes] for d in made.decisions()] == [["running:0.1 2 -> 1 lanes"]]
    assert len(gateway.told) == 1
    assert len(gateway.sent) == 3  # a task that begins anew meanwhile is told, too
    set_lanes(parts[1], 1)
    made.turn()
    set_lanes(parts[1], 2)
    made.turn()
    assert len(made.decisions()) == 2


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

    def say(cluster: ClusterLoad, _: int) -> Plan:
        one, two = (p.partition for p in cluster.partitions)
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


def test_queries_of_one_name_are_told_apart() -> None:
    gateway = Moving()
    gateway.data["executors"][0]["cores"] = 16
    gateway.data["queries"].append(query(STOPPED, "running", active=True))
    made = loop(gateway, lanes(p0=4, p3=3))
    (decision,) = made.turn()
    assert decision.error is None
    assert sorted(gateway.sent) == [
        ("set_lanes", RUNNING, 0, 0, 4),
        ("set_lanes", STOPPED, 0, 1, 3),
    ]
    names = [change.what.split()[0] for change in decision.changes]
    assert names == [f"running-{RUNNING[::-1][:8]}:0.0", f"running-{STOPPED[::-1][:8]}:0.1"]


def test_a_query_that_starts_anew_is_driven_on() -> None:
    gateway = Moving()
    (query,) = gateway.data["queries"]
    gateway.data["executors"][0]["cores"] = 16
    made = loop(gateway, lanes(p0=4), query=RUNNING)
    made.turn()
    gateway.data["queries"] = []
    assert made.turn() == ()
    before = len(gateway.claims)
    made.turn()
    assert len(gateway.claims) == before, "nobody is kept from what is not there"
    gateway.data["queries"] = [query | {"run_id": "another run"}]
    gateway.sent.clear()
    assert made.turn() == (), "nothing was measured of it yet"
    made.turn()
    assert gateway.sent == [("set_lanes", RUNNING, 0, 0, 4)]
    runs = dict.fromkeys(run for _, run in gateway.claims)
    assert list(runs) == [query["run_id"], "another run"]


def test_who_looked_for_too_long_asks_again_before_it_decides() -> None:
    class Slow(Moving):
        def on_snapshot(self) -> dict[str, Any]:
            if self.looks:  # so long that another autoscaler could claim the queries
                self.driven_by = "another's"
                self.time.now += CLAIM_S
            self.looks = True
            return super().on_snapshot()

        looks = False
        time = Time()

    gateway = Slow()
    policy = Scripted(say=lanes(p0=4))
    made = AutoscaleLoop(gateway, policy, AutoscaleOptions(), clock=gateway.time)
    assert made.turn() == ()
    with pytest.raises(LaneshiftError, match="another's"):
        made.turn()
    assert gateway.sent == []


def test_a_turn_claims_again_only_once_that_is_a_while_ago() -> None:
    gateway, time = Moving(), Time()
    policy = Scripted(say=lanes(p0=4))
    made = AutoscaleLoop(gateway, policy, AutoscaleOptions(), clock=time)
    made.turn()
    made.turn()
    assert len(gateway.claims) == 1 and gateway.sent
    time.now += RENEW_S
    made.turn()
    assert len(gateway.claims) == 2


def test_a_refused_command_is_noted_and_the_others_are_sent() -> None:
    class Refusing(Moving):
        def on_set_lanes(self, query: str, operator: int, partition: Any, lanes: int) -> Any:
            if partition == 0:
                raise error("LANESHIFT_PARTITION_MOVED", partition=0)
            return super().on_set_lanes(query, operator, partition, lanes)

    gateway = Refusing()
    (decision,) = loop(gateway, lanes(p0=3, p1=3)).turn()
    assert gateway.sent == [("set_lanes", RUNNING, 0, 1, 3)]
    assert "running:0.0 keeps its lanes" in decision.notes[0]


def test_a_failing_policy_does_not_end_the_loop() -> None:
    asked = [0]

    def say(cluster: ClusterLoad, state: int) -> Plan:
        del cluster, state
        asked[0] += 1
        raise ZeroDivisionError("of the user")

    made = AutoscaleLoop(Moving(), Scripted(say=say), AutoscaleOptions(interval_s=0.01)).begin()
    until(lambda: asked[0] >= 3)
    assert made.is_running
    assert [d.error for d in made.decisions()] == ["ZeroDivisionError: of the user"], "told once"
    made.stop()
    assert not made.is_running


def test_the_loop_ends_with_its_session() -> None:
    class Gone(Moving):
        def on_snapshot(self) -> dict[str, Any]:
            raise error("LANESHIFT_SESSION_STOPPED", method="snapshot")

    made = AutoscaleLoop(
        Gone(), Scripted(say=lambda *_: Plan()), AutoscaleOptions(interval_s=0.01)
    ).begin()
    until(lambda: not made.is_running)
    assert "has stopped" in (made.decisions()[-1].error or "")


def test_a_listener_hears_of_what_has_something_to_say() -> None:
    heard: list[Any] = []
    made = loop(Moving(), lanes(p0=4))
    made.on_decision(heard.append)
    made.turn()
    assert [len(d.changes) for d in heard] == [1]


def test_a_listener_that_fails_does_not_end_the_loop(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Any] = []

    def failing(_: Any) -> None:
        raise BrokenPipeError("nobody reads")

    made = AutoscaleLoop(Moving(), Scripted(say=lanes(p0=4)), AutoscaleOptions(interval_s=0.01))
    made.on_decision(failing)
    made.on_decision(heard.append)
    made.begin()
    until(lambda: made.turns >= 3)
    assert made.is_running
    assert heard
    made.stop()
    assert "nobody reads" in caplog.text


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
    times = [cluster.time_s for cluster in read_trace(file)]
    assert len(times) == 2
    assert times[1] == times[0] + 1
    assert list(read_recording(file).decisions) == list(made.decisions())
    assert made.decisions()


def test_a_trace_that_cannot_be_written_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "trace"
    gateway = Moving()
    made = loop(gateway, lanes(p0=4), trace=file)
    out: Any = made._trace._out
    monkeypatch.setattr(out, "_file", Full(out._file))
    (decision,) = made.turn()
    assert gateway.sent == [("set_lanes", RUNNING, 0, 0, 4)]
    assert [n for n in decision.notes if "No space left" in n]
    monkeypatch.undo()
    made.turn()
    made.stop()
    assert len(list(read_trace(file))) == 1, "whole lines, but for those that were lost"


class Full:
    """A file on a disk that takes ten bytes more of each line."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._taken = 0

    def write(self, data: memoryview) -> int:
        if self._taken:
            self._taken = 0
            raise OSError(28, "No space left on device")
        self._taken = int(self._file.write(data[:10]))
        return self._taken

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def test_a_trace_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laneshift.autoscale.moves.TRACE_BYTES", 3000)
    file = tmp_path / "trace"
    made = loop(Moving(), lanes(p0=4), trace=file)
    for _ in range(20):
        made.turn()
    made.stop()
    times = [c.time_s for part in ("trace.1", "trace") for c in read_trace(tmp_path / part)]
    assert 2 <= len(times) < 20
    assert times == [times[0] + i for i in range(len(times))]
    assert {f.name for f in tmp_path.iterdir()} == {"trace", "trace.1"}
    assert (tmp_path / "trace.1").stat().st_size < 6000


def test_a_listener_may_end_the_loop_that_writes_a_trace(tmp_path: Path) -> None:
    made = AutoscaleLoop(
        Moving(),
        Scripted(say=lanes(p0=4)),
        AutoscaleOptions(interval_s=0.01, trace=tmp_path / "trace"),
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

        def on_snapshot(self) -> dict[str, Any]:
            for n, pause in enumerate((0, 1500)):
                self.data["queries"][0]["operators"][0]["partitions"][n]["handoffs"] += 1
                at = {"time_ms": self.data["time_ms"] + 900, "pause_us": pause}
                self.history.append(HANDOFF | at | {"seq": 9, "partition": n})
            return super().on_snapshot()

        def on_handoffs(self, query: str, limit: int) -> list[dict[str, Any]]:
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


@pytest.mark.parametrize("name", registry.names())
def test_every_policy_of_the_library_starts_by_name(name: str) -> None:
    gateway = Chain()
    live = Application(Here(gateway))
    with live.autoscale(policy=name, interval=3600) as made:
        driver = made._driver
        assert isinstance(driver, AutoscaleLoop)
        until(lambda: made.turns == 1)
        while made.turns < 12:
            driver.turn()
    assert made.policy == name
    assert [d.error for d in made.decisions() if d.error] == []
    changed = [command for command in gateway.sent if command[0] == "set_lanes"]
    sizes = name != "static" and not registry.policy_class(name).distributes
    assert bool(changed) == sizes
