"""Writes docs/verification.md from the record of the deep tier, verification/ROOM.jsonl."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from deep import RECORD, ROOMS, ROOT, records

PAGE = ROOT / "docs" / "verification.md"
HEAD = """# Verification

What has been searched for, and when. A change is judged by the gate (`make test`), whose verdict
is a function of the commit. What hangs on time, threads, chance or on what a machine has is in the
deep tier (`make deep`), whose runs are recorded in `verification/ROOM.jsonl`: `make deep` makes
this page of them. A red unit is a defect: mended first, or open here with its cause. Which
guarantee is searched by which room: [guarantees.md](guarantees.md).

"""


def commits_since(commit: str) -> str:
    done = subprocess.run(
        ["git", "rev-list", "--count", f"{commit}..HEAD"], cwd=ROOT, capture_output=True, text=True
    )
    return done.stdout.strip() if done.returncode == 0 else "?"


def newest(lines: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """By unit, the newest line that has it."""
    found: dict[str, dict[str, Any]] = {}
    for line in lines:
        found |= dict.fromkeys(line["units"], line)
    return found


def known(lines: list[dict[str, Any]]) -> set[str]:
    """Units that have run, or were not reached or left out."""
    named = ("units", "not_reached", "left_out")
    return {name for line in lines for part in named for name in line.get(part, ())}


def last_green(lines: list[dict[str, Any]]) -> str:
    """The newest run with no failure, and how many of the room's units it had."""
    for line in reversed(lines):
        commit = line["commit"]
        if line["units"] and not line["failed"]:
            of = f"{len(line['units'])} of {len(known(lines))} units"
            since = commits_since(commit.removesuffix("-dirty"))
            changed = " with changes" * commit.endswith("-dirty")
            return f"{commit[:10]}{changed}, {line['date'][:10]}, {of}, {since} commits ago"
    return "never"


def open_failures(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of units that have not been green since."""
    units = newest(lines)
    return [
        f | {"date": units[f["unit"]]["date"]}
        for line in lines
        for f in line["failed"]
        if units[f["unit"]] is line
    ]


def main() -> int:
    told = [
        HEAD,
        "| room | searches | last green run | red now | left out |\n|---|---|---|---|---|\n",
    ]
    reds = []
    for room, what in ROOMS.items():
        lines = records(room, RECORD)
        red = open_failures(lines)
        reds += [(room, failure) for failure in red]
        left_out = lines[-1]["left_out"] if lines else {}
        names = ", ".join(f"{name} ({why})" for name, why in left_out.items())
        told.append(f"| {room} | {what} | {last_green(lines)} | {len(red) or ''} | {names} |\n")
    told.append("\n## Red now\n")
    told += [
        f"- {room}, {f['unit']}, {f['date'][:10]}: {'; '.join(f['tests'])}. "
        f"Cause: {f['cause'] or 'not known yet'}. `{f['repeat']}`\n"
        for room, f in reds
    ] or ["Nothing.\n"]
    PAGE.write_text("".join(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
