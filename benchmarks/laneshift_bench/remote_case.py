"""What the cases of the benchmark `remote` share: where figures go, and the query of waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from laneshift_bench.pairs import Ratio, spread
from laneshift_bench.progress import Progress
from laneshift_bench.query import Build, counting
from laneshift_bench.report import Goal, Report
from laneshift_bench.sides import Side

EXECUTORS, CORES = 3, 8
LANES = 8
COST_US = 1000
KEYS, ROW_BYTES = 10_000, 200
OVERLOAD, HALF = 9_000, 4_000


@dataclass(slots=True)
class Bench:
    """Where a case puts what it finds.

    Attributes:
        quick: whether its numbers are to say little, and soon.
        rounds: turns of each side.
        report, progress: the benchmark's.
    """

    quick: bool
    rounds: int
    report: Report
    progress: Progress

    def add(self, case: str, side: str, figure: str, values: Sequence[float]) -> None:
        """A line of the table: one value a round."""
        self.report.rows.append([case, side, figure, spread(values)])
        self.report.data.setdefault(case, {}).setdefault(side, {})[figure] = list(values)

    def goal(self, what: str, values: Sequence[float], sign: str, bound: float) -> None:
        """A figure to reach, by the median of its rounds."""
        self.report.goals.append(Goal(what, float(np.median(values)), sign, bound))

    def ratio(
        self, what: str, values: Sequence[float], to: Sequence[float], sign: str, bound: float
    ) -> None:
        """A ratio of two sides' values, round by round, that is to be reached."""
        found = Ratio.of(values, to)
        self.goal(what, found.pairs, sign, bound)
        self.report.notes.append(f"{what}, by round: {found}.")


@dataclass(frozen=True, slots=True)
class Case:
    """One case: its name, what it does in a few words, and how; so many steps a round, and once."""

    name: str
    about: str
    run: Callable[[Bench], None]
    steps: int
    once: int = 0


def side(shards: int = 256, **options: object) -> Side:
    """One state partition that begins with one lane."""
    given = {name.replace("_", "."): str(value) for name, value in options.items()}
    own = {"lanes": "1", "maxLanes": str(LANES), "shardsPerPartition": str(shards),
           "latencyColumn": "event_time"}  # fmt: skip
    return Side("remote", own | given, 1)


def source(**options: object) -> dict[str, object]:
    """Options of the workload source: one task, uniform keys, unless given otherwise."""
    return {"keys": KEYS, "zipf": 0, "rowBytes": ROW_BYTES, "numPartitions": 1} | options


def _costly(cost_us: int, rows: DataFrame) -> DataFrame:
    cost = sf.expr(f"laneshift_cost(n, {cost_us}, 'wait')")
    return counting(rows).select("key", cost.alias("n"), "event_time")


def costly(cost_us: int = COST_US) -> Build:
    """Counts per key, each answer with its cost (us), by waiting."""
    return partial(_costly, cost_us)


def full_rate_s(slots: Sequence[tuple[float, int]], since_s: float, rate: float) -> float:
    """How long after ``since_s`` rows came at 95 % of ``rate`` (rows/s) for a second; inf: never.

    Args:
        slots: (begin in s, rows) of each 100 ms that had rows, in their order.

    >>> slots = [(0.1 * n, 100 if n < 20 or n >= 30 else 0) for n in range(60)]
    >>> full_rate_s(slots, 2.0, 1000.0)
    1.0
    """
    rows = {round(at * 10): n for at, n in slots}
    first, last = round(since_s * 10), max(rows, default=0)
    for begin in range(first, last - 8):
        if sum(rows.get(slot, 0) for slot in range(begin, begin + 10)) >= 0.95 * rate:
            return (begin - first) / 10
    return float("inf")
