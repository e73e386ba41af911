"""The field's table and goals, from the runs of one day or of several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np

from laneshift_bench.pairs import spread
from laneshift_bench.report import Goal
from laneshift_field.cases import CASES
from laneshift_field.systems import SYSTEMS

HEADER = (
    "case", "system", "runs", "longest gap, s", "from the changes on, s", "full rate after, s",
    "p50", "p99", "p99.9", "p99 before", "p99 after", "rows/s", "lost", "twice", "given again",
    "CPU s", "RSS MB",
)  # fmt: skip
OURS = "laneshift"
RESTARTS = 10.0
"""So many times shorter than Flink's a gap from a change on is to be."""

Run = Mapping[str, Any]
"""Figures of one run as in JSON: None for what is infinite."""
Found = Mapping[tuple[str, str], Sequence[Run]]


def by_side(runs: Sequence[Run]) -> Found:
    """Runs by case and system, in the order of both."""
    sides = [(case.name, system.name) for case in CASES for system in SYSTEMS]
    return {
        side: some
        for side in sides
        if (some := [run for run in runs if (run["case"], run["system"]) == side])
    }


def row(case: str, system: str, runs: Sequence[Run]) -> list[str]:
    """A line of the table: median, lowest and highest of each figure."""

    def single(value: Callable[[Run], float | None]) -> str:
        return _spread([_number(value(run)) for run in runs])

    def each(name: str) -> str:
        places = zip(*([_number(v) for v in run[name]] for run in runs), strict=True)
        return " / ".join(map(_spread, places)) or "-"

    return [
        case, system, str(len(runs)), single(lambda r: r["gap_s"]), each("gaps_s"), each("full_s"),
        single(lambda r: r["every"]["p50_ms"]), single(lambda r: r["every"]["p99_ms"]),
        single(lambda r: r["every"]["p999_ms"]), single(lambda r: r["before"]["p99_ms"]),
        single(lambda r: r["after"]["p99_ms"]), single(lambda r: r["rows_per_s"]),
        single(lambda r: r["lost"]), single(lambda r: r["too_many"]), single(lambda r: r["again"]),
        single(lambda r: r["cpu_s"]), single(lambda r: r["rss_mb"]),
    ]  # fmt: skip


def goals(found: Found) -> list[Goal]:
    """Nobody loses a row; laneshift is ahead of every rival in what the case is about."""
    made = []
    for (case, system), runs in found.items():
        wrong = max(run["lost"] + run["too_many"] for run in runs)
        if system.startswith(OURS):
            made.append(Goal(f"{case}, {system}: rows lost or counted twice", wrong, "<=", 0))
    return made + [goal for case in CASES for goal in _ahead(case.name, found)]


def _ahead(case: str, found: Found) -> Iterator[Goal]:
    sides = {system: runs for (of, system), runs in found.items() if of == case}
    ours = {name: runs for name, runs in sides.items() if name.startswith(OURS)}
    rivals = {name: runs for name, runs in sides.items() if name not in ours}
    for name, runs in ours.items():
        for what, value, more, least in _figures(case):
            for label, bound, some in _groups(rivals, least):
                best, against = _best({r: _median(value, of) for r, of in some.items()}, more)
                mine = _median(value, runs)
                times = mine / against if more else against / mine
                if not np.isnan(times):
                    yield Goal(
                        f"{case}, {name}: {what} than the best of {label} ({best}), times",
                        min(times, 1e6),
                        ">=",
                        bound,
                    )


def _figures(case: str) -> Iterator[tuple[str, Callable[[Run], float], bool, float]]:
    """What is better, the figure, whether more of it is, and how far ahead of Flink."""
    if case in ("skew", "hot", "hotter"):
        yield "more rows/s", lambda r: _number(r["rows_per_s"]), True, 1.0
        yield "shorter p99", lambda r: _number(r["every"]["p99_ms"]), False, 1.0
    if case == "burst":
        yield "sooner at full rate", lambda r: max(map(_number, r["full_s"])), False, 1.0
    if case in ("rescale", "kill"):
        yield (
            "shorter gaps from the changes on",
            lambda r: max(map(_number, r["gaps_s"])),
            False,
            (RESTARTS),
        )


def _groups(
    rivals: Mapping[str, Sequence[Run]], flink: float
) -> Iterator[tuple[str, float, Mapping[str, Sequence[Run]]]]:
    of_flink = {name: runs for name, runs in rivals.items() if name.startswith("flink")}
    others = {name: runs for name, runs in rivals.items() if name not in of_flink}
    if of_flink:
        yield "Flink", flink, of_flink
    if others:
        yield "the others", 1.0, others


def _best(medians: Mapping[str, float], more: bool) -> tuple[str, float]:
    return (max if more else min)(medians.items(), key=lambda item: item[1])


def _median(value: Callable[[Run], float], runs: Sequence[Run]) -> float:
    return median(map(value, runs))


def _number(value: float | None) -> float:
    return float("inf") if value is None else float(value)


def _spread(values: Sequence[float]) -> str:
    """Median, lowest and highest; what never came is infinite."""
    if not any(map(np.isinf, values)):
        return spread(values)
    came = [v for v in values if not np.isinf(v)]
    return (
        f"never in {len(values) - len(came)} of {len(values)}, {spread(came)}" if came else "never"
    )
