"""A planner's plans become commands: shards, work apart, and the say over both."""

from __future__ import annotations

from typing import Any

import pytest

from autoscale.scripted import Moving
from laneshift.autoscale.loop import AutoscaleLoop
from laneshift.autoscale.measure import shard_of
from laneshift.autoscale.options import AutoscaleOptions
from laneshift.errors import error
from laneshift.policies import registry
from plugin.fake import RUNNING, partition

# The key 0badcafe of the fake snapshots.
HOT_SHARD = shard_of("0badcafe", 2, 8)


class Uneven(Moving):
    """Two partitions of one operator, in whose first the shard of the hot key has most."""

    def __init__(self, above: str = "with-state", hot: float = 70.0) -> None:
        super().__init__()
        self.operator["above"] = above
        self.refuses = False
        for part in self.operator["partitions"]:
            part["shard_load"] = [1.0] * 8
            part["hot_keys"] = []
        first = self.operator["partitions"][0]
        first["shard_load"][HOT_SHARD] = hot
        first["hot_keys"] = [{"key": "0badcafe", "value": None, "share": hot / (hot + 7)}]

    @property
    def operator(self) -> dict[str, Any]:
        operator: dict[str, Any] = self.data["queries"][0]["operators"][0]
        return operator

    def on_claim_keys(
        self, query: str, operator: int, apart: str, seconds: float
    ) -> dict[str, Any]:
        if self.refuses:
            raise error("LANESHIFT_NO_STATE_PARTITIONS", value="The query")
        return super().on_claim_keys(query, operator, apart, seconds)

    def wishes(self) -> list[tuple[Any, ...]]:
        return [command[1:] for command in self.sent if command[0] == "claim_keys"]

    def others(self) -> list[tuple[Any, ...]]:
        return [command for command in self.sent if command[0] != "claim_keys"]


def started(gateway: Uneven, name: str, **parameters: Any) -> AutoscaleLoop:
    loop = {k: parameters.pop(k) for k in ("dry_run", "trace") if k in parameters}
    return AutoscaleLoop(gateway, registry.policy(name, **parameters), AutoscaleOptions(**loop))


def notes(made: AutoscaleLoop, turns: int = 1) -> list[str]:
    return [note for _ in range(turns) for d in made.turn() for note in d.notes]


def test_shards_of_keys_are_those_of_the_plugin() -> None:
    # floorMod(hash, partitions * shards) / partitions, hashes are of 32 bits with a sign
    assert [shard_of(key, 3, 64) for key in ("00000000", "0000002c", "7fffffff")] == [0, 14, 42]
    assert [shard_of(key, 3, 64) for key in ("ffffffff", "80000000")] == [63, 21]


def test_shards_move_by_the_plan_and_the_plugin_is_told_not_to() -> None:
    gateway = Uneven(hot=1.0)
    part = gateway.operator["partitions"][1]
    part["shard_load"] = [9.0, 1.0, 9.0, 1.0, 9.0, 1.0, 9.0, 1.0]
    made = started(gateway, "mnrt")
    assert made.turn() == ()
    assert gateway.sent == [("claim_keys", RUNNING, 0, "false", 6.0)]
    (decision,) = made.turn()
    moves = [command for command in gateway.others() if command[0] == "move_shard"]
    assert moves and gateway.others() == moves
    assert {command[3] for command in moves} == {1} and {command[5] for command in moves} == {1}
    assert decision.shard_moves == len(moves) and decision.applied
    (note,) = decision.notes
    assert note.startswith(f"running:0.1: {len(moves)} shard") and "1.80 times the mean" in note
    assert gateway.told[-1]["notes"] == [note]
    made.stop()


def test_the_work_of_a_hot_key_goes_apart_and_comes_back() -> None:
    gateway = Uneven()
    made = started(gateway, "mnrt")
    made.turn()
    found = notes(made)
    (said,) = [n for n in found if "goes to any lane from the next batch on" in n]
    assert "running:0.0: key #0badcafe in 2 parts" in said
    assert gateway.wishes() == [(RUNNING, 0, "false", 6.0), (RUNNING, 0, "true", 6.0)]
    assert not any("apart" in n for n in notes(made, 3))
    assert gateway.wishes()[-1] == (RUNNING, 0, "true", 6.0)
    gateway.operator["partitions"][0]["shard_load"] = [1.0] * 8
    assert any("work comes back" in n for n in notes(made, 4))
    assert gateway.wishes()[-1] == (RUNNING, 0, "false", 6.0)


def test_where_nothing_can_go_apart_it_is_said_once_and_not_asked_for() -> None:
    gateway = Uneven(above="none")
    made = started(gateway, "w-choices")
    found = notes(made, 5)
    (said,) = found
    assert "cannot go to any lane" in said and "more fields in the key" in said
    assert {claim[2] for claim in gateway.wishes()} == {""}


def test_lanes_that_are_apart_are_those_that_the_key_is_split_over() -> None:
    gateway = Uneven(above="apart")
    above = {
        "operator_id": 1000,
        "name": "rowWise",
        "handoff": "dealt",
        "upstream": [0],
        "partitions": [partition(0, shards=1, lanes=1), partition(1, shards=1, lanes=1)],
        "tasks": 2,
        "partition_count": 2,
        "inputs": 1,
        "above": "none",
    }
    gateway.data["queries"][0]["operators"].append(above)
    gateway.data["executors"][0] |= {"cores": 16, "active_tasks": 2}
    made = started(gateway, "w-choices")
    for _ in range(3):
        made.turn()
    assert [c for c in gateway.others() if c[0] == "set_lanes"][:1] == [
        ("set_lanes", RUNNING, 1000, 0, 2)
    ]
    assert {claim[1] for claim in gateway.wishes()} == {0}


@pytest.mark.parametrize(("sizing", "left"), [(None, True), ("static", False)])
def test_lanes_that_are_the_plugins_stay_so_unless_somebody_sizes(
    sizing: str | None, left: bool
) -> None:
    gateway = Uneven(hot=1.0)
    for part in gateway.operator["partitions"]:
        part["auto"] = True
    made = started(gateway, "qmmp", sizing=sizing)
    for _ in range(3):
        made.turn()
    assert ([c for c in gateway.others() if c[0] == "set_lanes"] == []) == left


def test_a_dry_run_says_the_same_and_sends_nothing() -> None:
    gateway = Uneven()
    made = started(gateway, "qmmp", dry_run=True, tolerance=0.05)
    found = notes(made, 2)
    assert any("(not carried out)" in n and "shard" in n for n in found)
    assert any("in 2 parts (not carried out)" in n for n in found)
    assert gateway.sent == []
    made.stop()
    assert gateway.sent == []


def test_who_stops_gives_everything_back_and_who_pauses_renews_nothing() -> None:
    gateway = Uneven(hot=1.0)
    made = started(gateway, "qmmp")
    made.turn()
    made.pause()
    made.turn()
    assert len(gateway.wishes()) == 1
    made.resume()
    made.begin().stop()
    assert gateway.wishes()[-1] == (RUNNING, 0, "", 0.0)


def test_a_plugin_that_refuses_is_a_note() -> None:
    gateway = Uneven(hot=1.0)
    gateway.refuses = True
    made = started(gateway, "qmmp")
    (decision,) = made.turn()
    assert "keys of operator 0 go is not ours to say" in decision.notes[0]
    assert decision.error is None


def test_a_query_that_has_ended_is_forgotten() -> None:
    gateway = Uneven()
    made = started(gateway, "mnrt")
    notes(made, 2)
    gateway.data["queries"][0]["active"] = False
    made.turn()
    sent = len(gateway.sent)
    made.stop()
    assert len(gateway.sent) == sent


def test_other_policies_neither_claim_nor_look_inside() -> None:
    gateway = Uneven()
    made = started(gateway, "static")
    for _ in range(3):
        made.turn()
    assert gateway.sent == []
