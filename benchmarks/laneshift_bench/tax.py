"""Rounds of stock, one lane and four lanes, and their lines in a table of taxes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from laneshift_bench.measure import Measurement
from laneshift_bench.pairs import Ratio, in_turn, spread
from laneshift_bench.progress import Progress
from laneshift_bench.report import Goal, Report
from laneshift_bench.sides import Side, elastic, stock

T = TypeVar("T")

SIDES = (stock(), elastic(1), elastic(4))


def take_turns(
    progress: Progress, what: str, rounds: int, one: Callable[[Side], T]
) -> list[list[T]]:
    """One value for each round and side; the first round warms up and is not counted."""
    found = []
    for number in range(rounds + 1):
        values = {}
        for side in in_turn(SIDES, number):
            progress.step(f"{what}, {side.name}, {'warm-up' if number == 0 else f'round {number}'}")
            values[side.name] = one(side)
            progress.note(_shown(values[side.name]))
        found.append([values[side.name] for side in SIDES])
    return found[1:]


def _shown(value: object) -> str:
    if isinstance(value, Measurement):
        return value.line
    return f"{value:,.0f} rows/s"


def add_line(
    report: Report, name: str, rounds: Sequence[Sequence[float]], throughput: bool
) -> None:
    """A line of the table, its ratios as goals, and its values as data."""
    by_side = [[values[i] for values in rounds] for i in range(len(SIDES))]
    ratios = [Ratio.of(values, by_side[0]) for values in by_side[1:]]
    report.rows.append([name, *map(spread, by_side), *map(str, ratios)])
    report.data[name] = {
        **{s.name: [round(v, 3) for v in values] for s, values in zip(SIDES, by_side, strict=True)},
        **{f"{s.name} / stock": r.data() for s, r in zip(SIDES[1:], ratios, strict=True)},
    }
    bounds = (0.95, 0.85) if throughput else (1.15, 1.15)
    if throughput or "p99" in name:
        for side, ratio, bound in zip(SIDES[1:], ratios, bounds, strict=True):
            sign = ">=" if throughput else "<="
            report.goals.append(Goal(f"{name}: {side.name} / stock", ratio.median, sign, bound))
