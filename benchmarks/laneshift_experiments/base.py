"""What an experiment is: a table, a picture, and the paper's statements beside ours.

No measured value of the papers' figures survived in our sources: only settings, trends and the few
numbers that the text states. ``Statement.source`` carries the mark of docs/papers.md.
"""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from laneshift import inputcheck
from laneshift.errors import InputError

Cell = str | float | int
#: Called with (share done in [0, 1], what is being done).
Progress = Callable[[float, str], None]


@dataclass(frozen=True)
class Options:
    """seeds: runs per point; duration_s: simulated seconds, None: the experiment's own default;
    nodes, cores: size of the simulated cluster; values: replaces the swept values if not empty.
    """

    seeds: int = 5
    duration_s: float | None = None
    nodes: int = 32
    cores: int = 8
    values: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        inputcheck.whole("seeds", self.seeds, "At least one.", low=1, high=1000)
        inputcheck.whole("nodes", self.nodes, "At least one.", low=1)
        inputcheck.whole("cores", self.cores, "At least one.", low=1)
        if self.duration_s is not None:
            inputcheck.number("duration_s", self.duration_s, "Seconds, 10 or more.", low=10.0)

    def seconds(self, default: float) -> float:
        """The duration to use."""
        return default if self.duration_s is None else self.duration_s

    def sweep(self, default: Sequence[float]) -> tuple[float, ...]:
        """The values to sweep."""
        return self.values or tuple(default)


@dataclass(frozen=True)
class Table:
    """columns: names with units; rows: cells in that order."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise InputError("row", len(row), f"{len(self.columns)} cells", "Fill it.")

    def pick(self, column: str, **where: Cell) -> list[float]:
        """Values of a numeric column over the rows whose cells equal ``where``."""
        at = {name: self.columns.index(name) for name in (column, *where)}
        return [
            float(row[at[column]])
            for row in self.rows
            if all(row[at[name]] == value for name, value in where.items())
        ]

    def one(self, column: str, **where: Cell) -> float:
        """The single value that ``pick`` finds."""
        found = self.pick(column, **where)
        if len(found) != 1:
            raise InputError("where", str(where), "exactly one row", f"{len(found)} rows match.")
        return found[0]

    def write_csv(self, path: Path) -> None:
        """Header and rows; floats with six significant digits."""
        with path.open("w", newline="", encoding="utf-8") as out:
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(self.columns)
            for row in self.rows:
                writer.writerow([f"{c:.6g}" if isinstance(c, float) else c for c in row])

    def markdown(self) -> str:
        """The table as Markdown."""
        lines = ["| " + " | ".join(self.columns) + " |", "|" + "---|" * len(self.columns)]
        for row in self.rows:
            cells = [f"{c:.4g}" if isinstance(c, float) else str(c) for c in row]
            lines.append("| " + " | ".join(cells) + " |")
        return "\n".join(lines)


@dataclass(frozen=True)
class Statement:
    """claim: what the paper's text states, in our words; source: where and its mark.

    ours: what this run gives; holds: whether it agrees, None when it cannot be judged; why: where
    it is known not to agree, the reason.
    """

    claim: str
    source: str
    ours: str
    holds: bool | None
    why: str = ""


@dataclass(frozen=True)
class Chart:
    """x, y: columns; by: column that splits the lines; log axes; title.

    only: (column, value) of the rows that are drawn, None: all.
    """

    x: str
    y: str
    by: str
    title: str
    log_x: bool = False
    log_y: bool = False
    only: tuple[str, Cell] | None = None


@dataclass(frozen=True)
class Report:
    """What a run of an experiment gives."""

    table: Table
    statements: tuple[Statement, ...]
    charts: tuple[Chart, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Experiment:
    """name: on the command line; paper: folder of its results; title; run."""

    name: str
    paper: str
    title: str
    run: Callable[[Options, Progress], Report] = field(repr=False)


@dataclass(frozen=True)
class Samples:
    """One measure, a value per seed (1, 2, ...): two of them compare seed by seed."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Iterable[float]) -> Samples:
        """The values in order of their seeds; at least one."""
        found = tuple(values)
        if not found:
            raise InputError("values", 0, "at least one", "Run a seed.")
        return cls(found)

    @property
    def mean(self) -> float:
        """Arithmetic mean."""
        return statistics.fmean(self.values)

    @property
    def sd(self) -> float:
        """Standard deviation over the seeds (n - 1); 0 for one seed."""
        return statistics.stdev(self.values) if len(self.values) > 1 else 0.0

    def gap(self, other: Samples) -> tuple[float, float]:
        """(mean of self - other over the seeds, its standard error)."""
        each = Samples.of(a - b for a, b in zip(self.values, other.values, strict=True))
        return each.mean, each.sd / math.sqrt(len(each.values))

    def logs(self) -> Samples:
        """Natural logarithms, for measures that differ by orders of magnitude."""
        return Samples(tuple(math.log(max(v, 1e-12)) for v in self.values))

    def above(self, other: Samples, share: float = 0.0) -> bool:
        """Whether self exceeds (1 + share) * other by more than twice the standard error."""
        gap, error = self.gap(Samples(tuple(v * (1.0 + share) for v in other.values)))
        return gap > 2.0 * error

    def not_below(self, other: Samples) -> bool:
        """Whether self is no worse than other within noise: twice the standard error."""
        gap, error = self.gap(other)
        return gap >= -2.0 * error - 1e-9 * abs(other.mean)


def silent(done: float, what: str) -> None:
    """A progress callback that shows nothing."""
    del done, what


def mean(values: Iterable[float]) -> float:
    """Arithmetic mean; 0 for nothing."""
    found = list(values)
    return sum(found) / len(found) if found else 0.0
