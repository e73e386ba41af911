"""Runs .ci/run in a fresh clone of a commit, as a forge would: `make rehearse` calls it.

    python scripts/rehearse.py [--commit HEAD] [quiet | busy | stops | clock ...]

Each word is one run; without one there is a single quiet run. `busy` has four loops that take the
cores beside it, `stops` one core only and all processes stopped for 10 s now and then, `clock` the
wall clock set back by an hour in mid-run (clock.c; it needs a C compiler). The verdict has to be
the same. Each run is a line of verification/gate.jsonl; build/rehearsed names the commit after a
quiet run that was green, unless another one was red. A clone goes away unless it was red.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path += [str(ROOT / "scripts")]
from sbt_reports import cases  # noqa: E402

RECORD = ROOT / "verification" / "gate.jsonl"
BUSY_LOOPS = 4
STOP_S = 10.0
BETWEEN_STOPS_S = (30.0, 120.0)
BACK_AFTER_S = 300.0
BACK_BY_S = 3600
# What a shell of this checkout has set must not help the clone.
NOT_PASSED_ON = (
    *("VIRTUAL_ENV", "PYTHONPATH", "PYTHON", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"),
    *("SPARK_HOME", "MAKEFLAGS", "MAKELEVEL", "MFLAGS"),
)


def git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def group(leader: int) -> list[int]:
    """The processes of a session, the leader's and all that it has started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[3]) == leader:
                found.append(int(stat.parent.name))
    return found


def signalled(leader: int, number: int) -> None:
    for pid in group(leader):
        with suppress(ProcessLookupError):
            os.kill(pid, number)


@contextmanager
def busy(_: int, __: Path) -> Iterator[None]:
    loops = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BUSY_LOOPS)
    ]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@contextmanager
def beside(work: Callable[[threading.Event], None]) -> Iterator[None]:
    over = threading.Event()
    thread = threading.Thread(target=work, args=(over,))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def stops(leader: int, _: Path) -> Iterator[None]:
    drawn = random.Random(1)

    def work(over: threading.Event) -> None:
        while not over.wait(drawn.uniform(*BETWEEN_STOPS_S)):
            signalled(leader, signal.SIGSTOP)
            over.wait(STOP_S)
            signalled(leader, signal.SIGCONT)

    with beside(work):
        yield


def set_clock(place: Path, seconds: int) -> None:
    """Written where it is: processes have it mapped."""
    file = os.open(place / "offset", os.O_RDWR | os.O_CREAT)
    os.pwrite(file, struct.pack("l", seconds), 0)
    os.close(file)


@contextmanager
def clock(_: int, place: Path) -> Iterator[None]:
    def work(over: threading.Event) -> None:
        if not over.wait(BACK_AFTER_S):
            set_clock(place, -BACK_BY_S)

    with beside(work):
        yield


@contextmanager
def quiet(_: int, __: Path) -> Iterator[None]:
    yield


WAYS = {"quiet": quiet, "busy": busy, "stops": stops, "clock": clock}


def environment(way: str, place: Path) -> dict[str, str]:
    env = {k: v for k, v in os.environ.items() if k not in NOT_PASSED_ON} | {"CI": "true"}
    if way == "clock":
        set_clock(place, 0)
        moved = place / "clock.so"
        source = ROOT / "scripts" / "clock.c"
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", moved, source, "-ldl"], check=True)
        env |= {"LD_PRELOAD": str(moved), "WALL_CLOCK_OFFSET": str(place / "offset")}
    return env


def steps(clone: Path) -> dict[str, int]:
    """Seconds by step, as the gate writes them."""
    file = clone / "build" / "minutes.txt"
    text = file.read_text() if file.exists() else ""
    return {name: int(s) for name, s in re.findall(r"^(\S+) +(\d+) s$", text, re.M)}


def tests(clone: Path) -> tuple[dict[str, float], list[str]]:
    """Seconds by room, and the names of red tests."""
    rooms: dict[str, float] = defaultdict(float)
    red = []
    for report in clone.glob("jvm/*/target/test-reports/TEST-*.xml"):
        for case in cases(report):
            rooms[f"jvm/{report.parts[-4]}"] += case.seconds
            red += [f"{report.stem.rpartition('.')[2]}: {case.name}"] * (case.problem in BAD)
    python = clone / "build" / "logs" / "test-python.xml"
    if python.exists():
        for case in cases(python):
            rooms["python/" + (case.folder or "tests")] += case.seconds
            red += [f"{case.folder}: {case.name}"] * (case.problem in BAD)
    return dict(rooms), red


BAD = ("failure", "error")


def rehearsed(way: str, commit: str) -> bool:
    place = Path(tempfile.mkdtemp(prefix="laneshift-rehearsal."))
    clone = place / "main"
    git("clone", "--quiet", "--no-hardlinks", str(ROOT), str(clone))
    git("-C", str(clone), "checkout", "--quiet", "--detach", commit)
    if (ROOT.parent / "shared").is_dir():
        shutil.copytree(ROOT.parent / "shared", place / "shared", symlinks=True)
    print(f"Rehearsing {commit} in {clone}, {way}", flush=True)
    since = time.monotonic()
    command = [*(["taskset", "-c", "0"] if way == "stops" else []), "bash", ".ci/run"]
    run = subprocess.Popen(
        command,
        cwd=clone,
        env=environment(way, place),
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        with WAYS[way](run.pid, place):
            code = run.wait()
    finally:
        signalled(run.pid, signal.SIGKILL)
    took = round(time.monotonic() - since)
    by_room, red = tests(clone)
    logs = ROOT / "build" / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    for log in clone.glob("build/logs/*.log"):
        shutil.copy(log, logs / f"rehearsal-{log.name}")
    for room, seconds in sorted(by_room.items(), key=lambda item: -item[1]):
        print(f"{room:24} {seconds:6.0f} s")
    print(f"Took {took // 60} min {took % 60} s in all.")
    line = {
        "date": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()),
        "commit": commit,
        "how": way,
        "green": code == 0,
        "seconds": took,
        "steps": steps(clone),
        "red": red,
    }
    RECORD.parent.mkdir(exist_ok=True)
    with RECORD.open("a") as file:
        file.write(json.dumps(line) + "\n")
    if code != 0:
        print(f"Red, with exit code {code}. The clone is left in {clone}.", file=sys.stderr)
        return False
    subprocess.run(["chmod", "-R", "u+w", str(place)], check=True)
    shutil.rmtree(place)
    return True


def only_one() -> None:
    """Two at once would make each other slow, and red by chance. The lock ends with the process."""
    (ROOT / "build").mkdir(exist_ok=True)
    lock = os.open(ROOT / "build" / "rehearsal.lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit("A rehearsal of this checkout is running: wait for it, or end its rehearse.py.")


def main() -> int:
    # So that whoever ends this ends the run, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    reader = argparse.ArgumentParser()
    reader.add_argument("--commit", default="HEAD")
    reader.add_argument("ways", nargs="*", default=["quiet"])
    given = reader.parse_args()
    for way in given.ways:
        if way not in WAYS:
            sys.exit(f"HOW has '{way}', and there is no such way. Ways: {', '.join(WAYS)}")
    if "clock" in given.ways and not shutil.which("cc"):
        sys.exit("HOW=clock needs a C compiler: apt-get install gcc libc6-dev")
    # Records are written by earlier runs: they are no change.
    if given.commit == "HEAD" and git("status", "--porcelain", "--", ".", ":!verification"):
        sys.exit("There are changes that are not committed, and a rehearsal is of a commit.")
    try:
        commit = git("rev-parse", "--verify", "--quiet", f"{given.commit}^{{commit}}")
    except subprocess.CalledProcessError:
        sys.exit(f"COMMIT is '{given.commit}', and this repository has no such commit.")
    only_one()
    mark = ROOT / "build" / "rehearsed"
    mark.unlink(missing_ok=True)
    red = False
    for way in given.ways:
        red = not rehearsed(way, commit) or red
        if red:
            mark.unlink(missing_ok=True)
        elif way == "quiet":
            mark.write_text(commit + "\n")
            print(f"Green: build/rehearsed names {commit}.")
    return 1 if red else 0


if __name__ == "__main__":
    sys.exit(main())
