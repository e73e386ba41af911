"""A partition that becomes pressed wakes the loop: short turns that only ever add lanes."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from autoscale.scripted import Moving, Scripted, keeping, lanes, until
from laneshift.autoscale.act import grown, planned_lanes
from laneshift.autoscale.cores import Island, Room
from laneshift.autoscale.loop import AutoscaleLoop
from laneshift.autoscale.options import AutoscaleOptions
from laneshift.autoscale.pictures import Lanes, seen_partitions
from laneshift.autoscale.presses import (
    FRUITLESS,
    MOST_SHORT,
    Presses,
    only_more,
    rest,
)
from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.ids import NodeId, PartitionId
from laneshift.contract.plan import PlacementChange, Plan
from laneshift.errors import error
from laneshift.plugin.press import Press
from laneshift.policies.registry import PLANNERS, names
from laneshift.policies.registry import policy as named
from laneshift_lab.samples import cluster
from laneshift_lab.samples import partition as sample
from plugin.fake import RUNNING, FakeGateway, partition, press_of, set_lanes, snapshot_of

SERVICE = 500.0
ROW_BYTES = 48
STEP_S = 0.005
EFFECTIVE_S = 0.04
"""So long after lanes are wanted they work."""
RUN = RUNNING[::-1]
ACTIVE = [name for name in names() if name not in ("static", *PLANNERS)]
SIZING = ("elasticutor", "laneshift", "naive-ec")


def press(part: dict[str, Any], since_ms: int, **counters: float) -> dict[str, Any]:
    names = ("rows_in", "rows_taken", "rows_out", "busy_s", "blocked_s")
    return {
        "run_id": RUN,
        "operator": 0,
        "partition": part["partition"],
        "since_ms": since_ms,
        **{name: part[name] for name in names},
        **counters,
    }


class Burst(FakeGateway):
    """Four partitions of one lane each, in a time of its own; a wait for presses is what passes.

    Rows wait in Spark's shuffle, then in the queues of two lanes and more. A partition whose lanes
    have been full for 0.1 s, with more rows than before, is pressed: as the plugin says it.
    """

    def __init__(self, cores: int = 32) -> None:
        super().__init__()
        self.rate = 200.0  # rows/s of each partition
        self.now_s = 0.0
        self.data["executors"][0].update(cores=cores, active_tasks=4)
        self.parts = [partition(n, shards=64, lanes=1) for n in range(4)]
        self.data["queries"][0]["operators"][0]["partitions"] = self.parts
        self.begin_ms = self.data["time_ms"]
        self.outside, self.inside, self.works = [0.0] * 4, [0.0] * 4, [1] * 4
        self.counts = [dict.fromkeys(("in", "taken", "busy"), 0.0) for _ in self.parts]
        self.starts: list[tuple[float, int, int]] = []
        self.past: deque[list[dict[str, Any]]] = deque(maxlen=round(0.1 / STEP_S))
        self.burst_s = float("inf")
        self.changes: list[tuple[float, int, int]] = []
        for part in self.parts:
            part["max_lanes"] = 16
            set_lanes(part, 1)
            part.update(queue_bytes_limit=1 << 20, lane_rows=[0])

    def on_set_lanes(
        self, query: str, operator: int, partition: int, lanes: int, elsewhere: Any = None
    ) -> Any:
        part = self.parts[partition]
        if lanes != part["lanes"]:
            self.changes.append((self.now_s, partition, lanes))
        set_lanes(part, lanes)
        part["lane_of_shard"] = [0] * len(part["lane_of_shard"])  # until they work
        part["lane_rows"] = [0] * lanes
        self.starts.append((self.now_s + EFFECTIVE_S, partition, lanes))
        return super().on_set_lanes(query, operator, partition, lanes)

    def passes(self, seconds: float) -> None:
        for _ in range(round(seconds / STEP_S)):
            self.now_s += STEP_S
            self._step()

    def _step(self) -> None:
        for start in [s for s in self.starts if s[0] <= self.now_s]:
            self.starts.remove(start)
            _, n, count = start
            self.works[n] = count
            self.parts[n]["lane_of_shard"] = [s % count for s in range(64)]
        for n, part in enumerate(self.parts):
            works, counts = self.works[n], self.counts[n]
            self.outside[n] += self.rate * STEP_S
            room = SERVICE * works - self.inside[n] if works > 1 else 0.0  # a second of work
            came = min(self.outside[n], max(0.0, room) + SERVICE * works * STEP_S)
            done = min(self.inside[n] + came, SERVICE * works * STEP_S)
            self.outside[n] -= came
            self.inside[n] += came - done
            for name, more in (("in", came), ("taken", done), ("busy", done / SERVICE)):
                counts[name] += more
            part["rows_in"] = 1000 + int(counts["in"])
            part["rows_taken"] = part["rows_out"] = 1000 + int(counts["taken"])
            part["busy_s"] = 2.0 + counts["busy"]
            part["blocked_s"] += STEP_S if works > 1 and self.outside[n] >= 1 else 0.0
            each = round(self.inside[n] / part["lanes"])
            part["queue_rows"] = [each] * part["lanes"]
            part["queue_bytes"] = [ROW_BYTES * each] * part["lanes"]
        self.past.append([press(part, self.time_ms) for part in self.parts])

    @property
    def time_ms(self) -> int:
        return self.begin_ms + round(1000 * self.now_s)

    def on_snapshot(self) -> dict[str, Any]:
        self.data["time_ms"] = self.time_ms
        return super().on_snapshot()

    def on_await_pressed(
        self, autoscaler: str, run: str, after: int, seconds: float
    ) -> dict[str, Any]:
        self.passes(seconds)
        return {"seq": after, "presses": []}

    def news(self) -> list[Press]:
        return [press_of(each) for each in self.past[0]]

    @property
    def capacity(self) -> float:
        return SERVICE * sum(self.works)

    @property
    def lanes(self) -> list[int]:
        return [part["lanes"] for part in self.parts]

    def turns(self, made: AutoscaleLoop, count: int) -> None:
        for _ in range(count):
            self.passes(1.0)
            made.turn()


def calm(name: str, cores: int = 32) -> tuple[Burst, AutoscaleLoop]:
    world = Burst(cores)
    made = AutoscaleLoop(world, named(name))
    world.turns(made, 12)
    return world, made


@pytest.mark.parametrize("name", SIZING)
def test_eight_times_the_load_is_met_within_half_a_second(name: str) -> None:
    """The next turns would be up to 1 s and 2 s later; all that while rows would wait."""
    world, made = calm(name)
    assert world.lanes == [1] * 4
    world.passes(0.3)
    world.rate, began = 1600.0, world.now_s
    world.passes(0.125)  # when the plugin tells of it
    made._hurry(world.news())
    world.passes(max(0.0, began + 0.5 - world.now_s))
    assert world.capacity >= 4 * 1600, world.changes
    assert all(after > 1 for _, _, after in world.changes)
    assert min(at for at, _, _ in world.changes) - began < 0.15


@pytest.mark.parametrize("name", ACTIVE)
def test_after_a_burst_lanes_hold(name: str) -> None:
    """Enough and not too much for 1,600 rows/s each, and nobody goes back and forth."""
    world, made = calm(name, cores=64)
    before = world.lanes
    world.passes(0.3)
    world.rate = 1600.0
    world.passes(0.125)
    made._hurry(world.news())
    assert all(now >= was for now, was in zip(world.lanes, before, strict=True))
    world.turns(made, 90)
    if name == "resource-centric":  # it counts an operator's lanes, as if keys went to any of them
        assert 13 <= sum(world.lanes) <= 32, world.changes
    else:
        assert all(4 <= lanes <= 8 for lanes in world.lanes), world.changes
        assert max(world.inside) < 1.5 * 1600
    late = {at for at, _, _ in world.changes if at > world.now_s - 45}
    assert len(late) <= 1


@pytest.mark.parametrize("name", ACTIVE)
def test_without_room_a_press_changes_nothing_and_is_soon_over(name: str) -> None:
    world, made = calm(name, cores=4)
    world.rate = 1600.0
    world.turns(made, 5)
    turns, sent = made.turns, len(world.changes)
    world.passes(0.3)
    made._hurry(world.news())
    assert made.turns - turns == 2 and len(world.changes) == sent
    assert world.lanes == [1] * 4


@pytest.mark.parametrize("name", ACTIVE)
def test_what_is_told_by_mistake_changes_nothing_that_lasts(name: str) -> None:
    """A constant load: short turns whenever, and lanes stay as they are."""
    world, made = calm(name)
    settled = len(world.changes)
    for n in range(40):
        world.passes(0.2 + 0.01 * n)
        made._hurry(world.news())
        world.passes(0.5)
        made.turn()
    assert len(world.changes) <= settled + 1


def pressing(gateway: FakeGateway) -> Press:
    (query,) = gateway.data["queries"]
    part = query["operators"][0]["partitions"][0]
    return press_of(press(part, gateway.data["time_ms"]))


def short(gateway: FakeGateway, made: AutoscaleLoop, news: Press | None = None) -> bool:
    one = news or pressing(gateway)
    return made.short_turn({one.key: one}, {one.key})


def waiting(gateway: FakeGateway, **more: Any) -> AutoscaleLoop:
    """Its partitions are measured; from now on the policy wants 4 lanes in one, 1 in the other."""

    def say(cluster: ClusterLoad, answers: int) -> Plan:
        return lanes(p0=4, p1=1)(cluster, answers) if answers else Plan()

    made = AutoscaleLoop(gateway, Scripted(say=say), AutoscaleOptions(**more))
    made.turn()
    made.turn()
    return made


def test_a_short_turn_only_adds() -> None:
    gateway = Moving()
    made = waiting(gateway)
    assert short(gateway, made)
    assert gateway.sent == [("set_lanes", RUNNING, 0, 0, 4)]
    (decision,) = made.decisions()
    assert [change.what for change in decision.changes] == ["running:0.0 2 -> 4 lanes"]
    assert decision.applied and made.turns == 3


def test_a_short_turn_keeps_to_the_budget_beside_what_is_there() -> None:
    gateway = Moving()
    gateway.data["executors"][0].update(cores=8, active_tasks=5)  # five cores for lanes
    made = waiting(gateway)
    assert short(gateway, made)
    assert gateway.sent == [("set_lanes", RUNNING, 0, 0, 3)]  # the other one keeps its two


def test_a_short_turn_measures_since_the_press_and_only_who_is_pressed() -> None:
    seen: list[ClusterLoad] = []
    gateway = Moving()
    made = AutoscaleLoop(gateway, Scripted(say=keeping(seen)))
    for _ in range(3):
        made.turn()
    made.short_turn({}, set())
    assert len(seen) == 2  # nobody is pressed
    parts = gateway.data["queries"][0]["operators"][0]["partitions"]
    begun = press(parts[0], gateway.data["time_ms"] + 900)  # the next look is a second later
    one = press_of(begun | {"rows_in": parts[0]["rows_in"] + 500})
    gateway.rows = 900
    parts[1]["busy_s"] += 10.0
    short(gateway, made, one)
    first, second = seen[-1].partitions
    assert first.offered_rate > 2 * second.offered_rate == pytest.approx(1000)
    made.turn()
    assert seen[-1].partitions[1].service_rate_per_core < 500  # its 10 s count from here on


def test_a_dry_run_and_a_pause_send_nothing() -> None:
    gateway = Moving()
    dry = waiting(gateway, dry_run=True)
    assert not short(gateway, dry)
    assert not dry.decisions()[0].applied
    made = waiting(gateway)
    made.pause()
    assert not short(gateway, made)
    assert gateway.sent == []


def test_a_query_that_rests_or_is_gone_is_not_measured() -> None:
    gateway = Moving()
    made = waiting(gateway)
    for part in gateway.data["queries"][0]["operators"][0]["partitions"]:
        part["batch_id"] += 1
    assert not short(gateway, made)
    gateway.data["queries"][0]["active"] = False
    news = Press(RUN, 0, 0, gateway.data["time_ms"], 0, 0, 0, 0.0, 0.0)
    assert not short(gateway, made, news)
    assert gateway.sent == []


def test_a_press_wakes_the_loop_and_its_end_does() -> None:
    gateway = Moving()
    made = AutoscaleLoop(
        gateway, Scripted(say=lanes(p0=4)), AutoscaleOptions(interval_s=3600.0)
    ).begin()
    until(lambda: made.turns == 1)
    gateway.presses = [press(gateway.data["queries"][0]["operators"][0]["partitions"][0],
                             gateway.data["time_ms"])]  # fmt: skip
    gateway.pressed.set()
    until(lambda: gateway.sent)
    assert gateway.sent[0] == ("set_lanes", RUNNING, 0, 0, 4)
    made.stop()
    assert not made.is_running
    assert 2 <= made.turns <= 1 + MOST_SHORT


def test_a_press_by_chance_leaves_the_loop_awake_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing comes of the first one, and the next turn is an hour away."""
    monkeypatch.setattr("laneshift.autoscale.loop.DEAF_S", 0.05)
    gateway = Moving()
    says = [lanes()]
    policy = Scripted(say=lambda cluster, turn: says[-1](cluster, turn))
    made = AutoscaleLoop(gateway, policy, AutoscaleOptions(interval_s=3600.0)).begin()
    until(lambda: made.turns == 1)
    part = gateway.data["queries"][0]["operators"][0]["partitions"][0]

    def pressed() -> None:
        turns = made.turns
        gateway.presses = [press(part, gateway.data["time_ms"])]
        gateway.pressed.set()
        until(lambda: made.turns >= turns + FRUITLESS)

    pressed()
    assert gateway.sent == []
    says.append(lanes(p0=4))
    pressed()
    assert gateway.sent[0] == ("set_lanes", RUNNING, 0, 0, 4)
    made.stop()
    assert made.turns <= 1 + 2 * MOST_SHORT


def test_who_distributes_keys_waits_for_its_turn() -> None:
    """Short turns drop moves of shards, which the policy would take for carried out."""

    class Asked(Moving):
        waits = 0

        def on_await_pressed(self, *asked: Any) -> dict[str, Any]:
            Asked.waits += asked[-1] > 0
            return super().on_await_pressed(*asked)

    for name in ("laneshift", "mnrt"):
        Asked.waits = 0
        made = AutoscaleLoop(Asked(), named(name), AutoscaleOptions(interval_s=0.01)).begin()
        until(lambda each=made: each.turns > 3)
        made.stop()
        assert not [d.error for d in made.decisions(limit=100) if d.error]
        assert (Asked.waits == 0) == made.policy.distributes


def test_a_wait_that_fails_is_a_wait_all_the_same() -> None:
    class Broken(FakeGateway):
        def on_await_pressed(self, *_: Any) -> dict[str, Any]:
            raise error("LANESHIFT_SESSION_STOPPED", method="awaitPressed")

    waited: list[str] = []
    assert rest(Presses(Broken(), "one"), lambda: waited.append("so long"), 3600.0) == ()
    assert waited == ["so long"]


P0, P1 = PartitionId("q:0.0"), PartitionId("q:0.1")


def island(**held: Lanes) -> Island:
    """Two executors of six lanes; p0 is at home on 1, p1 on 2, each with two elsewhere at most."""
    gateway = FakeGateway()
    for n, part in enumerate(gateway.data["queries"][0]["operators"][0]["partitions"]):
        lanes = held.get(f"p{n}", Lanes(1))
        set_lanes(part, lanes.home)
        part |= {"executor": str(n + 1), "max_lanes": 1000, "max_elsewhere": 2}
        part["wanted_elsewhere"] = [
            {"executor": e, "lanes": there} for e, there in lanes.elsewhere.items()
        ]
    seen = seen_partitions(snapshot_of(gateway.data))
    parts = dict(zip((P0, P1), seen, strict=True))
    return Island("", {"1": Room(6, 6), "2": Room(6, 6)}, parts, None)


def added(wanted: dict[PartitionId, Lanes], there: Island) -> dict[PartitionId, Lanes]:
    """What a short turn sends of a plan for these lanes."""
    held = {name: seen.lanes for name, seen in there.partitions.items()}
    home = {name: seen.home for name, seen in there.partitions.items()}
    on = {name: {e: lanes.on(e, home[name]) for e in "12"} for name, lanes in held.items()}
    parts = [sample(name, cells, home=home[name]) for name, cells in on.items()]
    cells = tuple(
        PlacementChange(name, NodeId(e), on[name][e], after)
        for name, lanes in wanted.items()
        for e in "12"
        if (after := lanes.on(e, home[name])) != on[name][e]
    )
    plan = only_more(Plan(placement_changes=cells), cluster(there.budgets, parts))
    return grown(planned_lanes(plan, there, held), there)


def test_lanes_are_added_executor_by_executor_beside_those_that_are_there() -> None:
    there = island(p0=Lanes(2), p1=Lanes(3, {"1": 1}))
    wanted = {P0: Lanes(8, {"2": 1}), P1: Lanes(1, {})}
    assert added(wanted, there) == {P0: Lanes(5, {"2": 1})}
    wanted = {P0: Lanes(3, {"2": 4}), P1: Lanes(9, {"1": 2})}
    assert added(wanted, there) == {P0: Lanes(3, {"2": 2}), P1: Lanes(4, {"1": 2})}
    assert added({P0: Lanes(2), P1: Lanes(1)}, there) == {}
    assert added({P0: Lanes(2, {"2": 5})}, island(p0=Lanes(2))) == {P0: Lanes(2, {"2": 2})}
