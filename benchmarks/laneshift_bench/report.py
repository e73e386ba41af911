"""Results: one JSON file and one Markdown table for each benchmark, with what it ran on."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from laneshift.errors import InputError
from laneshift.plugin.jar import jar_path, jar_version
from laneshift_bench.session import SEED

EARLIER = "earlier"
"""Folder of the results of another day, beside those of the newest."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure to reach: whether ``value`` does, e.g. ``>= 0.95``."""

    what: str
    value: float
    sign: str
    bound: float

    @property
    def met(self) -> bool:
        return self.value >= self.bound if self.sign == ">=" else self.value <= self.bound

    def row(self) -> list[str]:
        """A line of the table of goals."""
        met = "yes" if self.met else "**no**"
        return [self.what, f"{self.value:.3g}", f"{self.sign} {self.bound:g}", met]


@dataclass(slots=True)
class Report:
    """One benchmark's outcome.

    Attributes:
        name: the sub-command.
        title: the first line of the Markdown file.
        method: how it was measured, a few sentences.
        header, rows: the table.
        goals: figures to reach.
        data: everything measured, for JSON.
        notes: what a reader must know besides.
        files: pictures and others that belong to it, by name; each writes itself to a path.
    """

    name: str
    title: str
    method: str
    header: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    files: dict[str, Callable[[Path], object]] = field(default_factory=dict)

    def markdown(self, ran_on: dict[str, Any]) -> str:
        """The Markdown file's text."""
        parts = [f"# {self.title}", self.method, _table(self.header, self.rows)]
        if self.goals:
            goals = [goal.row() for goal in self.goals]
            parts += ["## Goals", _table(("figure", "measured", "goal", "met"), goals)]
        parts += [f"![{name.removesuffix('.png')}]({name})" for name in self._pictures]
        if self.notes:
            parts.append("\n".join(f"- {note}" for note in self.notes))
        parts += ["## Ran on", _table(("what", ""), [(k, str(v)) for k, v in ran_on.items()])]
        return "\n\n".join(parts) + "\n"

    @property
    def _pictures(self) -> list[str]:
        return [name for name in self.files if name.endswith(".png")]

    def write(self, folder: Path, ran_on: dict[str, Any]) -> Path:
        """Write all files; returns the Markdown file."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, write in self.files.items():
            write(folder / name)
        goals = [
            {"what": g.what, "value": g.value, "goal": f"{g.sign} {g.bound:g}", "met": g.met}
            for g in self.goals
        ]
        _set_aside(folder / f"{self.name}.json", ran_on["date"])
        content = {"benchmark": self.name, "ran_on": ran_on, "goals": goals, "data": self.data}
        text = json.dumps(content, indent=1)
        # Lists of numbers on one line each: thousands of lines help nobody.
        text = re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda m: f"[{' '.join(m[1].split())}]", text)
        (folder / f"{self.name}.json").write_text(text + "\n")
        file = folder / f"{self.name}.md"
        file.write_text(self.markdown(ran_on))
        return file


def _set_aside(file: Path, date: str) -> None:
    """Keep what ``file`` has, if it is of another day than ``date``: a result is to replace it."""
    if file.exists() and json.loads(file.read_text("utf-8"))["ran_on"]["date"][:10] != date[:10]:
        earlier = file.parent / EARLIER
        earlier.mkdir(exist_ok=True)
        file.replace(earlier / file.name)


def ran_now() -> str:
    """Date, commit and CPU, for a part of results that come from several runs."""
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC at {_commit()} on {_cpu()}"


def ran_on(command: str, jdk: str, spark: str) -> dict[str, Any]:
    """The machine, the versions and the command, as published with a result."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": command,
        "commit": _commit(),
        "plugin": jar_version(jar_path()),
        "seed": SEED,
        "CPU": _cpu(),
        "cores": os.cpu_count(),
        "memory_GB": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "load_at_start": round(os.getloadavg()[0], 2),
        "JDK": jdk,
        "Spark": spark,
        "Python": platform.python_version(),
    }


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _commit() -> str:
    """The commit, with a + if files differ from it."""
    folder = Path(__file__).parent
    try:
        head = _git(folder, "rev-parse", "--short=12", "HEAD")
        changes = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", ":(top)jvm")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + ("+" if changes else "")


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ("git", "-C", str(folder), *arguments), check=True, capture_output=True, text=True
    ).stdout.strip()


def _cpu() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or "unknown"
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1].strip() if found else platform.processor() or "unknown"


def kept(file: Path | None) -> dict[str, Any]:
    """The data of an earlier run's results, to go on with. Errors: InputError without the file."""
    if file is None:
        return {}
    if not file.is_file():
        raise InputError("add", str(file), "results of an earlier run", "Leave it out at first.")
    data: dict[str, Any] = json.loads(file.read_text("utf-8"))["data"]
    return data
