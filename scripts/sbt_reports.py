"""Reads the reports that sbt's tests leave, one XML file for each suite."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree


@dataclass(frozen=True, slots=True)
class Case:
    """One test: its name, how long it took (s), and what became of it unless it passed."""

    name: str
    seconds: float
    problem: str | None


def cases(report: Path) -> Iterator[Case]:
    """The tests of one report, in order."""
    for case in ElementTree.parse(report).iter("testcase"):
        tags = ("failure", "error", "skipped")
        problem = next((tag for tag in tags if case.find(tag) is not None), None)
        yield Case(case.attrib["name"], float(case.attrib["time"]), problem)
