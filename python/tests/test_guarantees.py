"""docs/guarantees.md is true: each test that it names is there, in the tier that it says."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from test_no_clock import is_deep, is_deep_module
from tiers import ROOMS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGE = (DOCS / "guarantees.md").read_text("utf-8")
PYTHON = ROOT / "python" / "tests"


@dataclass(frozen=True, slots=True)
class Case:
    """A test as its source has it; in a name of Scala's … is what differs from case to case."""

    name: str
    is_deep: bool


# ---- Scala


def string(code: str, at: int) -> tuple[str, int]:
    """The text of the string that begins at a place, and the place behind it."""
    quote = code.index('"', at)
    said, at = "", quote + 1
    while code[at] != '"':
        if code[at] == "\\":
            said, at = said + code[at + 1], at + 2
        elif code[at] == "$" and code[quote - 1] in "sf":
            said += "…"
            word = re.compile(r"\w+").match(code, at + 1)
            at = word.end() if word else closing(code, at + 1)
        else:
            said, at = said + code[at], at + 1
    return said, at + 1


def closing(code: str, at: int) -> int:
    """Behind the bracket that closes the one at a place; brackets in strings are none."""
    depth = 0
    while True:
        if code[at] == '"':
            at = string(code, at)[1]
            continue
        depth += (code[at] in "({[") - (code[at] in ")}]")
        at += 1
        if depth == 0:
            return at


def in_scala(text: str) -> list[Case]:
    code = re.sub(r"(?s)/\*.*?\*/|(?m:^\s*//[^\n]*)", "", text)
    all_deep = re.search(r"\b(?:extends|with)\s+DeepSuite\b", code) is not None
    found = []
    for test in re.finditer(r"\btest\(", code):
        end, at, name = closing(code, test.end() - 1), test.end(), ""
        while piece := re.compile(r'\s*\+?\s*[sf]?(?=")').match(code, at, end):
            said, at = string(code, piece.end() - 1 if code[piece.end() - 1] in "sf" else at)
            name += said
        tags = code[at:end]
        name += "…" * tags.lstrip().startswith("+")
        tagged = re.search(r"\bDeep\.\w+\b(?!\.unless)", tags)
        found.append(Case(name, all_deep or tagged is not None))
    return found


# ---- Python


def in_python(text: str) -> list[Case]:
    tree = ast.parse(text)
    all_deep = is_deep_module(tree)
    return [
        Case(node.name.removeprefix("test_"), all_deep or is_deep(node.decorator_list))
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


# ---- the page


@cache
def cases(unit: str) -> list[Case] | None:
    """Of a suite or a module; None if there is no such."""
    suites, modules = ROOT.glob(f"jvm/*/src/test/**/{unit}.scala"), PYTHON.rglob(f"{unit}.py")
    if suite := next(suites, None):
        return in_scala(suite.read_text("utf-8"))
    module = next(modules, None)
    return in_python(module.read_text("utf-8")) if module else None


@cache
def anchors(page: str) -> set[str]:
    file = DOCS / page
    headings = re.findall(r"^#+ (.+)$", file.read_text("utf-8"), re.M) if file.is_file() else ()
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@cache
def deep_units(module: ModuleType, room: str) -> set[str]:
    """What `make deep` has of a room: ONLY takes these names."""
    asked = module.asked_for([])
    found = {unit.name for unit in (*module.suites(room), *module.commands(room, asked))}
    marked = re.compile(rf'\bmark\.deep\("{room}"\)')
    return found | {
        p.stem for p in PYTHON.rglob("test_*.py") if marked.search(p.read_text("utf-8"))
    }


def of_gate(proof: str) -> str | None:
    """What is wrong with `SUITE: a part of a test's name` in the column of the gate."""
    unit, _, part = proof.partition(": ")
    there = cases(unit)
    if not there:
        return f"there is no suite or module {unit}, or it has no test"
    meant = [t for t in there if t.name == part] or [t for t in there if part in t.name]
    if not meant:
        return f"{unit} has no test with '{part}' in its name; it has {[t.name for t in there]}"
    deep = [t.name for t in meant if t.is_deep]
    return f"{unit}: these are deep, not of the gate: {deep}" if deep else None


def table(page: str) -> list[list[str]]:
    lines = re.findall(r"^\| (.+) \|$", page, re.M)
    return [line.split(" | ") for line in lines[1:]]


def wrong(page: str, deep: ModuleType) -> list[str]:
    """Each thing in the table that is not as it says."""
    found = []
    for row in table(page):
        if len(row) != 4:
            found.append(f"expected 4 columns, found {len(row)}: {row}")
            continue
        what, section, gate, search = row

        def tell(problem: str | None, what: str = what) -> None:
            if problem:
                found.append(f"{what}: {problem}")

        link = re.fullmatch(r"\[[^]]+\]\(([\w.-]+)#([\w-]+)\)", section)
        if link is None or link[2] not in anchors(link[1]):
            tell(f"no such section: {section}")
        proofs = re.findall(r"`([^`]+)`", gate)
        if (gate == "only deep") == bool(proofs):
            tell(f"expected tests of the gate or 'only deep', found {gate}")
        for proof in proofs:
            tell(of_gate(proof))
        if search == "-":
            tell("no test at all" if gate == "only deep" else None)
            continue
        for each in search.split(", "):
            named = re.fullmatch(r"(\w+) `(\w+)`", each)
            if named is None or named[1] not in ROOMS:
                tell(f"expected a room and its unit, found {each}")
            elif named[2] not in deep_units(deep, named[1]):
                tell(f"make deep ROOMS={named[1]} has no {named[2]}")
    return found


@pytest.fixture
def deep(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return import_module("deep_units")


def test_each_guarantee_has_the_tests_that_the_page_names(deep: ModuleType) -> None:
    assert len(table(PAGE)) > 50
    assert wrong(PAGE, deep) == []


@pytest.mark.parametrize(
    ("right", "planted", "says"),
    [
        ("`OperatorWorkSuite`", "`OperatorWorksSuite`", "no suite or module OperatorWorksSuite"),
        (
            "FailureSuite: a lane throws",
            "FailureSuite: a lane sings",
            "no test with 'a lane si",
        ),
        ("`OperatorWorkSuite`", "`InletRaceSuite`", "InletRaceSuite: these are deep"),
        ("`StructureSuite`", "`TransformWithStatePairSuite: with timers and`", "these are deep"),
        ("`test_rooms`", "`test_live_loop: lanes_follow_a_burst`", "these are deep"),
        ("`test_rooms`", "`test_live_tasks: tasks_that_it_needs`", "these are deep"),
        ("handoff.md#7-bounds", "handoff.md#7-limits", "no such section"),
        ("handoff.md#7-bounds", "handover.md#7-bounds", "no such section"),
        ("pairs `JoinPairSuite`", "pears `JoinPairSuite`", "expected a room and its unit"),
        ("pairs `JoinPairSuite`", "kills `JoinPairSuite`", "ROOMS=kills has no JoinPairSuite"),
        ("speed `WireSuite`, cluster `test_network`", "-", "no test at all"),
        ("| only deep |", "| deep |", "'only deep', found deep"),
        ("`StructureSuite`, `test_rooms` | - |", "`StructureSuite` |", "expected 4 columns"),
    ],
)
def test_what_is_not_true_is_found(right: str, planted: str, says: str, deep: ModuleType) -> None:
    assert right in PAGE
    found = wrong(PAGE.replace(right, planted, 1), deep)
    assert len(found) == 1 and says in found[0], found


def test_names_and_tiers_are_read_as_written() -> None:
    scala = """
    // test("a comment")
    test("plain (")(once())
    test(s"$mode, ${if (x) "a" else "b"}: it \\"works\\"", Deep.Kills.unless(x): _*)("Deep.Pairs")
    test(
      s"one, $n " +
        s"two",
      Deep.Pairs
    ) {}
    test("sum: " + order.mkString(" < "))(check())
    """
    plain = [
        Case("plain (", False),
        Case('…, …: it "works"', False),
        Case("one, … two", True),
        Case("sum: …", False),
    ]
    assert in_scala(scala) == plain
    deep = in_scala(f"class A extends B with DeepSuite {{ {scala} }}")
    assert deep == [Case(test.name, True) for test in plain]
    python = (
        "@pytest.mark.parametrize('n', [1, pytest.param(2, marks=pytest.mark.deep('pairs'))])\n"
        "def test_one(): pass\n"
        "class Test:\n    @pytest.mark.deep('speed')\n    def test_two(self): pass\n"
    )
    assert in_python(python) == [Case("one", False), Case("two", True)]
    marked = "pytestmark = [pytest.mark.live, pytest.mark.deep('pairs')]\n"
    assert in_python(marked + python) == [Case("one", True), Case("two", True)]
