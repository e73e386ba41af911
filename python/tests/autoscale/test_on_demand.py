"""Executors on demand: what a policy would do with more of them, or with fewer."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from autoscale.scripted import Scripted, lanes
from autoscale.test_batches import Batches
from autoscale.test_places import Placing, Spread, cells, look
from laneshift.autoscale.executors import ASK_AFTER_S, _without, need_of
from laneshift.autoscale.loop import AutoscaleLoop
from laneshift.autoscale.measure import Meter
from laneshift.autoscale.options import AutoscaleOptions
from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.ids import PartitionId
from laneshift.contract.plan import Plan
from laneshift.errors import error
from laneshift.policies import registry
from laneshift_lab.samples import cluster, partition
from plugin.fake import executor

POLICIES = ["laneshift", "elasticutor", "naive-ec"]


class Growing(Spread):
    """Partitions 0 and 1 are on executor 1, whose two cores are too few for 5 cores of work.

    Executors that are asked for are there at the next look, unless there is no ``room``.
    """

    def __init__(self, most: int = 3, cores: int = 2) -> None:
        super().__init__(cores)
        del self.data["executors"][1:]
        for part in self.parts:
            part["executor"] = "1"
        self.standing = {
            "most": most,
            "rest_s": 5.0,
            "there": 1,
            "requested": 1,
            "at_start": 1,
            "asked": [],
            "why": None,
        }
        self.room = True
        self.next = 2
        self.idle = False

    @property
    def ids(self) -> list[str]:
        return [e["executor"] for e in self.data["executors"]]

    def on_snapshot(self) -> dict[str, Any]:
        if self.idle:
            for part in self.parts:
                part["rows_in"] -= self.rows - 1
                part["rows_taken"] -= self.rows - 1
            self.data["time_ms"] += 1000
            return super(Spread, self).on_snapshot()
        return super().on_snapshot()

    def on_demand_executors(
        self, autoscaler: str, most: int, total: int, give_back: Sequence[str]
    ) -> dict[str, Any]:
        super().on_demand_executors(autoscaler, most, total, give_back)
        how = self.standing
        how["requested"] = max(total, how["requested"]) if total else how["requested"]
        while self.room and how["there"] < how["requested"]:
            self.data["executors"].append(executor(str(self.next), 2, 0, asked=True))
            how["asked"].append(str(self.next))
            how["there"] += 1
            self.next += 1
        for id in give_back:
            how["asked"].remove(id)
            how["there"] -= 1
            how["requested"] -= 1
            self.data["executors"] = [e for e in self.data["executors"] if e["executor"] != id]
        return how


def begun(gateway: Growing, policy: Any, **more: Any) -> AutoscaleLoop:
    made = AutoscaleLoop(gateway, policy, AutoscaleOptions(**more))
    made._turns.on_demand.begin()
    return made


def turns(made: AutoscaleLoop, count: int) -> list[str]:
    return [line for _ in range(count) for d in made.turn() for line in d.lines()]


@pytest.mark.parametrize("policy", POLICIES)
def test_executors_come_for_what_a_policy_would_use_and_go_again(policy: str) -> None:
    gateway = Growing()
    made = begun(gateway, registry.policy(policy))
    said = turns(made, 20)
    assert gateway.ids == ["1", "2", "3"], said
    (asked, *_) = [line for line in said if "asks Spark for" in line]
    assert "of at most 3: with enough of them lanes would get" in asked, asked
    assert "running:0.0" in asked and "lanes instead of" in asked
    there = {w["executor"] for part in gateway.parts for w in part["wanted_elsewhere"]}
    assert there == {"2", "3"}, "lanes go to those that have come"
    totals = [total for _, total, _ in gateway.demanded if total]
    assert max(totals) == 3
    # Load falls: lanes come home, and executors go, one rest after the other or both.
    gateway.idle = True
    said = turns(made, 60)
    assert gateway.ids == ["1"], said
    assert sum("is given back: for 5 s no lane" in line for line in said) == 2
    given = [e for _, _, back in gateway.demanded for e in back]
    assert sorted(given) == ["2", "3"]
    there = {w["executor"] for part in gateway.parts for w in part["wanted_elsewhere"]}
    assert there == set()


def test_what_is_there_and_enough_asks_for_nothing() -> None:
    gateway = Growing(cores=16)
    made = begun(gateway, registry.policy("laneshift"))
    turns(made, 15)
    assert {total for _, total, _ in gateway.demanded} == {0} and gateway.ids == ["1"]


def test_rows_that_are_not_worth_their_way_bring_no_executors() -> None:
    gateway = Growing()
    made = begun(gateway, registry.policy("laneshift"))
    for part in gateway.parts:
        part["busy_s"] = 0.0
    whole = gateway.on_snapshot

    def cheap() -> dict[str, Any]:
        data = whole()
        for part in data["queries"][0]["operators"][0]["partitions"]:
            part["busy_s"] /= 1000  # a row is 5 microseconds, less than its way
        return data

    gateway.on_snapshot = cheap  # type: ignore[method-assign]
    said = turns(made, 15)
    assert {total for _, total, _ in gateway.demanded} == {0}, said


def test_executors_that_spark_uses_go_if_what_is_on_them_has_room_elsewhere() -> None:
    gateway = Growing()
    made = begun(gateway, registry.policy("laneshift"))
    turns(made, 20)
    gateway.idle = True
    gateway.data["executors"][1]["active_tasks"] = 1
    gateway.parts[1]["executor"] = "3"
    whole = gateway.on_snapshot

    def computed_elsewhere() -> dict[str, Any]:
        for part in gateway.parts:
            part["executor"] = part["executor"] if part["executor"] in gateway.ids else "1"
        return whole()

    gateway.on_snapshot = computed_elsewhere  # type: ignore[method-assign]
    said = turns(made, 60)
    assert gateway.ids == ["1"], said


@pytest.mark.parametrize(
    ("tasks", "stay"), [((1, 0, 1), "1"), ((2, 1, 0), "12"), ((2, 2, 2), "123")]
)
def test_executors_stay_if_the_others_have_too_few_slots_for_their_tasks(
    tasks: tuple[int, ...], stay: str
) -> None:
    gateway = Growing()
    made = begun(gateway, registry.policy("laneshift"))
    turns(made, 20)
    gateway.idle = True
    for there, n in zip(gateway.data["executors"], tasks, strict=True):
        there["active_tasks"] = int(n)
    # A task goes where there is a slot once its executor has gone.
    whole = gateway.on_snapshot

    def moved() -> dict[str, Any]:
        missing = sum(tasks) - sum(e["active_tasks"] for e in gateway.data["executors"])
        for there in gateway.data["executors"]:
            more = min(missing, there["cores"] - there["active_tasks"])
            there["active_tasks"] += more
            missing -= more
        assert missing == 0
        return whole()

    gateway.on_snapshot = moved  # type: ignore[method-assign]
    said = turns(made, 60)
    assert gateway.ids == list(stay), said


def test_no_executor_goes_with_lanes_of_a_query_that_another_one_drives() -> None:
    gateway = Growing()
    (mine,) = gateway.data["queries"]
    made = begun(gateway, registry.policy("laneshift"), query=mine["run_id"])
    turns(made, 20)
    theirs = copy.deepcopy(mine) | {"id": "o", "run_id": "o", "name": "other"}
    for part in theirs["operators"][0]["partitions"]:
        part["wanted_elsewhere"] = [{"executor": "3", "lanes": 1}]
    whole, looks = gateway.on_snapshot, []

    def both() -> dict[str, Any]:
        looks.append(1)
        return whole() | {"queries": [mine, theirs]}

    gateway.on_snapshot, gateway.idle = both, True  # type: ignore[method-assign]
    turns(made, 60)
    assert gateway.ids == ["1", "3"] and looks


def test_who_has_come_and_does_not_run_the_plugin_yet_is_not_asked_for_again() -> None:
    gateway = Growing(most=9)
    made = begun(gateway, registry.policy("laneshift"))
    whole = gateway.on_snapshot

    def early() -> dict[str, Any]:
        data = whole()
        return data | {"executors": data["executors"][:1]}

    gateway.on_snapshot = early  # type: ignore[method-assign]
    turns(made, 30)
    totals = {total for _, total, _ in gateway.demanded if total}
    assert len(totals) == 1 and len(gateway.ids) == max(totals), gateway.demanded


def test_a_dry_run_and_a_pause_ask_for_nothing_and_say_so() -> None:
    gateway = Growing()
    made = begun(gateway, registry.policy("laneshift"), dry_run=True)
    said = turns(made, 10)
    assert any("asks Spark for" in line for line in said)
    assert {(total, back) for _, total, back in gateway.demanded} == {(0, ())}
    assert gateway.ids == ["1"]
    gateway = Growing()
    made = begun(gateway, registry.policy("laneshift"))
    made.pause()
    turns(made, 10)
    assert {total for _, total, _ in gateway.demanded} == {0}
    made.resume()
    turns(made, 2 + int(ASK_AFTER_S))
    turns(made, 10)
    assert len(gateway.ids) > 1


def test_without_the_option_it_looks_once() -> None:
    gateway = Growing(most=0)
    made = begun(gateway, registry.policy("laneshift"))
    turns(made, 10)
    assert gateway.demanded == [(0, 0, ())]
    off = Growing()
    made = begun(off, registry.policy("laneshift"), max_executors=0)
    turns(made, 10)
    assert off.demanded == []


def test_why_none_can_be_asked_for_is_said_once() -> None:
    gateway = Growing()
    gateway.standing["why"] = "with the master local[2] there are none"
    said = turns(begun(gateway, registry.policy("laneshift")), 10)
    assert sum("no executors are asked for: with the master local[2]" in s for s in said) == 1
    gateway = Growing()
    gateway.standing |= {"there": 5, "requested": 5}
    said = turns(begun(gateway, registry.policy("laneshift")), 10)
    assert sum("5 are there, at most 3" in line for line in said) == 1
    said = turns(begun(Growing(), Scripted(say=lanes(p0=2))), 5)
    assert sum("scripted gives no lanes to other executors" in line for line in said) == 1


def test_a_plugin_that_fails_stops_no_lanes() -> None:
    gateway = Growing(cores=4)
    made = begun(gateway, registry.policy("laneshift"))

    def fails(*_: object) -> dict[str, Any]:
        raise error("LANESHIFT_JVM_FAILED", method="demandExecutors", cause="why")

    gateway.on_demand_executors = fails  # type: ignore[method-assign]
    said = turns(made, 6)
    assert any("executors on demand: [LANESHIFT_JVM_FAILED]" in line for line in said)
    assert gateway.parts[0]["lanes"] > 1


def test_a_demand_that_cannot_be_is_refused_at_the_start() -> None:
    gateway = Growing()

    def refuses(*_: object) -> dict[str, Any]:
        raise error("LANESHIFT_EXECUTORS_MAX", most=1, there=3)

    gateway.on_demand_executors = refuses  # type: ignore[method-assign]
    made = AutoscaleLoop(gateway, registry.policy("laneshift"), AutoscaleOptions(max_executors=1))
    with pytest.raises(ValueError, match="allowed are 3 to 10000"):
        made.begin()
    assert not made.is_running and gateway.released == 1


def test_an_executor_is_spare_if_the_policy_says_so_and_not_if_cores_would_do() -> None:
    gateway = Spread()
    gateway.data["executors"].append(executor("4", 4, 0))
    meter = Meter(places=True)
    look(meter, gateway)
    cluster = look(meter, gateway).cluster
    assert cluster is not None

    def say(seen: ClusterLoad, _: int) -> Plan:
        there = {node.node for node in seen.nodes}
        return cells(p0={"1": 2 if "3" in there else 1})(seen, 0)

    policy = Placing(say=say)
    plan, _ = policy.answer(cluster, 0)

    def spare(*candidates: str) -> tuple[str, ...]:
        return need_of(
            policy, 0, cluster, plan, more=0, cores=4, candidates=candidates, most={}
        ).spare

    assert (spare("4"), spare("4", "3")) == (("4",), ("4",))
    assert (spare("3"), spare("3", "4")) == ((), ())


def home(of: ClusterLoad, name: str) -> tuple[str, dict[str, int]]:
    part = of.partition(PartitionId(name))
    return part.home, {held.node: held.cores for held in part.placement}


def test_partitions_have_another_home_where_theirs_has_gone() -> None:
    kept = replace(partition("p0", {"1": 1, "2": 2}), kept_at_home=1)
    bound = replace(partition("p1", {"1": 2}), stays_home=True)
    other = partition("p2", {"3": 1, "1": 1})
    seen = cluster({"1": 4, "2": 3, "3": 3}, [kept, bound, other])
    assert seen.partition(PartitionId("p0")).cores == 3
    less = _without(seen, {"1"})
    assert less is not None and [node.node for node in less.nodes] == ["2", "3"]
    assert home(less, "p0") == ("2", {"2": 2}), "where it has lanes already"
    assert home(less, "p1") == ("3", {"3": 2}), "where there is room for all that it has"
    assert home(less, "p2") == ("3", {"3": 1})
    assert _without(seen, {"1", "3"}) is None, "no room for two cores of p1"
    assert _without(seen, {"1", "2", "3"}) is None, "no executor is left"


def test_an_executor_without_which_partitions_have_no_home_is_not_spare() -> None:
    kept = [replace(partition(f"p{i}", {f"{i}": 1}), kept_at_home=1) for i in (1, 2)]
    policy = Placing(say=cells())
    for cores, spare in ((1, ()), (2, ("2",))):
        seen = cluster({"1": cores, "2": cores}, kept)
        plan, _ = policy.answer(seen, 0)
        found = need_of(policy, 0, seen, plan, more=0, cores=cores, candidates=["2"], most={})
        assert found.spare == spare


def test_batches_ask_for_the_cores_that_would_bring_them_home_in_time() -> None:
    gateway = Batches(cores=2, lanes=1)
    gateway.cost_s = 3e-4  # 6 cores of work
    gateway.standing |= {"most": 9}
    made = AutoscaleLoop(gateway, registry.policy("laneshift"))
    made._turns.on_demand.begin()
    for _ in range(5):
        gateway.batch()
        turns(made, 3)
    (asked, *_) = [total for _, total, _ in gateway.demanded if total]
    # At 70 % of the interval less what lanes do not shorten: 30 s of work / 3.2 s are 10 cores.
    assert asked in (5, 6), gateway.demanded


def test_executors_rest_while_no_query_runs() -> None:
    gateway = Growing()
    made = begun(gateway, registry.policy("laneshift"))
    turns(made, 20)
    gateway.data["queries"][0]["active"] = False
    gateway.idle = True
    said = turns(made, 10)
    assert gateway.ids == ["1"], said
