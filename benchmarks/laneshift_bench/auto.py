"""What the jar alone gives: nothing configured, beside stock Spark and the best lanes by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import SparkSession

from laneshift_bench import real
from laneshift_bench.auto_cases import (
    ALONE,
    FAST_US,
    FLIGHT_US,
    FLIGHTS_A_BATCH,
    FLIGHTS_ASKED,
    FLIGHTS_JOINED,
    HAND,
    JOIN_US,
    OTHER,
    RATING_US,
    RATINGS_A_BATCH,
    RATINGS_ASKED,
    ROW_US,
    SALTED,
    SALTS,
    SLOW_US,
    STOCK,
    TUNED,
    WAIT_US,
    Case,
    cases,
    chosen,
    with_partitions,
)
from laneshift_bench.batches import CHECKED, Batches
from laneshift_bench.costs import turns_of
from laneshift_bench.pairs import Ratio, in_turn, spread
from laneshift_bench.progress import Progress
from laneshift_bench.query import BenchmarkError
from laneshift_bench.report import Goal, Report, kept, ran_now
from laneshift_bench.session import session

OVER_SALTS = 1.1
METHOD = f"""\
Micro-batches back to back, all of one size. *stock* has laneshift disabled, *jar alone* has it on
and nothing configured (`spark.sql.laneshift.lanes` at `auto`), *by hand* is the better one of two
that need to know the answer: the same number of lanes in every state partition, or more lanes in
the hot one alone. *stock, n partitions* has another number of them, 1 to 8 a core, over the same
rows; *{SALTS} salts* is stock Spark over salted keys, whose answers are parts that its reader adds
up, and so are not compared. Sides take turns in one JVM, on `local[cores]`, each run a new query
with a new checkpoint. *Batch* is the median over a run's later batches, *first* the mean of those
before them, in which the JVM warms up and `auto` learns what a byte costs and what lanes bring,
*all* the mean of every batch. *x stock* is a rate over that of the same round's stock run: above 1
is faster. In a round before those that count, every side's results of the first {CHECKED} batches
are compared with stock's, row by row: they were the same, or there would be no table.

*Python, slow* and *fast*: real CPU, 2 cores, 4 state partitions, 75 % of 20,000 rows in one of
them, `applyInPandasWithState` with a Python loop of about {SLOW_US} and {FAST_US} microseconds a
row. *Python, 200 partitions*: the same function and skew with Spark's default number of them, the
hot one in their middle; its keys are in one partition of 2, 4 and 8, too, and in two of 16. Jar
alone has each of these numbers as stock has, and the goal is about the best of one over the best of
the other; both have 200 where salts are.
*Balanced*: every operator of `operators`, 2 state partitions on 2 cores, and the aggregation over
200, keys nearly equally likely. All others have emulated cores: rows wait to an absolute
deadline. *Hot 20 x one*: 200 state partitions on 4 cores, counts per key whose answers wait
{ROW_US / 1000:g} ms each, one partition with 20 times what each other one has, the last to start.
*Hot 20 x all*: the same with 20 times what all others have together. *Hot Python*: 8 partitions
on 8 cores, half of the rows in one, `applyInPandasWithState`, {WAIT_US} microseconds a row.
*Hot join*: a stream-stream join, {JOIN_US / 1000:g} ms a joined row, half of them in one
of 8 partitions.

*Real* are streams that somebody else has recorded, in the order of their times: the flights that
left New York in 2013 and MovieLens' ratings (a user's come together), so many rows a micro-batch.
*Real: delays* counts {FLIGHTS_A_BATCH:,} flights and means their delays by destination and hour;
*real: late ones* joins {FLIGHTS_JOINED:,} with those that left for the same airport an hour late;
*real: ratings* compares {RATINGS_A_BATCH:,} ratings in Python, each with the user's last
{real.REMEMBERED}, by their genres. 2 real cores, Spark's 200 partitions; 8 for the join, which has
four stores in each. *Real: flights, ask* and *real: ratings, ask* are Python functions that wait
for a service's answer to each row ({FLIGHT_US / 1000:g} and {RATING_US / 1000:g} ms), by
destination and by user, {FLIGHTS_ASKED:,} and {RATINGS_ASKED:,} rows on 8 emulated cores. Jar alone
has each number of partitions that stock has here, too, as above (*jar alone, n partitions*)."""
HEADER = (
    "case", "side", "batch, ms", "x stock", "first, ms", "all, ms", "all: x stock",
)  # fmt: skip


@dataclass
class Found:
    """A case's runs: by side, one a round; when they ran, at which commit; a recording's skew."""

    case: Case
    runs: dict[str, list[Batches]] = field(default_factory=dict)
    ran: str = ""
    arithmetic: str = ""

    @classmethod
    def restored(cls, case: Case, data: Mapping[str, Any]) -> Found:
        """As an earlier run's results have it."""
        sides = [tried.side.name for tried in case.sides if tried.side.name in data]
        runs = {
            side: [Batches(tuple(one["batch_ms"]), one["first"]) for one in data[side]]
            for side in sides
        }
        return cls(case, runs, data["ran"], data.get("arithmetic", ""))

    def best(self, *kinds: str) -> str | None:
        """The fastest side of some kinds."""
        tried = [tried.side.name for tried in self.case.sides if tried.kind in kinds]
        names = [name for name in tried if name in self.runs]
        if not names:
            return None
        return min(names, key=lambda name: median(run.settled_ms for run in self.runs[name]))

    def ratio(self, side: str, figure: Callable[[Batches], float], over: str = STOCK) -> Ratio:
        """Rates over another side's, by a time of a batch."""
        runs, against = self.runs[side], self.runs[over]
        return Ratio.of([figure(one) for one in against], [figure(one) for one in runs])

    def add_to(self, report: Report) -> None:
        """Its lines, its goal, and all that was measured."""
        for kind in (STOCK, ALONE, OTHER, TUNED, SALTED, HAND):
            side = self.best(kind)
            if side is None:
                continue
            name = f"{HAND}: {side}" if kind == HAND else side
            runs = self.runs[side]
            later = self.ratio(side, lambda one: one.settled_ms)
            whole = self.ratio(side, lambda one: one.all_ms)
            report.rows.append(
                [
                    self.case.name,
                    name,
                    spread([one.settled_ms for one in runs]),
                    "" if side == "stock" else str(later),
                    spread([one.learning_ms for one in runs]),
                    spread([one.all_ms for one in runs]),
                    "" if side == "stock" else str(whole),
                ]
            )
        gain = self.ratio(ALONE, lambda one: one.settled_ms)
        report.goals.append(
            Goal(f"{self.case.name}: jar alone x stock", gain.median, ">=", self.case.goal)
        )
        over = {}
        # Who tunes the number of partitions does so with laneshift, too.
        fastest = self.best(ALONE, TUNED) or ALONE
        for mine, kinds, goal in (
            (fastest, (STOCK, OTHER), self.case.goal),
            (ALONE, (SALTED,), OVER_SALTS),
        ):
            best = self.best(*kinds)
            if best is not None and (mine, best) != (ALONE, STOCK):
                rates = self.ratio(mine, lambda one: one.settled_ms, best)
                name = f"{self.case.name}: {mine} x {best}"
                report.goals.append(Goal(name, rates.median, ">=", goal))
                over[best] = {"side": mine} | rates.data()
        alike = self.alike()
        if alike:
            each = ", ".join(f"{rates} with {n}" for n, rates in alike.items())
            report.notes.append(f"{self.case.name}: jar alone x stock, as many partitions: {each}.")
        if words := self.arithmetic or self.case.arithmetic():
            report.notes.append(words)
        report.notes.append(f"{self.case.name}: measured {self.ran}.")
        report.data[self.case.name] = {
            side: [one.data() for one in runs] for side, runs in self.runs.items()
        } | {
            "ratio": gain.data(), "over": over, "ran": self.ran, "arithmetic": self.arithmetic,
            "alike": {str(n): rates.data() for n, rates in alike.items()},
        }  # fmt: skip

    def alike(self) -> dict[int, Ratio]:
        """Jar alone over stock, both with each number of partitions that they have."""
        if not self.case.tuned:
            return {}
        sides = {n: with_partitions(n) for n in self.case.others} | {
            self.case.partitions: (STOCK, ALONE)
        }
        return {
            n: self.ratio(own, lambda one: one.settled_ms, rival)
            for n, (rival, own) in sides.items()
            if {rival, own} <= self.runs.keys()
        }


def run(
    quick: bool,
    only: Sequence[str] = (),
    rounds: int | None = None,
    batches: int | None = None,
    add: Path | None = None,
) -> Report:
    """The whole benchmark, or the cases whose names begin with one of ``only``.

    Args:
        add: results of an earlier run, whose other cases are kept.
    """
    every = cases(quick, batches)
    asked = chosen(every, only)
    for case in asked:
        if case.recording is not None:
            # What cannot be fetched or is too short is said before an hour of other cases.
            case.recording.files(case.stream.rows, case.stream.batches)
    turns = {case.name: rounds or case.rounds for case in asked}
    progress = Progress("auto", sum((turns[case.name] + 1) * len(case.sides) for case in asked))
    before = kept(add)
    found = {
        case.name: Found.restored(case, before[case.name]) for case in every if case.name in before
    }
    for cores, group in groupby(asked, lambda case: case.cores):
        with session(cores) as (spark, work):
            for case in group:
                found[case.name] = compare(spark, work, case, turns[case.name], progress)
    report = Report("auto", "The jar alone", METHOD, HEADER)
    for case in every:
        if case.name in found:
            found[case.name].add_to(report)
    report.notes.append(
        f"A loop of about {SLOW_US} us a row has {turns_of(SLOW_US):,} turns on this machine, one "
        f"of {FAST_US} us {turns_of(FAST_US):,}: measured in a process that runs alone."
    )
    return report


def compare(spark: SparkSession, work: Path, case: Case, rounds: int, progress: Progress) -> Found:
    """A round that compares results, then those that count."""
    found = Found(case, {tried.side.name: [] for tried in case.sides})
    digests: dict[str, str] = {}
    for number in range(rounds + 1):
        for tried in in_turn(case.sides, number):
            side = tried.side
            what = f"round {number}" if number else "results"
            progress.step(f"{case.name}, {side.name}, {what}")
            stream = replace(case.stream, build=tried.build or case.stream.build)
            one = stream.run(spark, work, side, tried.command, check=number == 0)
            progress.note(f"{one.settled_ms:,.0f} ms a batch, {one.all_ms:,.0f} ms over all")
            if number:
                found.runs[side.name].append(one)
            elif tried.build is None:
                digests[side.name] = one.digest
        if number == 0:
            same(case.name, digests)
    found.ran, found.arithmetic = ran_now(), case.of_recording(spark)
    return found


def same(name: str, digests: Mapping[str, str]) -> None:
    """Errors: BenchmarkError if a side's results are not stock's, or if there are none."""
    expected = digests[STOCK]
    if expected.startswith("0:"):
        raise BenchmarkError(f"{name}: no row came out of stock Spark, so nothing was compared.")
    other = {side: each for side, each in digests.items() if each != expected}
    if other:
        raise BenchmarkError(
            f"{name}: results differ from those of stock Spark, {expected} (rows:digest): {other}"
        )
