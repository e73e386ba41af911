"""Units of the deep tier, and which of them were asked for: `deep.py` runs them."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "python" / "tests"))
from tiers import ROOMS  # noqa: E402

OUT = ROOT / "build" / "deep"
LAUNCH = ROOT / "jvm" / "spark" / "target" / "test-launch.args"
JVM_TESTS = ("jvm/core/src/test/scala", "jvm/spark/src/test/scala")


@dataclass(frozen=True)
class Unit:
    """One process of a room: `files` are those whose change makes it run sooner; `reports` are
    the JUnit files that it leaves."""

    room: str
    name: str
    command: tuple[str, ...]  # {seed} in a word stands for the run's
    files: tuple[str, ...] = ()
    limit_s: int = 1800
    env: dict[str, str] = field(default_factory=dict)
    reports: str = ""


# ---- what was asked for


def rooms_of(text: str) -> list[str]:
    asked = [word for word in re.split(r"[,\s]+", text) if word]
    for word in asked:
        if word not in ROOMS:
            sys.exit(f"ROOMS has '{word}', and there is no such room. Rooms: {', '.join(ROOMS)}")
    return asked or list(ROOMS)


def number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        sys.exit(f"{name} is '{text}'; allowed are numbers above 0 and below 1,000,000")
    return value


def seed_of(text: str) -> int:
    """Another one each time, unless one is given."""
    if not text:
        return random.SystemRandom().randrange(1, 1_000_000)
    if not re.fullmatch(r"\d{1,18}", text):
        sys.exit(f"SEED is '{text}'; allowed are whole numbers of at most 18 digits")
    return int(text)


@dataclass(frozen=True)
class Asked:
    """What `make deep` was asked for."""

    rooms: list[str]
    only: list[str]
    minutes: float
    seed: int
    times: int
    kills: int
    seconds: int
    list: bool


def asked_for(words: list[str]) -> Asked:
    """Of words like ROOMS=kills; exits with a sentence at what is not allowed."""
    given = {}
    for word in words:
        name, _, value = word.partition("=")
        given[name] = value
    return Asked(
        rooms_of(given.get("ROOMS", "")),
        given.get("ONLY", "*").split(),
        number("MINUTES", given.get("MINUTES", "600")),
        seed_of(given.get("SEED", "")),
        int(number("TIMES", given.get("TIMES", "1"))),
        int(number("KILLS", given["KILLS"])) if "KILLS" in given else 0,
        int(number("SECONDS", given["SECONDS"])) if "SECONDS" in given else 0,
        "LIST" in given,
    )


# ---- what there is


def java(*words: str, launch: Path = LAUNCH) -> tuple[str, ...]:
    return ("java", f"@{launch}", *words)


def runner(suite: str, reports: Path, *which: str, launch: Path = LAUNCH) -> tuple[str, ...]:
    """Runs tests of a suite, with its package, in the tree whose build has written `launch`."""
    folders = " ".join(str(launch.parents[3] / folder) for folder in class_folders(launch))
    return java(
        *("org.scalatest.tools.Runner", "-R", folders, "-oDF", "-u", str(reports)),
        *("-s", suite, *which),
        launch=launch,
    )


def classes_of_suites() -> Iterator[tuple[str, str, Path]]:
    """Each suite of the JVM: its name, its name with the package, its file."""
    for folder in JVM_TESTS:
        for path in sorted((ROOT / folder).rglob("*Suite.scala")):
            text = path.read_text()
            package = re.findall(r"^package (\S+)", text, re.M)[0]
            for name in re.findall(r"^(?:final )?class (\w+Suite)\b", text, re.M):
                yield name, f"{package}.{name}", path


def suites(room: str) -> Iterator[Unit]:
    """Suites of the JVM with a test of this room."""
    tag = re.compile(rf"\bDeep\.{room.capitalize()}\b")
    for name, whole_name, path in classes_of_suites():
        if path.stem in ("TiersSuite", "LimitedSuite") or not tag.search(path.read_text()):
            continue
        reports = OUT / "reports" / f"{room}-{name}"
        yield Unit(
            room,
            name,
            runner(whole_name, reports, "-n", f"laneshift.deep.{room}"),
            (str(path.relative_to(ROOT)),),
            limit_s=3000,
            env={"LANESHIFT_DEEP": room},
            reports=str(reports / "TEST-*.xml"),
        )


def class_folders(launch: Path = LAUNCH) -> list[str]:
    listed = launch.with_name("test-classes.txt")
    return listed.read_text().split() if listed.is_file() else []


def modules(room: str) -> Iterator[Unit]:
    """Python's test modules with a test of this room."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q"]
    found = subprocess.run(
        [*command, f"--deep={room}", "-p", "no:cacheprovider"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    names = dict.fromkeys(re.findall(r"^(\S+?\.py)::", found.stdout, re.M))
    if found.returncode not in (0, 5):
        sys.exit(f"Python's tests of {room} cannot be collected:\n{found.stdout[-2000:]}")
    for path in names:
        report = OUT / "reports" / f"{room}-{Path(path).stem}.xml"
        yield Unit(
            room,
            Path(path).stem,
            (sys.executable, "-m", "pytest", path, "--deep", room, f"--junitxml={report}"),
            (path,),
            limit_s=3600,
            reports=str(report),
        )


def commands(room: str, asked: Asked) -> Iterator[Unit]:
    """What is neither a suite nor a test module."""
    in_tests = "org.apache.spark.sql.laneshift"
    if room == "kills":
        for name, usual, fewest in (
            ("RandomKills", 60, 12),
            ("HostKills", 30, 2),
            ("RescaleKills", 30, 12),
        ):
            if 0 < asked.kills < fewest and any(fnmatch(name, p) for p in asked.only):
                sys.exit(f"KILLS is {asked.kills}; {name} takes whole numbers from {fewest}")
            main = java(f"{in_tests}.kills.{name}", str(asked.kills or usual), "{seed}")
            yield Unit(room, name, main, (f"{JVM_TESTS[1]}/org",), limit_s=3 * 3600)
        for module in ("test_driver_kill", "test_executor_kill", "test_autoscaler_kill"):
            path = f"integration_tests/{module}.py"
            command = (sys.executable, "-m", "pytest", "-s", path)
            env = {"LANESHIFT_KILLS": str(asked.kills or 5)}
            yield Unit(room, module, command, (path,), limit_s=3 * 3600, env=env)
    elif room == "cluster":
        for path in sorted((ROOT / "integration_tests" / "cluster").glob("test_*.py")):
            at = str(path.relative_to(ROOT))
            command = ("scripts/itest.sh", at)
            yield Unit(room, path.stem, command, (at, "docker"), limit_s=3600)
    elif room == "matrix":
        command = java(f"{in_tests}.CompatibilityMatrix", str(ROOT / "build" / "matrix.md"))
        yield Unit(room, "CompatibilityMatrix", command, (JVM_TESTS[1],), limit_s=3 * 3600)
    elif room == "mutants":
        explorer = java("laneshift.lane.explore.ScheduleExplorer")
        core = ("jvm/core/src",)
        yield Unit(room, "ScheduleExplorer", explorer, core)
        yield Unit(room, "InletRace", java("laneshift.lane.InletRace"), core)
        planted = (sys.executable, "scripts/mutants.py", "MINUTES=40")
        yield Unit(room, "mutants", planted, ("jvm", "verification/mutants.toml"), limit_s=7200)
    elif room == "surface":
        yield Unit(room, "release", ("make", "release"), ("pyproject.toml", "build.sbt"))
    elif room == "endurance":
        run = (sys.executable, "benchmarks/run.py", "endurance", "--seed", "{seed}")
        seconds = str(asked.seconds or 600)
        yield Unit(room, "endurance", (*run, "--seconds", seconds), limit_s=int(seconds) + 1800)


def units(rooms: list[str], asked: Asked) -> list[Unit]:
    found = [u for r in rooms for u in (*suites(r), *modules(r), *commands(r, asked))]
    return [unit for unit in found if any(fnmatch(unit.name, p) for p in asked.only)]
