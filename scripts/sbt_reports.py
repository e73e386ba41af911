"""Reads the reports of tests: sbt's, one XML file for each suite, and pytest's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree


@dataclass(frozen=True, slots=True)
class Case:
    """One test: its name, how long it took (s), what became of it unless it passed; of pytest's
    also the folder of tests that it is in."""

    name: str
    seconds: float
    problem: str | None
    folder: str = ""


def cases(report: Path) -> Iterator[Case]:
    """The tests of one report, in order."""
    for case in ElementTree.parse(report).iter("testcase"):
        tags = ("failure", "error", "skipped")
        problem = next((tag for tag in tags if case.find(tag) is not None), None)
        parts = case.get("classname", "").split(".")
        folder = ""
        if parts[1:2] == ["tests"]:
            folder = parts[2] if len(parts) > 3 else parts[0].removeprefix("python")
        yield Case(case.attrib["name"], float(case.attrib["time"]), problem, folder)
