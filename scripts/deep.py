"""The deep tier: everything that searches instead of judging; `make deep` runs it.

    python scripts/deep.py ROOMS=pairs,kills MINUTES=60 SEED=7

What it runs are units: a suite, a test module or a command, each in a process of its own with a
limit. First those that were red when they last ran, then those whose files have changed since,
then the ones that have not run for longest. A unit that fails does not end the run: its log, the
stacks of its processes, the seed and the command that repeats it are kept. Each room's result is a
line of verification/ROOM.jsonl, of which docs/verification.md is made.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from deep_units import LAUNCH, OUT, ROOMS, ROOT, Unit, asked_for, units
from sbt_reports import cases

# Beside the tests, where deep_units has Python look, too.
from stuck import descendants, jvms, threads

RECORD = ROOT / "verification"

LEFT_OUT = 77
MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Result:
    """What became of a unit: `failed` are names of tests, or what ended it; `left_out` says what of
    it is not on this machine."""

    unit: Unit
    seed: int
    seconds: float
    passed: int
    failed: tuple[str, ...]
    left_out: str = ""
    log: str = ""

    @property
    def ran(self) -> bool:
        return bool(self.passed or self.failed)

    @property
    def repeat(self) -> str:
        only = shlex.quote(self.unit.name)
        return f"make deep ROOMS={self.unit.room} ONLY={only} SEED={self.seed}"


# ---- what to run first


def records(room: str, folder: Path = RECORD) -> list[dict[str, Any]]:
    """The lines of a room, oldest first."""
    path = folder / f"{room}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def last_run(unit: Unit, lines: list[dict[str, Any]]) -> tuple[dict[str, Any], float] | None:
    """The newest line with this unit, and how long it took."""
    for line in reversed(lines):
        if unit.name in line["units"]:
            return line, line["units"][unit.name]
    return None


def changed_since(commit: str, files: tuple[str, ...]) -> bool:
    """Also where the commit is not known here."""
    if not files:
        return False
    done = subprocess.run(
        ["git", "diff", "--quiet", commit, "--", *files], cwd=ROOT, capture_output=True
    )
    return done.returncode != 0


def urgency(unit: Unit, lines: list[dict[str, Any]], changed: bool) -> tuple[int, str]:
    """Sorts units: red, never run, changed, then by the date of the last run."""
    last = last_run(unit, lines)
    if last is None:
        return 1, ""
    line, _ = last
    if any(f["unit"] == unit.name for f in line["failed"]):
        return 0, line["date"]
    return (2 if changed else 3), line["date"]


def in_order(found: list[Unit]) -> list[Unit]:
    lines = {room: records(room) for room in {u.room for u in found}}

    def key(unit: Unit) -> tuple[int, str]:
        last = last_run(unit, lines[unit.room])
        changed = last is not None and changed_since(last[0]["commit"], unit.files)
        return urgency(unit, lines[unit.room], changed)

    return sorted(found, key=key)


# ---- running one


def stacks(pid: int) -> str:
    """What the threads of every JVM from `pid` down are at."""
    return "\n".join(f"---- threads of JVM {one}\n{threads(one)}" for one in jvms(pid))


def end(process: subprocess.Popen[bytes]) -> None:
    """The unit and all that it has started."""
    below = [pid for pid, _ in descendants(process.pid)]
    with suppress(ProcessLookupError):
        # Also what outlives a process of its own that started it.
        os.killpg(process.pid, signal.SIGKILL)
    for pid in below:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def run(unit: Unit, seed: int) -> Result:
    for old in Path("/").glob(unit.reports.lstrip("/")) if unit.reports else ():
        old.unlink()
    log = OUT / "logs" / f"{unit.room}-{unit.name}.log"
    since = time.monotonic()
    command = [word.replace("{seed}", str(seed)) for word in unit.command]
    code, late = ended(command, environment(seed) | unit.env, log, unit.limit_s)
    seconds = round(time.monotonic() - since, 1)
    result = judged(unit, seed, seconds, code, late)
    if not result.failed:
        return result
    # Not for the next run of it to write over.
    kept = log.rename(log.with_stem(f"{log.stem}-{seed}"))
    return replace(result, log=str(kept.relative_to(ROOT)))


def ended(command: list[str], env: dict[str, str], log: Path, limit_s: int) -> tuple[int, bool]:
    """Runs a process, with all it prints and at the limit its threads in `log`: its exit code, and
    whether it was ended at the limit. What it leaves of its temporary files is removed."""
    log.parent.mkdir(parents=True, exist_ok=True)
    # Spark leaves a warehouse where it runs.
    work = LAUNCH.parent / "test-work"
    work.mkdir(parents=True, exist_ok=True)
    is_java = command[0] == "java"
    # As in build.sbt: stores of tests wait for no disk, where there is room for them elsewhere.
    roomy = is_java and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 8 << 30
    own = tempfile.mkdtemp(prefix="laneshift-deep.", dir=MEMORY if roomy else None)
    if is_java:
        command = [*command[:2], f"-Djava.io.tmpdir={own}", *command[2:]]
    with log.open("wb") as file:
        process = subprocess.Popen(
            command,
            cwd=work if is_java else ROOT,
            env=os.environ | env | {"TMPDIR": own},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return process.wait(limit_s), False
        except subprocess.TimeoutExpired:
            file.write(f"\nNot done within {limit_s} s.\n{stacks(process.pid)}\n".encode())
            return 1, True
        finally:
            end(process)
            shutil.rmtree(own, ignore_errors=True)


def judged(unit: Unit, seed: int, seconds: float, code: int, late: bool) -> Result:
    """By its exit code, and by its reports where it leaves some."""
    if code == LEFT_OUT:
        return Result(unit, seed, seconds, 0, (), left_out="not on this machine")
    reports = list(Path("/").glob(unit.reports.lstrip("/"))) if unit.reports else []
    found = [case for report in reports for case in cases(report)]
    failed = [case.name for case in found if case.problem in ("failure", "error")]
    passed = sum(case.problem is None for case in found)
    skipped = sum(case.problem == "skipped" for case in found)
    if late:
        failed.append(f"not done within {unit.limit_s} s")
    elif code != 0 and not failed:
        failed.append(f"exit code {code}")
    if unit.reports and not late and code == 0 and not passed:
        return Result(unit, seed, seconds, 0, (), left_out="no test of it ran here")
    left_out = f"{skipped} of {len(found)} tests" if skipped else ""
    passed = passed or int(not failed)
    return Result(unit, seed, seconds, passed, tuple(failed), left_out)


def environment(seed: int) -> dict[str, str]:
    import pyspark

    return {
        "LANESHIFT_SEED": str(seed),
        # Of the explorer of schedules.
        "SEED": str(seed),
        # Of RescaleKillSuite every step, of FailureSuite's leaks so many batches.
        "LANESHIFT_EVERY": "1",
        "LANESHIFT_BATCHES": "1000",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_HOME": pyspark.__path__[0],
        "SPARK_SCALA_VERSION": "2.13",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


# ---- the record


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()


def line_of(room: str, results: list[Result], waiting: list[Unit], seed: int) -> dict[str, Any]:
    ran = [r for r in results if r.ran]
    # Records are written while units run: they are no change.
    dirty = git("status", "--porcelain", "--", ".", ":!verification", ":!docs/verification.md")
    return {
        "date": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()),
        "commit": git("rev-parse", "HEAD") + ("-dirty" if dirty else ""),
        "seed": seed,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "seconds": round(sum(r.seconds for r in results), 1),
        "passed": sum(r.passed for r in ran),
        "units": {r.unit.name: r.seconds for r in ran},
        "failed": [
            {
                "unit": r.unit.name,
                "tests": list(r.failed),
                "log": r.log,
                "repeat": r.repeat,
                "cause": "",
            }
            for r in ran
            if r.failed
        ],
        "left_out": {r.unit.name: r.left_out for r in results if r.left_out},
        "not_reached": [u.name for u in waiting if u.room == room],
    }


def write(room: str, line: dict[str, Any], folder: Path = RECORD) -> None:
    folder.mkdir(exist_ok=True)
    with (folder / f"{room}.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


# ---- the command


def build() -> None:
    """The jar, and what runs classes of the JVM's tests."""
    quiet = ["scripts/quiet.sh", "build/logs/deep-build.log", "Building the jar and the tests"]
    steps = "make jar build/classes.jsa && scripts/sbt testLaunch"
    if subprocess.run([*quiet, "sh", "-c", steps], cwd=ROOT).returncode != 0:
        sys.exit("Nothing was run.")


def main() -> int:
    asked = asked_for(sys.argv[1:])
    if not asked.list:
        build()
    found = in_order(units(asked.rooms, asked))
    if not found:
        sys.exit(f"No unit of {', '.join(asked.rooms)} is called {' or '.join(asked.only)}")
    lines = {room: records(room) for room in ROOMS}
    if asked.list:
        for unit in found:
            last = last_run(unit, lines[unit.room])
            ran = f"{last[0]['date'][:10]} {last[1]:.0f} s" if last else "never run"
            print(f"{unit.room:10} {unit.name:36} {ran}")
        return 0
    print(f"Seed {asked.seed}, {len(found)} units, {asked.minutes:g} minutes", flush=True)
    end_at = time.monotonic() + asked.minutes * 60
    results: list[Result] = []
    waiting = [unit for _ in range(asked.times) for unit in found]
    passed_over: list[Unit] = []
    while waiting:
        unit = waiting.pop(0)
        last = last_run(unit, lines[unit.room])
        if results and time.monotonic() + (last[1] if last else 60.0) > end_at:
            passed_over.append(unit)
            continue
        # Each round of TIMES has a seed of its own.
        seed = asked.seed + sum(r.unit == unit for r in results)
        result = run(unit, seed)
        results.append(result)
        said = "RED: " + "; ".join(result.failed) if result.failed else "green" * result.ran
        said += f" (left out: {result.left_out})" * bool(result.left_out)
        print(f"{unit.room:10} {unit.name:36} {result.seconds:7.1f} s  {said}", flush=True)
        if result.failed:
            print(f"    log {result.log}; again: {result.repeat}", flush=True)
    for room in dict.fromkeys(r.unit.room for r in results):
        write(
            room,
            line_of(room, [r for r in results if r.unit.room == room], passed_over, asked.seed),
        )
    # With a part of the lines' names in LANESHIFT_ONLY the matrix is not the whole one.
    if not os.environ.get("LANESHIFT_ONLY") and any(
        r.unit.name == "CompatibilityMatrix" and r.ran and not r.failed for r in results
    ):
        made = [sys.executable, str(ROOT / "scripts" / "compatibility.py"), "--matrix"]
        subprocess.run(made, check=True)
    subprocess.run([sys.executable, str(ROOT / "scripts" / "verification.py")], check=True)
    red = [r for r in results if r.failed]
    left_out = sum(not r.ran for r in results)
    print(
        f"{len(results) - len(red) - left_out} units green, {len(red)} red, {left_out} left out, "
        f"{len(passed_over)} not reached; docs/verification.md has the record"
    )
    return 1 if red else 0


if __name__ == "__main__":
    sys.exit(main())
