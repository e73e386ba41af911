"""Hours of constant motion, rescales, lanes elsewhere and kills, in pieces; each answer checked.

What was done is in a folder, and the same command goes on from there after whatever interruption.
This process starts one *life* after the other (`endurance_life.py`), and kills all but the last.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from laneshift_bench.endurance_life import (
    BATCH,
    CORES,
    EXECUTORS,
    FOUND_WRONG,
    HEAP,
    PLUGIN,
    RATE,
    START_S,
    Lived,
    Pace,
)
from laneshift_bench.flat import FLAT, GROWS, SURE, UNKNOWN, Slope, slope
from laneshift_bench.numbered import BLOCKS, GROUPS, KEYS, WRONG, Batches, replace
from laneshift_bench.pictures import Line, Panel, over_time
from laneshift_bench.progress import Progress
from laneshift_bench.query import BenchmarkError
from laneshift_bench.report import Goal, Report

HOUR_S = 3600.0
ALLOWED = 0.5 / (7 * 24)
"""Of a level, an hour: half as much again in a week."""
ROLES = ("driver", "executor", "python")
FIGURES = {
    "heap_mb": "heap after full collections, MB",
    "native_mb": "native memory, MB",
    "threads": "threads",
    "files": "open files",
}
FRESH_S = 900.0
"""A Real-time checkpoint older than so long (s) is left: its schedule has gone on meanwhile."""
INPUT = {"batch": BATCH, "rate": RATE, "blocks": BLOCKS, "groups": GROUPS}
METHOD = f"""\
An application on {EXECUTORS} executor processes of {CORES} cores (`local-cluster`), lives one after
the other until they have lived {{hours:g}} h together, in as many pieces as it was interrupted. Two
queries count {KEYS} keys: *totals* in micro-batches of {BATCH:,} rows a second, *order* in
Real-time Mode at {RATE} rows/s. Fault mode moves shards and changes lanes every
{PLUGIN["motion.interval"]}, some lanes are reached over the network; every few seconds a partition
gets a lane on another executor or has them home; *totals* is rescaled to 1, 2, 3, 4 or 6 partitions
again and again; one of the executors is killed now and then, and the driver with all its processes
(SIGKILL) at the end of each life but the last.

Rows have keys that follow from their numbers, so that the count, the newest row and the sum of each
key are known for any end of the input. *totals*: each batch's answers have to be exactly those, of
exactly the keys that have rows in it. *order*: each answer has to be the one that its count gives,
and counts of a key go up by one, from batch to batch and over kills. At the begin of each life, and
at the end of the last one, the state in both checkpoints has to be what the input gives. The first
answer that is not stops the run for good.

What processes hold is looked at every {{sample:g}} s: the heap in use after two full collections,
resident memory without the heap (all of whose {HEAP} are touched at the start), threads, open
files; of *python*, the driver's, all its memory. The first {{warm:g}} s of a process do not count.
The *slope* is that of all processes of a kind together, each with a level of its own, from medians
of an eighth of its time; *+-* is half of its {SURE:.0%} interval. Allowed is half a level more in
a week, {ALLOWED:.2%} an hour: who starts an application anew once a week, as for an upgrade, never
meets it. *flat*: the whole interval is within that. *grows*: all of it is above. *not known*: the
run is too short to tell."""
HEADER = (
    "process", "figure", "level", "slope an hour", "+-", "allowed", "processes", "hours",
    "verdict",
)  # fmt: skip


@dataclass
class Run:
    """What the folder of a run knows.

    Attributes:
        seed: of all choices.
        pieces, lives, driver_kills: counts so far.
        ended_at: when the newest piece was last seen at work (s since 1970).
        order: number of the newest Real-time checkpoint.
        input: what the rows are, which must not change.
    """

    seed: int
    pieces: int = 0
    lives: int = 0
    driver_kills: int = 0
    ended_at: float = 0.0
    order: int = 0
    input: dict[str, int] = field(default_factory=lambda: dict(INPUT))

    @staticmethod
    def opened(folder: Path, seed: int | None, now: float) -> Run:
        """Go on with a folder's run, or begin one in it, as one more piece.

        Errors: BenchmarkError if it has met a wrong answer, or is not the one that is asked for.
        """
        (folder / "lives").mkdir(parents=True, exist_ok=True)
        if wrong := wrong_answer(folder):
            raise BenchmarkError(
                f"The run in {folder} has met a wrong answer and does not go on. {wrong} "
                "Begin anew with another --folder; the checkpoints stay as they were met."
            )
        file = folder / "run.json"
        if file.exists():
            run = Run(**json.loads(file.read_text()))
            if seed not in (None, run.seed):
                raise BenchmarkError(
                    f"The run in {folder} has the seed {run.seed}, not {seed}: leave --seed out to "
                    "go on with it, or begin another one with another --folder."
                )
            if run.input != INPUT:
                raise BenchmarkError(
                    f"The run in {folder} has other rows, {run.input}, than this version, {INPUT}: "
                    "begin another one with another --folder."
                )
        else:
            run = Run(random.randrange(10**6) if seed is None else seed)
        run.pieces += 1
        if run.order == 0 or now - run.ended_at > FRESH_S:
            run.order += 1
        return run

    def keep(self, folder: Path) -> None:
        """Write it down."""
        self.ended_at = time.time()
        replace(folder / "run.json", asdict(self))


def wrong_answer(folder: Path) -> str | None:
    """The sentence about the first wrong answer that the run has met."""
    found = [folder / WRONG, *sorted(folder.glob(f"order-*/{WRONG}"))]
    return next((file.read_text().strip() for file in found if file.exists()), None)


def lives(folder: Path) -> list[Lived]:
    """Of all lives so far, what each has last written down."""
    files = sorted((folder / "lives").glob("*.json"), key=lambda f: int(f.stem))
    return [Lived(**json.loads(file.read_text())) for file in files]


def lived_s(folder: Path) -> float:
    """How long all lives were at work together (s)."""
    return sum(life.lived_s for life in lives(folder))


def checked(folder: Path) -> tuple[int, int]:
    """Answers and rows that were checked, of both queries.

    An answer of *order* is that of one row.
    """
    totals = Batches(folder / "totals.json", BATCH).read()
    newest: dict[tuple[str, str], tuple[int, int]] = {}
    for file in folder.glob("order-*/order-*-*.json"):
        _, partition, batch = file.stem.split("-")
        found = int(batch), int(json.loads(file.read_text())["answers"])
        key = file.parent.name, partition
        newest[key] = max(newest.get(key, found), found)
    one_by_one = sum(answers for _, answers in newest.values())
    return totals["answers"] + one_by_one, totals["rows"] + one_by_one


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Errors: BenchmarkError if another process is at work in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "run.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BenchmarkError(f"Another process is at work in {folder}.") from None
        yield


def run(
    total_s: float, folder: Path, seed: int | None = None,
    command: Sequence[str] = (sys.executable, str(Path(__file__).parents[1] / "run.py"),
                              "endurance-life"),
) -> Report:  # fmt: skip
    """Go on until all lives have lasted ``total_s`` (s), and judge.

    ``command`` starts a life with its settings as JSON behind it. Errors: BenchmarkError with the
    sentence about a wrong answer, or what else ended a life.
    """
    folder = folder.absolute()
    with alone(folder):
        now = Run.opened(folder, seed, time.time())
        now.keep(folder)
        pace = Pace.of(total_s)
        progress = Progress("endurance", max(1, round(total_s / pace.life_s)))
        progress.note(f"seed {now.seed}, piece {now.pieces}, {lived_s(folder):,.0f} s done before")
        if lived_s(folder) >= total_s:
            progress.note("all of it is done: this judges it again; a new run has another --folder")
        while (left_s := total_s - lived_s(folder)) > 0.5:
            now.lives += 1
            rng = random.Random(f"{now.seed} {now.lives} life")
            last = left_s <= 2 * pace.life_s
            for_s = left_s if last else rng.uniform(0.5, 1.5) * pace.life_s
            progress.step(f"life {now.lives}, {for_s:,.0f} s" + (", the last one" if last else ""))
            now.keep(folder)
            now.driver_kills += _life(folder, now, pace, for_s, last, command)
            now.keep(folder)
            progress.note(_words(folder, lives(folder)[-1]))
        return report(folder, now, pace, total_s)


def _life(
    folder: Path, run: Run, pace: Pace, for_s: float, last: bool, command: Sequence[str]
) -> bool:
    """One life; whether it was killed."""
    given = {
        "folder": str(folder), "life": run.lives, "piece": run.order, "seed": run.seed,
        "pace": asdict(pace), "before_s": lived_s(folder), "for_s": for_s if last else 10 * for_s,
    }  # fmt: skip
    file, log = (folder / "lives" / f"{run.lives}.{end}" for end in ("json", "log"))
    # Spark's folders of lives that were killed stay behind.
    scratch = folder / "tmp"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    replace(file, asdict(Lived()))
    with log.open("w") as out:
        process = subprocess.Popen(
            [*command, json.dumps(given)], stdout=out, stderr=out, start_new_session=True,
            env={**os.environ, "TMPDIR": str(scratch)},
        )  # fmt: skip
        begun = time.monotonic()
        try:
            while process.poll() is None:
                lived = Lived(**json.loads(file.read_text()))
                if not last and lived.lived_s >= for_s:
                    break
                if lived.lived_s == 0 and time.monotonic() - begun > 2 * START_S:
                    raise BenchmarkError(f"Life {run.lives} has not begun to work: see {log}.")
                time.sleep(0.2)
                run.keep(folder)
            ended = process.poll()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if wrong := wrong_answer(folder):
        raise BenchmarkError(
            f"{wrong} Life {run.lives} of seed {run.seed} has met it; see {folder}."
        )
    if ended is None:
        return True
    if ended == FOUND_WRONG or ended != 0:
        tail = log.read_text(errors="replace").strip()[-1500:]
        raise BenchmarkError(
            f"Life {run.lives} has ended by itself with {ended}; see {log}:\n{tail}"
        )
    if not last:
        raise BenchmarkError(f"Life {run.lives} was to be killed and has ended before: see {log}.")
    return False


def _words(folder: Path, life: Lived) -> str:
    answers, rows = checked(folder)
    return (
        f"{answers:,} answers over {rows:,} rows are right; in this life {life.moves:,} moves, "
        f"{life.executor_kills} executors killed, {life.restarts} restarts of queries, rescales "
        f"{life.rescales}, {life.remote_rows:,} rows elsewhere"
    )


# ---- what all of it says


@dataclass(frozen=True)
class Readings:
    """What processes held: for each figure and role the (hours, values) of each process."""

    every: Sequence[Mapping[str, Any]]

    @staticmethod
    def of(file: Path) -> Readings:
        """Read the run's samples; the last line may have been cut off by a kill."""
        found = []
        for line in file.read_text().splitlines() if file.exists() else ():
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError:
                continue
        return Readings(found)

    def series(
        self, role: str, figure: str, warm_s: float
    ) -> list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
        """(hours, values) of each process of a role, float64, without its first ``warm_s`` (s)."""
        found: dict[tuple[int, int], list[tuple[float, float]]] = {}
        for one in self.every:
            if one["role"] == role and one["age_s"] >= warm_s and one[figure] is not None:
                points = found.setdefault((one["life"], one["pid"]), [])
                points.append((one["at_s"] / HOUR_S, one[figure]))
        return [(np.array([t for t, _ in p]), np.array([v for _, v in p])) for p in found.values()]

    def line(self, role: str, figure: str) -> Line:
        """All of a role's readings for a picture, with a gap before each process's own."""
        times: list[float] = []
        values: list[float] = []
        for hours, each in self.series(role, figure, 0.0):
            times += [math.nan, *hours]
            values += [math.nan, *each]
        return np.array(times), np.array(values)


def judged(readings: Readings, warm_s: float) -> dict[tuple[str, str], tuple[Slope, float, str]]:
    """By role and figure: slope, what is allowed an hour, and the verdict."""
    found = {}
    for role in ROLES:
        for figure in FIGURES:
            if role == "python" and figure == "heap_mb":
                continue
            one = slope(readings.series(role, figure, warm_s))
            allowed = ALLOWED * one.level
            found[role, figure] = one, allowed, one.verdict(allowed)
    return found


def report(folder: Path, run: Run, pace: Pace, total_s: float) -> Report:
    """The run as it stands in its folder."""
    method = METHOD.format(hours=total_s / HOUR_S, sample=pace.sample_s, warm=pace.warm_s)
    made = Report("endurance", "Endurance", method, HEADER)
    readings = Readings.of(folder / "samples.jsonl")
    every = judged(readings, pace.warm_s)
    for (role, figure), (one, allowed, verdict) in every.items():
        sure = math.isfinite(one.error)
        made.rows.append(
            [
                role, FIGURES[figure], _shown(one.level, ",.1f"), _shown(one.per_hour, "+,.2f"),
                _shown(one.error, ",.2f"), _shown(allowed, ",.2f"), str(one.processes),
                f"{one.hours:.2f}", verdict if verdict == FLAT else f"**{verdict}**",
            ]
        )  # fmt: skip
        if sure and one.level > 0:
            at_most = 100 * (one.per_hour + one.error) / one.level
            what = f"{role}, {FIGURES[figure].partition(',')[0]}: growth at most, % an hour"
            made.goals.append(Goal(what, at_most, "<=", 100 * ALLOWED))
    answers, rows = checked(folder)
    done = lives(folder)
    # One that is not right has ended the run.
    made.goals.insert(0, Goal("answers lost, doubled or out of order", 0, "<=", 0))
    made.notes += _notes(run, done, answers, rows)
    if unknown := [f"{r}, {f}" for (r, f), (_, _, v) in every.items() if v == UNKNOWN]:
        made.notes.append(f"Too short to tell: {'; '.join(unknown)}.")
    made.data = {
        "run": asdict(run), "seconds": total_s, "answers": answers, "rows": rows,
        "lives": [asdict(life) for life in done],
        "slopes": {
            f"{role}, {figure}": {
                name: value if not isinstance(value, float) or math.isfinite(value) else None
                for name, value in asdict(one).items()
            } | {"verdict": verdict}
            for (role, figure), (one, _, verdict) in every.items()
        },
        "readings": [[one["at_s"], one["role"], one["life"], one["heap_mb"], one["native_mb"],
                      one["threads"], one["files"]] for one in readings.every],
    }  # fmt: skip
    panels = [
        Panel(f"{name[:1].upper()}{name[1:]}", _lines(readings, figure), {})
        for figure, name in FIGURES.items()
    ]
    made.files["endurance.png"] = lambda file: over_time(
        file, "What processes hold while everything moves", panels, axis="hours"
    )
    return made


def _shown(value: float, how: str) -> str:
    """Nothing for what is not known."""
    return format(value, how) if math.isfinite(value) else ""


def _lines(readings: Readings, figure: str) -> dict[str, Line]:
    found = {role: readings.line(role, figure) for role in ROLES}
    return {role: line for role, line in found.items() if len(line[0])}


def _notes(run: Run, done: Sequence[Lived], answers: int, rows: int) -> list[str]:
    rescales: dict[str, int] = {}
    for life in done:
        for state, count in life.rescales.items():
            rescales[state] = rescales.get(state, 0) + count
    ended = ", ".join(f"{count} {state}" for state, count in sorted(rescales.items())) or "none"

    def total(name: str) -> int:
        return sum(getattr(life, name) for life in done)

    return [
        f"{answers:,} answers over {rows:,} rows and {total('states')} states of checkpoints were "
        "compared with what the input gives: 0 lost, 0 doubled, 0 out of order.",
        f"{run.driver_kills} drivers and {total('executor_kills')} executors killed, "
        f"{total('restarts')} restarts of a query within a life; {run.lives} lives in {run.pieces} "
        f"pieces; seed {run.seed}.",
        f"{total('moves'):,} shards moved, {total('placed'):,} times a lane was asked for on "
        f"another executor ({total('remote_rows'):,} rows went there), rescales: {ended}.",
    ]


def grown(made: Report) -> list[str]:
    """The figures that are sure to grow by more than is allowed."""
    return [name for name, one in made.data["slopes"].items() if one["verdict"] == GROWS]
