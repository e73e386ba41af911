"""The report of a run: one line for each scenario."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass
class Line:
    """How one scenario went, and what it measured."""

    result: str
    seconds: float
    facts: dict[str, object]


class Report:
    """Collects the lines while pytest runs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: dict[str, Line] = {}

    def add(self, report: pytest.TestReport) -> None:
        """Take a phase of a test: what is not its call counts if it failed or skipped."""
        if report.when == "call" or report.outcome != "passed":
            name = report.nodeid.rsplit("::", 1)[-1]
            facts = dict(report.user_properties)
            self._lines[name] = Line(report.outcome, report.duration, facts)

    def write(self) -> None:
        """Write what was collected, if anything was."""
        if not self._lines:
            return
        rows = ["| scenario | result | seconds | rows compared | moves |", "|---|---|---|---|---|"]
        for name, line in self._lines.items():
            label = name.removeprefix("test_").replace("_", " ")
            rows.append(
                f"| {label} | {line.result} | {line.seconds:.0f} "
                f"| {line.facts.get('rows', '')} | {line.facts.get('moves', '')} |"
            )
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text("\n".join(rows) + "\n")
