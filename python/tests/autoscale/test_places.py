"""A policy that places lanes sees all executors, and its placement is carried out."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from autoscale.scripted import Moving, Scripted
from laneshift.autoscale.cores import Island, fitting
from laneshift.autoscale.loop import AutoscaleLoop
from laneshift.autoscale.measure import Meter
from laneshift.autoscale.pictures import Lanes
from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.ids import NodeId, PartitionId
from laneshift.contract.plan import CoreChange, PlacementChange, Plan
from laneshift.contract.policy import Policy
from laneshift.policies import registry
from plugin.fake import RUNNING, executor, set_lanes, snapshot_of

P0, P1 = PartitionId("running:0.0"), PartitionId("running:0.1")


def lane(number: int, on: str) -> dict[str, Any]:
    counts = ("kept_bytes", "rows_sent", "frames", "state_reads", "bytes_sent", "bytes_received")
    return {"lane": number, "executor": on, "open": True} | dict.fromkeys(counts, 0)


class Spread(Moving):
    """Partition 0 on executor 1 with ten times the rows, partition 1 on executor 2; 3 has none.

    What is wanted elsewhere is there at once.
    """

    rows = 100

    def __init__(self, cores: int = 4) -> None:
        super().__init__()
        self.data["executors"] = [executor(str(e), cores, active_tasks=e < 3) for e in (1, 2, 3)]
        for part, home in zip(self.parts, "12", strict=True):
            part["executor"] = home
            part["bytes_in_per_s"] = part["bytes_out_per_s"] = 0.0
            set_lanes(part, 1)
        self.parts[0]["queue_rows"] = self.parts[0]["queue_bytes"] = [0]
        self.refuses: set[str] = set()

    @property
    def parts(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.data["queries"][0]["operators"][0]["partitions"]
        return found

    def on_snapshot(self) -> dict[str, Any]:
        for part, rows, row_s in zip(self.parts, (1000, 100), (0.005, 0.005), strict=True):
            done = min(rows, round(part["lanes"] / row_s))
            part["rows_in"] += done - self.rows
            part["rows_taken"] += done - self.rows
            part["bytes_in"] += 200 * done
            part["busy_s"] += done * row_s - 0.5
            part["blocked_s"] += 0.5 if done < rows else 0.0
        return super().on_snapshot()

    def on_set_lanes(
        self, query: str, operator: int, partition: int, lanes: int, elsewhere: Any = None
    ) -> Any:
        part = self.parts[partition]
        if elsewhere is not None:
            there = {e: n for e, n in elsewhere.items() if e not in self.refuses}
            if there != elsewhere:
                part["elsewhere_note"] = "it does not answer"
            part["wanted_elsewhere"] = [{"executor": e, "lanes": n} for e, n in there.items()]
        wanted = [w["executor"] for w in part["wanted_elsewhere"] for _ in range(w["lanes"])]
        set_lanes(part, lanes + len(wanted))
        part["elsewhere"] = [lane(lanes + i, on) for i, on in enumerate(wanted)]
        return super().on_set_lanes(query, operator, partition, lanes, elsewhere)


@dataclass(frozen=True, kw_only=True)
class Placing(Scripted):
    """Says where lanes are to be."""

    places: ClassVar[bool] = True


def cells(**wanted: dict[str, int]) -> Callable[[ClusterLoad, int], Plan]:
    """A plan for ``running:0.N``: pN={node: cores}."""

    def say(cluster: ClusterLoad, _: int) -> Plan:
        counts, places = [], []
        for name, nodes in wanted.items():
            part = cluster.partitions[int(name[1:])]
            for node, after in nodes.items():
                before = part.cores_on(NodeId(node))
                if before != after:
                    places.append(PlacementChange(part.partition, NodeId(node), before, after))
            total = part.cores + sum(
                c.after - c.before for c in places if c.partition == part.partition
            )
            if total != part.cores:
                counts.append(CoreChange(part.partition, part.cores, total))
        return Plan(core_changes=tuple(counts), placement_changes=tuple(places))

    return say


def look(meter: Meter, gateway: Spread) -> Island:
    (island,) = meter.measure(gateway.snapshot())
    return island


def placing(gateway: Spread, **wanted: dict[str, int]) -> AutoscaleLoop:
    made = AutoscaleLoop(gateway, Placing(say=cells(**wanted)))
    assert made.turn() == ()
    return made


def test_all_executors_are_one_cluster_to_who_places() -> None:
    meter = Meter(places=True)
    gateway = Spread()
    gateway.parts[1]["max_elsewhere"] = 0
    look(meter, gateway)
    island = look(meter, gateway)
    assert island.cluster is not None and island.spans
    assert [(n.node, n.cores) for n in island.cluster.nodes] == [("1", 4), ("2", 4), ("3", 4)]
    hot, stays = island.cluster.partitions
    assert (hot.home, hot.kept_at_home, hot.stays_home, hot.max_cores) == ("1", 1, False, 8)
    assert (stays.home, stays.kept_at_home, stays.stays_home, stays.max_cores) == ("2", 1, True, 4)


def test_executors_are_apart_where_nobody_may_go_elsewhere_or_the_policy_does_not_place() -> None:
    gateway = Spread()
    assert len(Meter().measure(snapshot_of(gateway.data))) == 2
    for part in gateway.parts:
        part["max_elsewhere"] = 0
    assert len(Meter(places=True).measure(snapshot_of(gateway.data))) == 2


def test_lanes_elsewhere_are_cores_held_there() -> None:
    meter = Meter(places=True)
    gateway = Spread()
    gateway.on_set_lanes(RUNNING, 0, 0, 2, {"2": 1, "3": 2})
    look(meter, gateway)
    island = look(meter, gateway)
    assert island.cluster is not None
    hot = island.cluster.partition(P0)
    assert {c.node: c.cores for c in hot.placement} == {"1": 2, "2": 1, "3": 2}
    assert [x.node for x in hot.lanes] == ["1", "1", "2", "3", "3"]
    assert hot.shards is not None


def test_the_rate_of_a_core_is_that_of_lanes_at_home() -> None:
    meter = Meter(places=True)
    gateway = Spread()
    look(meter, gateway)
    gateway.on_set_lanes(RUNNING, 0, 0, 1, {"3": 4})
    # Elsewhere a row takes ten times as long to be answered for.
    gateway.parts[0]["rows_taken_elsewhere"] += 800
    gateway.parts[0]["busy_elsewhere_s"] += 40.0
    gateway.parts[0]["busy_s"] += 40.0 - 4.0
    island = look(meter, gateway)
    assert island.cluster is not None
    assert island.cluster.partition(P0).service_rate_per_core == pytest.approx(200, rel=0.05)


def test_tasks_of_a_host_that_has_no_partition_take_its_cores() -> None:
    meter = Meter(places=True)
    gateway = Spread()
    gateway.data["executors"][2]["active_tasks"] = 3
    assert look(meter, gateway).budgets == {"1": 4, "2": 4, "3": 1}
    gateway.data["executors"][2]["active_tasks"] = 0  # a moment ago they were there
    assert look(meter, gateway).budgets["3"] == 1


def test_an_executor_that_joins_is_there_at_once_and_one_that_leaves_is_not() -> None:
    meter = Meter(places=True)
    gateway = Spread()
    look(meter, gateway)
    gateway.data["executors"].append(executor("4", 8, active_tasks=0))
    gateway.data["executors"][2]["leaving"] = True
    gateway.data["executors"][1]["leaving"] = True
    island = look(meter, gateway)
    # Executor 2 is home to a partition, which keeps its lane.
    assert island.budgets == {"1": 4, "2": 1, "4": 8}


def test_what_others_have_on_an_executor_is_not_to_be_had() -> None:
    gateway = Spread()
    other = copy.deepcopy(gateway.data["queries"][0]) | {"id": "9", "run_id": "99", "name": "other"}
    other["operators"][0]["partitions"] = [
        gateway.parts[0] | {"wanted_elsewhere": [{"executor": "3", "lanes": 3}]}
    ]
    gateway.data["queries"].append(other)
    meter = Meter(query=RUNNING[::-1], places=True)
    (island,) = meter.measure(snapshot_of(gateway.data))
    assert island.budgets["3"] == 1


def test_a_placement_is_carried_out() -> None:
    gateway = Spread()
    autoscaler = placing(gateway, p0={"1": 3, "3": 2})
    (decision,) = autoscaler.turn()
    assert gateway.sent == [("set_lanes", RUNNING, 0, 0, 3, {"3": 2})]
    (change,) = decision.changes
    assert change.what == "running:0.0 1 -> 5 lanes, 2 on executor 3"
    assert gateway.told[0]["changes"][0]["elsewhere"] == "2 on executor 3"
    assert decision.executor == ""
    (again,) = autoscaler.turn()
    assert again.changes == () and len(gateway.sent) == 1
    (back,) = placing(gateway, p0={"1": 4, "3": 0}).turn()
    assert gateway.sent[1:] == [("set_lanes", RUNNING, 0, 0, 4)]  # none elsewhere
    assert gateway.parts[0]["wanted_elsewhere"] == []
    assert back.changes[0].what == "running:0.0 5 -> 4 lanes"


def test_lanes_that_somebody_wants_elsewhere_stay_if_the_policy_does_not_place() -> None:
    gateway = Spread()
    gateway.on_set_lanes(RUNNING, 0, 0, 1, {"3": 4})
    seen: list[ClusterLoad] = []

    def say(cluster: ClusterLoad, _: int) -> Plan:
        seen.append(cluster)
        (part,) = cluster.partitions
        wanted = 7 if part.partition == P0 else 1
        changed = (CoreChange(part.partition, part.cores, wanted),) if part.cores != wanted else ()
        return Plan(core_changes=changed)

    autoscaler = AutoscaleLoop(gateway, Scripted(say=say))
    autoscaler.turn()
    changes = [c.what for d in autoscaler.turn() for c in d.changes]
    assert changes == ["running:0.0 5 -> 7 lanes, 4 on executor 3"]
    hot = next(c.partition(P0) for c in seen if c.partitions[0].partition == P0)
    assert (hot.cores, hot.cores_on(NodeId("1"))) == (5, 5)
    assert gateway.sent[1:] == [("set_lanes", RUNNING, 0, 0, 3)]  # and the four elsewhere
    assert gateway.parts[0]["wanted_elsewhere"] == [{"executor": "3", "lanes": 4}]


def test_an_executor_that_leaves_is_left_first_whatever_the_policy_says() -> None:
    gateway = Spread()
    gateway.on_set_lanes(RUNNING, 0, 0, 2, {"2": 1, "3": 2})
    autoscaler = placing(gateway)
    gateway.data["executors"][2]["leaving"] = True
    (decision,) = autoscaler.turn()
    (change,) = decision.changes
    assert str(change) == ("running:0.0 5 -> 3 lanes, 1 on executor 2: executor 3 is leaving")
    assert gateway.sent[1:] == [("set_lanes", RUNNING, 0, 0, 2, {"2": 1})]


def test_a_host_whose_cores_spark_needs_gives_way() -> None:
    gateway = Spread()
    gateway.on_set_lanes(RUNNING, 0, 0, 2, {"3": 4})
    autoscaler = placing(gateway)
    gateway.data["executors"][2]["active_tasks"] = 3
    (decision,) = autoscaler.turn()
    assert str(decision.changes[0]) == (
        "running:0.0 6 -> 3 lanes, 1 on executor 3: executor 3 needs its cores"
    )


def test_who_refuses_lanes_is_left_alone_for_a_while() -> None:
    gateway = Spread()
    gateway.refuses = {"3"}
    autoscaler = placing(gateway, p0={"1": 2, "2": 1, "3": 2})
    (first,) = autoscaler.turn()
    assert first.changes[0].what == "running:0.0 1 -> 5 lanes, 1 on executor 2, 2 on executor 3"
    (second,) = autoscaler.turn()
    assert second.changes == ()
    assert second.notes == (
        "running:0.0 has 0 of 2 lanes on executor 3 (it does not answer): it is asked for more"
        " in 30 s",
    )
    for _ in range(28):
        autoscaler.turn()
    assert len(gateway.sent) == 1
    gateway.refuses = set()
    for _ in range(3):
        autoscaler.turn()
    assert len(gateway.sent) == 2 and gateway.parts[0]["lanes"] == 5


def test_who_takes_lanes_off_later_is_left_alone_too() -> None:
    gateway = Spread()
    autoscaler = placing(gateway, p0={"1": 2, "3": 2})
    autoscaler.turn()
    autoscaler.turn()
    part = gateway.parts[0]  # as the plugin does where an executor needs its cores
    part["wanted_elsewhere"], part["elsewhere_note"] = [], "executor 3 needs its cores"
    part["elsewhere"] = []
    set_lanes(part, 2)
    (decision,) = autoscaler.turn()
    assert decision.changes == () and "needs its cores" in decision.notes[0]
    assert len(gateway.sent) == 1


def test_fitting_takes_lanes_of_others_first() -> None:
    held = {P0: ("1", Lanes(3, {"2": 2})), P1: ("2", Lanes(3, {"1": 1}))}
    assert fitting(held, {"1": 4, "2": 5}) == {name: lanes for name, (_, lanes) in held.items()}
    assert fitting(held, {"1": 3, "2": 4}) == {P0: Lanes(3, {"2": 1}), P1: Lanes(3)}
    assert fitting(held, {"1": 2, "2": 1}) == {P0: Lanes(2), P1: Lanes(1)}


@pytest.mark.parametrize("name", ["elasticutor", "naive-ec", "laneshift", "resource-centric"])
def test_policies_that_place_use_other_executors(name: str) -> None:
    """Five cores of work, two at home: the others come from elsewhere, and results are told."""
    policy: Policy[Any] = registry.policy(name)
    assert policy.places
    gateway = Spread(cores=3)
    autoscaler = AutoscaleLoop(gateway, policy)
    decisions = [d for _ in range(12) for d in autoscaler.turn()]
    assert not [d.error for d in decisions if d.error]
    hot, other = gateway.parts
    wanted = {w["executor"]: w["lanes"] for w in hot["wanted_elsewhere"]}
    if name == "resource-centric":  # it waits for shards to go to the other partition, in vain
        assert hot["lanes"] + other["lanes"] >= 4 and wanted
    else:
        assert 6 <= hot["lanes"] <= 8 and sum(wanted.values()) >= 3, (hot["lanes"], wanted)
        assert other["wanted_elsewhere"] == []
    told = [c for d in decisions for c in d.changes if c.partition == P0 and c.elsewhere]
    assert told and "on executor" in told[0].what


@pytest.mark.parametrize("name", ["elasticutor", "naive-ec", "laneshift", "resource-centric"])
def test_an_operator_whose_lanes_stay_home_has_none_elsewhere(name: str) -> None:
    gateway = Spread(cores=3)
    gateway.parts[0]["max_elsewhere"] = 0
    autoscaler = AutoscaleLoop(gateway, registry.policy(name))
    decisions = [d for _ in range(8) for d in autoscaler.turn()]
    assert not [d.error for d in decisions if d.error]
    assert gateway.parts[0]["lanes"] == 3 or name == "resource-centric"
    mine = [sent for sent in gateway.sent if sent[:4] == ("set_lanes", RUNNING, 0, 0)]
    assert mine and all(len(sent) == 5 or not sent[5] for sent in mine)


def test_laneshift_says_why_lanes_are_elsewhere_or_are_not() -> None:
    gateway = Spread(cores=3)
    autoscaler = AutoscaleLoop(gateway, registry.policy("laneshift"))
    decisions = [d for _ in range(8) for d in autoscaler.turn()]
    reasons = [c.reason for d in decisions for c in d.changes if c.elsewhere]
    assert "executor 1 has 3 cores, and a row is 5 ms of work, its way to another one" in reasons[0]

    class Cheap(Spread):
        """Rows of a few microseconds, more of them than three cores take."""

        def on_snapshot(self) -> dict[str, Any]:
            self.data["time_ms"] += 1000
            for part in self.parts:
                rows = 100_000 * part["lanes"]
                part["rows_in"] += rows
                part["rows_taken"] += rows
                part["busy_s"] += part["lanes"] * 0.99
                part["blocked_s"] += 0.9
                part["bytes_in"] += 200 * rows
            return copy.deepcopy(self.data)

    gateway = Cheap(cores=3)
    autoscaler = AutoscaleLoop(gateway, registry.policy("laneshift"))
    decisions = [d for _ in range(8) for d in autoscaler.turn()]
    assert gateway.parts[0]["wanted_elsewhere"] == []
    assert gateway.parts[0]["lanes"] == 3
    notes = [n for d in decisions for n in d.notes]
    assert any(
        n.startswith("placement: running:0.0 stays on executor 1: a row is 9.9 µs of work")
        for n in notes
    ), notes


def test_laneshift_comes_home_when_there_is_room() -> None:
    gateway = Spread(cores=6)
    gateway.on_set_lanes(RUNNING, 0, 0, 2, {"3": 4})
    autoscaler = AutoscaleLoop(gateway, registry.policy("laneshift"))
    for _ in range(12):
        autoscaler.turn()
    assert gateway.parts[0]["wanted_elsewhere"] == [], gateway.parts[0]["lanes"]
