"""Writes docs/verification.md from what is on record: verification/ROOM.jsonl of the deep tier,
verification/gate.jsonl of rehearsals and verification/strength.json of mutants."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import groupby
from typing import Any

from deep import RECORD, records
from deep_units import ROOMS, ROOT
from mutants import NOTICED, mutants

PAGE = ROOT / "docs" / "verification.md"
HEAD = """# Verification

What has been searched for, and when. A change is judged by the gate (`make test`), whose verdict
is a function of the commit. What hangs on time, threads, chance or on what a machine has is in the
deep tier (`make deep`), whose runs are recorded in `verification/ROOM.jsonl`: `make deep` makes
this page of them, and counts commits up to the one it was made on. A red unit is a defect: mended
first, or open here with its cause. Which guarantee is searched by which room:
[guarantees.md](guarantees.md).

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
            return f"{commit[:10]}{changed}, {line['date'][:10]}, {of}, {since} commits since"
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


def strength() -> str:
    """How many mutants the gate notices, and the others."""
    path = RECORD / "strength.json"
    record = json.loads(path.read_text()) if path.exists() else {}
    became = {m.name: record.get(m.name, {}).get("outcome", "") for m in mutants()}
    noticed = sum(what == NOTICED for what in became.values())
    others = [f"`{m}` ({what})" for m, what in became.items() if what not in (NOTICED, "")]
    return (
        "Each mutant of the source (`verification/mutants.toml`) alone, and the tests of the gate\n"
        "that have to be red (`scripts/mutants.py`; who was, and when: "
        "`verification/strength.json`).\n\n"
        f"Noticed: {noticed} of {len(became)}. Not noticed: {', '.join(others) or 'none'}. "
        f"Not planted yet: {list(became.values()).count('')}.\n"
    )


def rehearsals(lines: list[dict[str, Any]]) -> list[str]:
    """Rows of a table: runs of one commit in one way."""

    def key(line: dict[str, Any]) -> tuple[str, str]:
        return line["commit"], line["how"]

    order = {line["commit"]: i for i, line in enumerate(lines)}
    told = []
    for (commit, how), runs in groupby(
        sorted(lines, key=lambda one: (order[one["commit"]], key(one))), key
    ):
        same = list(runs)
        minutes = [line["seconds"] / 60 for line in same]
        red = "; ".join(dict.fromkeys(test for line in same for test in line["red"]))
        told.append(
            f"| {commit[:10]} | {how} | {sum(line['green'] for line in same)} of {len(same)} | "
            f"{min(minutes):.1f} to {max(minutes):.1f} | {red} |\n"
        )
    return told


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
    told += ["\n## Strength of the gate\n", strength()]
    told += [
        "\n## Rehearsals of the gate\n",
        "`.ci/run` in a fresh clone, packages' caches filled (`make rehearse HOW=...`): quiet,\n"
        "with four loops beside, on one core with stops of 10 s, with a clock set back.\n\n",
        "| commit | how | green | minutes | red |\n|---|---|---|---|---|\n",
        *rehearsals(records("gate", RECORD)),
    ]
    PAGE.write_text("".join(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
