"""A join key hotter than a core: what each match costs above the join, over lanes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from laneshift_bench.pairs import Ratio, in_turn, spread
from laneshift_bench.progress import Progress
from laneshift_bench.query import Build, batch_ms, running
from laneshift_bench.report import Goal, Report
from laneshift_bench.session import session
from laneshift_bench.sides import Side, alone, elastic, stock

COST_US = 400
LANES = 8
METHOD = f"""\
Micro-batches, one state partition: an inner join of two streams whose rows match those of their
key in the same batch. *Hot*: half of both sides' rows have one key. *Uniform*: 256 keys alike, and
about as many matches. Each match waits {COST_US / 1000:g} ms in a column above the join
(`laneshift_cost`), so that lanes need no cores. Sides take turns in one JVM, each run a new query:
stock; one lane; {LANES} lanes whose row-wise work stays with the state (`hotKeys.spread` is
`false`); {LANES} lanes with it apart (`true`); as decided by measurements (`auto`), with {LANES}
lanes and *jar alone*, which has nothing configured. *Matching*: the hot key with nothing above the
join, so that all work is the join's own, on real cores: that of a key is one lane's. Matches of a
batch over its whole time, the median of a run's later batches."""
HEADER = ("case", "side", "matches/s", "of its uniform", "x 1 lane")
SOURCE = {"keys": 1000, "zipf": 0, "rowBytes": 8, "numPartitions": 1, "pacing": "none"}


@dataclass(frozen=True)
class Case:
    """Rows of a micro-batch, and their keys.

    Attributes:
        rows: of both sides together, alike many of each.
        hot: whether half of them have one key.
        keys: of the others.
        waits: whether a match costs something above the join.
    """

    name: str
    rows: int
    hot: bool
    keys: int
    waits: bool = True

    @property
    def matches(self) -> int:
        """Of a batch."""
        others = self.rows // 2 if self.hot else self.rows
        of_hot = (self.rows // 4) ** 2 if self.hot else 0
        return of_hot + self.keys * (others // self.keys // 2) ** 2

    @property
    def build(self) -> Build:
        """The query."""
        return partial(_joined, self)

    @property
    def sides(self) -> list[Side]:
        """Stock first."""
        lanes = elastic(LANES, 1)
        if not self.waits:
            return [stock(1), elastic(1, 1), _spread(lanes, "false"), _spread(lanes, "true")]
        words = ("false", "true", "auto")
        return [stock(1), elastic(1, 1), *(_spread(lanes, word) for word in words), alone(1)]


def cases() -> list[Case]:
    """Those of the benchmark."""
    return [
        Case("uniform", rows=5120, hot=False, keys=256),
        Case("hot", rows=640, hot=True, keys=32),
        Case("matching", rows=3200, hot=True, keys=160, waits=False),
    ]


def _spread(side: Side, word: str) -> Side:
    options = side.options | {"hotKeys.spread": word}
    return replace(side, name=f"{side.name}, {word}", options=options)


def _joined(case: Case, rows: DataFrame) -> DataFrame:
    """The first row of two is the left side's; both have the pair's key."""
    pair = sf.floor(sf.col("seq") / 2)
    key = sf.floor(pair / 2) % case.keys if case.hot else pair % case.keys
    if case.hot:
        key = sf.when(pair % 2 == 0, sf.lit(-1)).otherwise(key)
    batch = sf.floor(sf.col("seq") / case.rows)
    keyed = rows.select(key.alias("k"), batch.alias("batch"), "seq", "event_time")
    left = keyed.where("seq % 2 = 0")
    right = keyed.where("seq % 2 = 1").toDF("other_k", "other_batch", "other", "at")
    both = left.join(right, sf.expr("k = other_k AND batch = other_batch"))
    found = sf.col("seq") + sf.col("other")
    if case.waits:
        found = sf.expr(f"laneshift_cost(seq + other, {COST_US}, 'wait')")
    return both.select(found.alias("found"), "event_time")


def run(quick: bool, only: Sequence[str] = (), rounds: int | None = None) -> Report:
    """All cases, or those whose names begin with one of ``only``."""
    chosen = [c for c in cases() if not only or c.name.startswith(tuple(only))]
    turns = rounds or (1 if quick else 3)
    report = Report("hotjoin", "A join key hotter than a core", METHOD, HEADER)
    progress = Progress("hotjoin", turns * sum(len(c.sides) for c in chosen))
    found: dict[tuple[str, str], list[float]] = {}
    with session(LANES) as (spark, work):
        for number in range(1, turns + 1):
            for case in chosen:
                for side in in_turn(case.sides, number):
                    progress.step(f"{case.name}, {side.name}")
                    rate = _rate(spark, work, side, case, *((4, 2) if quick else (6, 5)))
                    progress.note(f"{rate:,.0f} matches/s")
                    found.setdefault((case.name, side.name), []).append(rate)
    _compare(found, report)
    report.data["matches_per_s"] = {f"{case}, {side}": r for (case, side), r in found.items()}
    return report


def _rate(
    spark: SparkSession, work: Path, side: Side, case: Case, first: int, batches: int
) -> float:
    source = SOURCE | {"rowsPerBatch": case.rows}
    with running(spark, work, side, source, case.build, trigger=None, mode="append") as run:
        rate = case.matches * 1000 / median(batch_ms(run, first, batches))
        run.require_rows(case.matches, f"{case.name}, {side.name}")
        return rate


def _compare(found: dict[tuple[str, str], list[float]], report: Report) -> None:
    for (case, side), rates in found.items():
        even = found.get(("uniform", side)) if case == "hot" else None
        report.rows.append([
            case, side, spread(rates), str(Ratio.of(rates, even)) if even else "",
            str(Ratio.of(rates, found[case, "1 lane"])),
        ])  # fmt: skip
    for word in ("true", "auto"):
        apart = found.get(("hot", f"{LANES} lanes, {word}"))
        if apart is not None:
            times = Ratio.of(apart, found["hot", "1 lane"]).median
            report.goals.append(Goal(f"hot, {LANES} lanes, {word}: x 1 lane", times, ">=", 4.0))
