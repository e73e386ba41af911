"""The same work on other systems: longest gaps, latencies, rows lost or counted twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from laneshift_bench.pairs import spread
from laneshift_bench.progress import Progress
from laneshift_bench.query import BenchmarkError
from laneshift_bench.report import Goal, Report
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
reached; *twice*: by how much counts went beyond the rows."""
HEADER = (
    "case", "system", "longest gap, s", "from the changes on, s", "full rate after, s", "p50",
    "p99", "p99.9", "p99 before", "p99 after", "rows/s", "lost", "twice", "given again", "CPU s",
    "RSS MB",
)  # fmt: skip


def run(
    quick: bool, systems: Sequence[str] = (), cases: Sequence[str] = (), rounds: int | None = None,
    keep: Path | None = None, commit: float = COMMIT_S,
) -> Report:  # fmt: skip
    """The whole benchmark."""
    chosen = [system for system in SYSTEMS if not systems or system.name in systems]
    asked = [case.quick() if quick else case for case in CASES if not cases or case.name in cases]
    if not chosen or not asked:
        raise BenchmarkError(f"There is no such system or case: {', '.join([*systems, *cases])}.")
    rounds = rounds or (1 if quick else 3)
    turns = [
        (case, number, system)
        for case in asked
        for number in range(rounds)
        for system in chosen
        if system.takes(case)
    ]
    progress = Progress("field", len(turns))
    found: dict[tuple[str, str], list[tuple[Figures, Run]]] = {}
    failed: list[str] = []
    with TemporaryDirectory(prefix="laneshift-field-", ignore_cleanup_errors=True) as temporary:
        for case, number, system in turns:
            progress.step(f"{case.name}, {system.name}, round {number + 1}")
            folder = (keep or Path(temporary)) / f"{case.name}-{system.name}-{number}"
            try:
                one = _one(system, case, folder.absolute(), commit)
            except FieldError as error:
                progress.note(str(error))
                failed.append(f"{case.name}, {system.name}: {str(error).splitlines()[0]}")
                continue
            progress.note(_shown(one[0]))
            found.setdefault((case.name, system.name), []).append(one)
    if not found:
        raise BenchmarkError("No run came to its end:\n" + "\n".join(failed))
    return _report(asked, found, failed, commit)


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


def _spread(values: Sequence[float]) -> str:
    """Median, lowest and highest; percentiles of rows that never came are infinite."""
    return "never" if any(np.isinf(values)) else spread(values)


def _each(values: Sequence[Sequence[float]]) -> str:
    """The same for each of several changes, of which every run has a value."""
    return " / ".join(_spread(places) for places in zip(*values, strict=True)) or "-"


def _report(
    cases: Sequence[Case],
    found: Mapping[tuple[str, str], Sequence[tuple[Figures, Run]]],
    failed: Sequence[str],
    commit_s: float,
) -> Report:
    method = METHOD.format(commit_s=commit_s)
    report = Report("field", "The same work on other systems", method, HEADER)
    for (case, system), each in found.items():
        figures, runs = [one for one, _ in each], [done for _, done in each]
        single: tuple[Sequence[float], ...] = (
            [one.every.p50_ms for one in figures],
            [one.every.p99_ms for one in figures],
            [one.every.p999_ms for one in figures],
            [one.before.p99_ms for one in figures],
            [one.after.p99_ms for one in figures],
            [one.rows_per_s for one in figures],
            [one.lost for one in figures],
            [one.too_many for one in figures],
            [one.again for one in figures],
            [done.cpu_s for done in runs],
            [done.rss_mb for done in runs],
        )
        report.rows.append(
            [
                case,
                system,
                _spread([one.gap_s for one in figures]),
                _each([one.gaps_s for one in figures]),
                _each([one.full_s for one in figures]),
                *map(_spread, single),
            ]
        )
        wrong = max(one.lost + one.too_many for one in figures)
        report.goals.append(Goal(f"{case}, {system}: rows lost or counted twice", wrong, "<=", 0))
        report.data[f"{case} {system}"] = [
            one.data()
            | {"cpu_s": round(done.cpu_s, 1), "rss_mb": round(done.rss_mb)}
            | {"changes": done.changes}
            for one, done in each
        ]
    report.data["cases"] = [asdict(case) for case in cases]
    report.notes += [f"{case.name}: {case.title}." for case in cases]
    report.notes += [f"Did not come to its end: {each}" for each in failed]
    return report
