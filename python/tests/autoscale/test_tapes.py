"""What policies decide on what a running Spark has said: turns of live tests, taken again.

The plugin's answers are on tape (:mod:`autoscale.tape`), the clock goes on by hand, and what is
decided is beside it, ``tapes/NAME.txt``. If another decision is meant, write them anew and read the
difference: ``PYTHONPATH=python:python/tests python python/tests/autoscale/test_tapes.py --update``.
"""

from __future__ import annotations

import gzip
import sys
from functools import cache
from pathlib import Path

import pytest

from autoscale.tape import TAPES, Played
from laneshift.autoscale.decisions import LaneChange
from laneshift.policies import registry

NAMES = sorted(path.name.removesuffix(".jsonl.gz") for path in TAPES.glob("*.gz"))

LEFT = ("static", *registry.PLANNERS)
"""Those that leave lanes as they are."""


@cache
def played(name: str) -> Played:
    return Played(TAPES / f"{name}.jsonl.gz")


def to_another(name: str, policy: str, **parameters: object) -> Played:
    """What another policy answers to what came of the first one's answers."""
    return Played(TAPES / f"{name}.jsonl.gz", registry.policy(policy, **parameters))


def golden(name: str) -> Path:
    return TAPES / f"{name}.txt"


@pytest.mark.parametrize("name", NAMES)
def test_the_same_is_decided(name: str) -> None:
    said = list(played(name).lines())
    assert said == golden(name).read_text("utf-8").splitlines()
    assert not [d.error for _, d in played(name).decisions if d.error]


@pytest.mark.parametrize("name", NAMES)
def test_a_tape_is_short_and_is_listened_to(name: str) -> None:
    """As many turns as snapshots, and it is no more than a page or two to read."""
    path = TAPES / f"{name}.jsonl.gz"
    assert path.stat().st_size < 60_000
    with gzip.open(path, "rt") as tape:
        assert played(name).turns == sum('{"snapshot":' in line for line in tape)


def lane_changes(of: Played) -> list[LaneChange]:
    return [change for _, decision in of.decisions for change in decision.changes]


def lanes(name: str) -> list[tuple[float, str, int, int]]:
    """When which partition went from how many lanes to how many."""
    return [
        (at, c.partition.rpartition(":")[2], c.before, c.after)
        for at, decision in played(name).decisions
        for c in decision.changes
    ]


def notes(name: str) -> list[tuple[float, str]]:
    return [(at, note) for at, decision in played(name).decisions for note in decision.notes]


def commands(name: str, method: str) -> list[tuple[object, ...]]:
    return [call[2:] for call in played(name).sent if call[0] == method]


def test_lanes_follow_a_burst_and_go_again() -> None:
    """3,000 rows/s for 8 s, 200 before and after; a lane takes 1,000, and four have cores."""
    (grown, *_), now, wanted = lanes("burst"), {"0.0": 1, "0.1": 1}, {}
    assert grown[2:] == (1, 3)
    assert grown[0] % 1 > 0.1, "early: turns are a second apart"
    for at, part, before, after in lanes("burst"):
        assert now[part] == before
        now[part] = after
        wanted[at] = sum(now.values())
    assert list(wanted.values()) == [4, 4, 2]
    assert any(
        "cores are needed just to keep up, 4 available" in note for _, note in notes("burst")
    )


@pytest.mark.parametrize("policy", [name for name in registry.names() if name not in LEFT])
def test_every_policy_that_sizes_grows_in_the_burst(policy: str) -> None:
    found = to_another("burst", policy)
    assert not [decision.error for _, decision in found.decisions if decision.error]
    at = [at for at, d in found.decisions if any(c.after > c.before for c in d.changes)]
    assert 6 < at[0] <= 7


def test_lanes_that_have_nothing_to_do_go() -> None:
    found = to_another("burst", "naive-ec", release_after_s=0)
    assert [(c.before, c.after) for c in lane_changes(found)[-2:]] == [(2, 1), (2, 1)]


def test_static_leaves_all_as_it_is() -> None:
    found = to_another("burst", "static")
    assert found.turns > 20 and not found.decisions and not found.sent


def test_a_burst_does_not_wait_for_the_next_turn() -> None:
    """Turns are a minute apart, and the burst begins 12 s after the first one."""
    found = lanes("early")
    assert {part: (before, after) for _, part, before, after in found} == {
        "0.0": (1, 2),
        "0.1": (1, 2),
    }
    assert all(at < 13 for at, *_ in found)


@pytest.mark.parametrize("mode", ["batches", "real-time"])
@pytest.mark.parametrize("policy", ["mnrt", "w-choices"])
def test_a_planner_has_work_of_hot_keys_apart(policy: str, mode: str) -> None:
    name = f"{policy}-{mode}"
    said = [note for _, note in notes(name)]
    assert any("row-wise work above the state goes to any lane" in note for note in said)
    moved = commands(name, "move_shard")
    assert (len(moved) > 0) == (policy == "mnrt") == any("times the mean load" in n for n in said)
    claims = [(operator, apart) for operator, apart, _ in commands(name, "claim_keys")]
    assert claims[0] == (0, "false") and (0, "true") in claims and claims[-1] == (0, "")
    assert len(set(moved)) == len(moved), "no shard goes back and forth"


def test_a_dry_run_of_a_planner_sends_nothing() -> None:
    assert played("qmmp-dry-run").sent == []
    said = [note for _, note in notes("qmmp-dry-run")]
    assert len(said) == 3 and all("(not carried out)" in note for note in said)


@pytest.mark.parametrize("policy", ["laneshift", "resource-centric"])
def test_many_stores_on_two_cores_become_few_once(policy: str) -> None:
    same = policy == "laneshift"
    found = played("stores") if same else to_another("stores", policy, rescale=True)
    (change,) = [c for _, decision in found.decisions for c in decision.rescales]
    assert (change.before, change.after) == (64, 6)
    assert "a batch takes 7.21 s, 7.13 s of it commits of 64 stores in 2 tasks" in change.reason
    assert [call[0::2] for call in found.sent if call[0] == "rescale"] == [("rescale", 6)]


def test_an_executor_comes_for_a_hot_partition_and_goes_again() -> None:
    """Executors 1 and 2 are not needed, the two that come later are, until all rows have passed."""
    tape = played("demand").tape
    gone = [(at, note) for at, note in notes("demand") if "is given back" in note]
    asked = [at for at, note in notes("demand") if note.startswith("asks Spark for 1 executor")]
    assert [note.split()[1] for _, note in gone] == ["1", "2", "3", "4"]
    assert gone[1][0] < asked[0] < asked[1] < gone[2][0]
    assert {total for _, total, _ in tape.demanded} == {0, 2, 3}
    assert {executor for _, _, back in tape.demanded for executor in back} == {"1", "2", "3", "4"}
    changes = lane_changes(played("demand"))
    assert [c.elsewhere for c in changes][:2] == ["1 on executor 3", "2 on executor 3"]
    assert max(c.after for c in changes) == 5, "700 rows/s of 4 ms each"
    assert (changes[-1].after, changes[-1].elsewhere) == (1, "")


@pytest.mark.parametrize("policy", ["laneshift", "elasticutor"])
def test_lanes_go_to_other_executors(policy: str) -> None:
    """The hot partition's own has one core free; a row takes 4 ms, and its way 10 µs."""
    found = played("demand") if policy == "laneshift" else to_another("demand", policy)
    assert not [decision.error for _, decision in found.decisions if decision.error]
    grown = [c.elsewhere for c in lane_changes(found) if c.after > c.before]
    assert grown[0] in ("1 on executor 3", "2 on executor 3")
    assert "2 on executor 3, 2 on executor 4" in grown
    assert {"3": 2, "4": 2} in [call[-1] for call in found.sent if call[0] == "set_lanes"]


def test_a_query_with_little_to_do_gets_fewer_tasks_once() -> None:
    """It goes on for 18 s in which the next batch comes, and nothing more is asked for."""
    (change,) = [c for _, decision in played("tasks").decisions for c in decision.tasks]
    assert (change.before, change.after) == (4, 1)
    assert "of 4 tasks the busiest needs 0.003 of its core" in change.reason
    assert commands("tasks", "set_tasks") == [(0, "<=1")]


if __name__ == "__main__" and "--update" in sys.argv:
    for each in NAMES:
        golden(each).write_text("".join(f"{line}\n" for line in played(each).lines()), "utf-8")
