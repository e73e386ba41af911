"""verification/mutants.toml is true: each mutant can be planted, and the gate has its tests."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from test_guarantees import ROOT, cases


@pytest.fixture
def mutants(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return import_module("mutants")


def of_gate(test: str) -> str | None:
    """What is wrong with `SUITE: a part of a test's name`; a name that the suite makes up, or a
    part of which it does, may be what is meant."""
    unit, _, part = test.partition(": ")
    there = cases(unit)
    if not there:
        return f"there is no suite {unit}, or it has no test"

    def is_meant(name: str) -> bool:
        made_up = ".*".join(map(re.escape, name.split("…")))
        return part in name or not name or re.fullmatch(made_up, part) is not None

    meant = [case for case in there if is_meant(case.name)]
    if not meant:
        return f"{unit} has no test with '{part}' in its name"
    return None if any(not case.is_deep for case in meant) else f"{test} is deep"


def wrong(mutant: Any, root: Path = ROOT) -> list[str]:
    found = [problem for test in mutant.tests if (problem := of_gate(test))]
    for edit in mutant.edits:
        try:
            edit.applied(root)
        except ValueError as problem:
            found.append(str(problem))
    if not (mutant.tests and mutant.edits and mutant.wrong):
        found.append("no test, no edit or no sentence")
    return found


def test_each_mutant_can_be_planted_and_the_gate_has_its_tests(mutants: ModuleType) -> None:
    table = mutants.mutants()
    assert len(table) > 100
    problems = {mutant.name: found for mutant in table if (found := wrong(mutant))}
    assert problems == {}


def test_what_is_not_true_is_found(mutants: ModuleType) -> None:
    right = next(m for m in mutants.mutants() if m.name == "queue-not-recalled")
    edit = right.edits[0]
    for change, says in (
        ({"tests": ("ScheduleSuite: 20,000",)}, "no suite ScheduleSuite"),
        ({"tests": ("ScheduleExplorerSuite: 30,000",)}, "no test with '30,000'"),
        ({"tests": ("InletRaceSuite: queue, recall flag",)}, "is deep"),
        ({"tests": ()}, "no test, no edit"),
        ({"edits": (replace(edit, text="no such text"),)}, "this 0 times"),
        ({"edits": (replace(edit, text="\n"),)}, "times, not once"),
        ({"edits": (replace(edit, file="jvm/None.scala"),)}, "None.scala has this 0 times"),
        ({"edits": (replace(edit, instead=edit.text),)}, "stays as it is"),
    ):
        found = wrong(replace(right, **change))
        assert len(found) == 1 and says in found[0], found


def test_edits_of_one_file_are_planted_together(mutants: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one two three")
    edits = (mutants.Edit("a", "one", "1"), mutants.Edit("a", "three", "3"))
    mutants.Mutant("sums", "numbers", (), edits).plant(tmp_path)
    assert (tmp_path / "a").read_text() == "1 two 3"


def test_what_is_asked_for(mutants: ModuleType) -> None:
    record = {m.name: {"date": "2026"} for m in mutants.mutants()}
    del record["poke-unheard"]
    (first, *_), minutes = mutants.chosen(["MINUTES=5"], record)
    assert first.name == "poke-unheard" and minutes == 5, "what was never planted comes first"
    shards = [mutants.chosen([f"SHARD={i}/3"], {})[0] for i in (1, 2, 3)]
    assert sorted(m.name for shard in shards for m in shard) == sorted(
        m.name for m in mutants.mutants()
    )
    (only, *others), _ = mutants.chosen(["ONLY=poke-*"], {})
    assert only.name == "poke-unheard" and not others
    for words, says in (
        (["ONLY=poke"], "No mutant"),
        (["SHARD=4/3"], "SHARD is '4/3'"),
        (["SHADE=1"], "not SHADE"),
        (["MINUTES=no"], "MINUTES is 'no'"),
    ):
        with pytest.raises(SystemExit, match=says):
            mutants.chosen(words, {})
