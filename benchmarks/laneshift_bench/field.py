"""The same work on other systems: longest gaps, latencies, rows lost or counted twice."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from laneshift.errors import InputError
from laneshift_bench.field_report import HEADER, by_side, goals, row
from laneshift_bench.progress import Progress
from laneshift_bench.query import BenchmarkError
from laneshift_bench.report import Report, kept, ran_now
from laneshift_field.cases import CASES, Case, record
from laneshift_field.judge import FULL, WITHIN_S, Answers, Figures, judge
from laneshift_field.systems import COMMIT_S, SYSTEMS, FieldError, Run, System
from laneshift_field.systems import run as run_system

METHOD = f"""\
One recorded file of rows (key, time due) for every system; each counts the rows of a key and gives
the new count as its answer. A row costs its core a millisecond, waited for to a deadline, so that
the machine's real cores do not decide. All have the same number of emulated cores at any time:
threads of the counting operator. State is committed every {{commit_s:g}} s, exactly once;
answers go out at once, so that they may be given again after a restart. Each run is a process of
its own; systems take turns. [How the comparison is made](../../docs/field.md) says what was
followed for each and what its users would object.

One program reads all answers. A row is answered when its key's count has reached it. *gap*: the
longest time in which no row got its first answer, in all of the run behind its warm-up and from
each change on.
*full rate*: seconds from the begin of a higher rate until {FULL:.0%} of it comes out over
{WITHIN_S:g} s. Percentiles (ms) are over all rows behind the warm-up, each with the same weight;
*after* is the second half of the time behind the last change. *lost*: rows that no count has
reached; *twice*: by how much counts went beyond the rows.

A system that knows no laneshift need not run again for each commit: below is said what was measured
when."""


def run(
    quick: bool, systems: Sequence[str] = (), cases: Sequence[str] = (), rounds: int | None = None,
    keep: Path | None = None, commit: float = COMMIT_S, add: Path | None = None,
) -> Report:  # fmt: skip
    """The whole benchmark, or what is chosen of it.

    Args:
        commit: seconds from one commit to the next.
        add: results of an earlier run, whose runs of other systems and cases are kept.
    """
    chosen = [system for system in SYSTEMS if not systems or system.name in systems]
    asked = [case.quick() if quick else case for case in CASES if not cases or case.name in cases]
    for kind, given, there in (
        ("system", systems, [system.name for system in SYSTEMS]),
        ("case", cases, [case.name for case in CASES]),
    ):
        for name in given:
            if name not in there:
                raise BenchmarkError(f"There is no {kind} {name!r}. There are: {', '.join(there)}.")
    data = _begun(kept(add), asked, commit)
    rounds = rounds or (1 if quick else 3)
    turns = [
        (case, number, system)
        for case in asked
        for number in range(rounds)
        for system in chosen
        if system.takes(case)
    ]
    anew = {(case.name, system.name) for case, _, system in turns}
    for kind in ("runs", "failed"):
        data[kind] = [one for one in data[kind] if (one["case"], one["system"]) not in anew]
    progress = Progress("field", len(turns))
    before, ran = len(data["runs"]), ran_now()
    with TemporaryDirectory(prefix="laneshift-field-", ignore_cleanup_errors=True) as temporary:
        for case, number, system in turns:
            progress.step(f"{case.name}, {system.name}, round {number + 1}")
            folder = (keep or Path(temporary)) / f"{case.name}-{system.name}-{number}"
            side = {"case": case.name, "system": system.name, "ran": ran}
            try:
                one, done = _one(system, case, folder.absolute(), commit)
            except FieldError as error:
                progress.note(str(error))
                data["failed"].append(side | {"why": str(error).splitlines()[0]})
                continue
            progress.note(_shown(one))
            used = {"cpu_s": round(done.cpu_s, 1), "rss_mb": round(done.rss_mb)}
            data["runs"].append(side | one.data() | used | {"changes": done.changes})
    if len(data["runs"]) == before:
        failed = map(_failure, data["failed"][-len(turns) :])
        raise BenchmarkError("No run came to its end:\n" + "\n".join(failed))
    return _report(data)


def _begun(data: dict[str, Any], cases: Sequence[Case], commit_s: float) -> dict[str, Any]:
    """What there is so far. Errors: InputError if its runs were of other cases or commits."""
    found = data or {"commit_s": commit_s, "cases": {}, "runs": [], "failed": []}
    if found["commit_s"] != commit_s:
        raise InputError(
            "commit", commit_s, f"{found['commit_s']:g}, as in the earlier results",
            "Runs with other commits need results of their own.",
        )  # fmt: skip
    for case in cases:
        settings = json.loads(json.dumps(asdict(case)))
        if found["cases"].setdefault(case.name, settings) != settings:
            raise InputError(
                "case", case.name, "a case as in the earlier results",
                "It has changed since, or one of the two was quick: leave --add out.",
            )  # fmt: skip
    return found


def _one(system: System, case: Case, folder: Path, commit_s: float) -> tuple[Figures, Run]:
    recorded = record(case)
    done = run_system(system, case, recorded, folder, commit_s)
    return judge(case, recorded, Answers.read(done.answers), done.start_us), done


def _shown(one: Figures) -> str:
    every = one.every
    return (
        f"gap {one.gap_s:.2f} s, from changes {_seconds(one.gaps_s)}, "
        f"full after {_seconds(one.full_s)}, "
        f"p50 {every.p50_ms:.1f} p99 {every.p99_ms:.1f} p99.9 {every.p999_ms:.1f} ms, "
        f"{one.rows_per_s:,.0f} rows/s, lost {one.lost}, twice {one.too_many}, again {one.again}"
    )


def _seconds(values: Sequence[float]) -> str:
    return " / ".join("never" if np.isinf(value) else f"{value:.2f}" for value in values) or "-"


def _failure(one: Mapping[str, str]) -> str:
    return f"{one['case']}, {one['system']}, {one['ran']}: {one['why']}"


def _report(data: dict[str, Any]) -> Report:
    method = METHOD.format(commit_s=data["commit_s"])
    report = Report("field", "The same work on other systems", method, HEADER, data=data)
    found = by_side(data["runs"])
    report.rows += [row(*side, runs) for side, runs in found.items()]
    report.goals += goals(found)
    report.notes += [f"{name}: {case['title']}." for name, case in data["cases"].items()]
    days: dict[str, dict[str, list[str]]] = {}
    for (case, system), runs in found.items():
        for ran in sorted({run["ran"] for run in runs}):
            days.setdefault(ran, {}).setdefault(case, []).append(system)
    for ran in sorted(days):
        sides = (f"{case} ({', '.join(systems)})" for case, systems in days[ran].items())
        report.notes.append(f"Measured {ran}: {', '.join(sides)}.")
    report.notes += [f"Did not come to its end: {_failure(one)}" for one in data["failed"]]
    return report
