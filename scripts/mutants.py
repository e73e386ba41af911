"""How strong the tests are: each mutant of verification/mutants.toml is noticed by its tests.

    python scripts/mutants.py [ONLY='restart-* poke-unheard'] [MINUTES=n] [SHARD=1/3]

A mutant is a change of the source that makes it wrong. Each is applied alone to a copy of what is
tracked here, in build/mutants, which is compiled, and the tests that the table names run there.
verification/strength.json keeps what became of it, docs/verification.md shows it. Those come first
that were never planted, then those that were planted longest ago; with MINUTES none begins later.
Exits 1 if a mutant survives, or does not compile.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from deep import ended, environment, git
from deep_units import LAUNCH, OUT, ROOT, classes_of_suites, number, runner
from sbt_reports import cases

TABLE = ROOT / "verification" / "mutants.toml"
RECORD = ROOT / "verification" / "strength.json"
COPY = ROOT / "build" / "mutants"
LIMIT_S = 900

NOTICED, SURVIVED, NOT_COMPILED = "noticed", "survived", "does not compile"


@dataclass(frozen=True)
class Edit:
    """`text` stands once in `file`, a path in the repository; the mutant has `instead` there."""

    file: str
    text: str
    instead: str

    def applied(self, root: Path) -> str:
        """The file's new text; ValueError says why it cannot be."""
        path = root / self.file
        before = path.read_text("utf-8") if path.is_file() else ""
        if (times := before.count(self.text)) != 1:
            raise ValueError(f"{self.file} has this {times} times, not once: {self.text!r}")
        if self.text == self.instead:
            raise ValueError(f"{self.file} stays as it is: {self.text!r}")
        return before.replace(self.text, self.instead)


@dataclass(frozen=True)
class Mutant:
    """`tests` are those of the gate that have to be red, as `SUITE: a part of their name`."""

    name: str
    wrong: str
    tests: tuple[str, ...]
    edits: tuple[Edit, ...]

    def plant(self, root: Path) -> None:
        for edit in self.edits:
            (root / edit.file).write_text(edit.applied(root), "utf-8")


def mutants(table: Path = TABLE) -> list[Mutant]:
    return [
        Mutant(name, row["wrong"], tuple(row["tests"]), tuple(Edit(**e) for e in row["edits"]))
        for name, row in tomllib.loads(table.read_text("utf-8")).items()
    ]


def copied() -> None:
    """Makes the copy what is tracked here, changes that are not committed among it. Of files that
    are the same already not even the date changes: compiling goes on from the last time."""
    commit = git("stash", "create") or git("rev-parse", "HEAD")
    if not (COPY / ".git").exists():
        git("worktree", "add", "--force", "--detach", str(COPY), commit)
        (COPY / ".venv").symlink_to(ROOT / ".venv")
    done = subprocess.run(
        ["git", "checkout", "--quiet", "--force", "--detach", commit],
        cwd=COPY,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        sys.exit(f"{COPY} cannot be what is here:\n{done.stderr}")


def compiled(log: Path) -> bool:
    with log.open("w") as file:
        done = subprocess.run(
            [str(COPY / "scripts" / "sbt"), "spark/testLaunch"],
            cwd=COPY,
            # Its Spark and Python are those of here.
            env=os.environ | {"PYSPARK_PYTHON": sys.executable},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    return done.returncode == 0


def red(test: str, log: Path) -> str:
    """The test that is red of those that are meant; nothing if all of them are green."""
    unit, _, part = test.partition(": ")
    suite = next(whole for name, whole, _ in classes_of_suites() if name == unit)
    report = log.with_suffix(".reports")
    for old in report.glob("*.xml"):
        old.unlink()
    command = [*runner(suite, report, "-z", part, launch=COPY / LAUNCH.relative_to(ROOT))]
    # The gate's seeds and numbers, not the deep tier's.
    env = {k: v for k, v in environment(1).items() if not k.startswith("LANESHIFT_")}
    _, late = ended(command, env, log, LIMIT_S)
    text = log.read_text(errors="replace")
    # A test that hangs for good ends the process.
    if late or re.search(r"^\w+: .+ is not done within .+ this JVM ends", text, re.M):
        return f"{test} (hangs)"
    ran = [case for path in report.glob("*.xml") for case in cases(path)]
    if not ran:
        sys.exit(f"No test ran of '{test}', see {log}")
    names = [case.name for case in ran if case.problem in ("failure", "error")]
    return f"{unit}: {names[0]}" if names else ""


def outcome(mutant: Mutant) -> tuple[str, list[str]]:
    """What becomes of a mutant, and the tests that are red."""
    log = OUT / "logs" / f"mutant-{mutant.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    copied()
    mutant.plant(COPY)
    if not compiled(log):
        return NOT_COMPILED, []
    by = [red(test, log) for test in mutant.tests]
    return (NOTICED if all(by) else SURVIVED), [test for test in by if test]


def chosen(words: list[str], record: dict[str, Any]) -> tuple[list[Mutant], float]:
    """The mutants that are asked for, in the order in which they are planted, and minutes."""
    given = dict(word.partition("=")[::2] for word in words)
    if strange := set(given) - {"ONLY", "MINUTES", "SHARD"}:
        sys.exit(f"ONLY=, MINUTES= and SHARD= can be given, not {', '.join(sorted(strange))}")
    only = given.get("ONLY", "*").split()
    found = [m for m in mutants() if any(fnmatch(m.name, pattern) for pattern in only)]
    if not found:
        sys.exit(f"No mutant of {TABLE.relative_to(ROOT)} is called {' or '.join(only)}")
    shard = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", given.get("SHARD", "1/1"))
    if shard is None or int(shard[1]) > int(shard[2]):
        sys.exit(f"SHARD is '{given['SHARD']}'; allowed are 1/3, 2/3, 3/3 and the like")
    found = found[int(shard[1]) - 1 :: int(shard[2])]
    minutes = number("MINUTES", given["MINUTES"]) if "MINUTES" in given else math.inf
    return sorted(found, key=lambda m: record.get(m.name, {}).get("date", "")), minutes


def main() -> int:
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    asked, minutes = chosen(sys.argv[1:], record)
    begun = time.monotonic()
    became: list[str] = []
    for mutant in asked:
        since = time.monotonic()
        if since - begun > minutes * 60:
            break
        what, by = outcome(mutant)
        became.append(what)
        seconds = round(time.monotonic() - since, 1)
        print(f"{mutant.name:30} {seconds:6.1f} s  {what}  {'; '.join(by)}", flush=True)
        record[mutant.name] = {
            "outcome": what,
            "by": by,
            "seconds": seconds,
            "commit": git("rev-parse", "HEAD")[:10],
            "date": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()),
        }
        known = {m.name: record[m.name] for m in mutants() if m.name in record}
        RECORD.write_text(json.dumps(known, indent=1) + "\n")
    print(f"{became.count(NOTICED)} of {len(became)} mutants are noticed")
    return 0 if became.count(NOTICED) == len(became) else 1


if __name__ == "__main__":
    sys.exit(main())
