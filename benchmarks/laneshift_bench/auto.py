"""What the jar alone gives: nothing configured, beside stock Spark and the best lanes by hand."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from statistics import mean, median
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from laneshift import attach
from laneshift.errors import InputError, NotFoundError
from laneshift_bench import operators, real
from laneshift_bench.batches import CHECKED, Batches, Command, Stream
from laneshift_bench.costs import burn, turns_of, wait
from laneshift_bench.hot import Hot, of_keys, undivided
from laneshift_bench.operators import joined, python
from laneshift_bench.pairs import Ratio, spread
from laneshift_bench.progress import Progress
from laneshift_bench.query import BenchmarkError, Build, Running, counting
from laneshift_bench.recorded import FLIGHTS, RATINGS, Recording
from laneshift_bench.report import Goal, Report, kept, ran_now
from laneshift_bench.salting import salted
from laneshift_bench.session import session
from laneshift_bench.sides import Side, alone, elastic, stock

SLOW_US, FAST_US, WAIT_US, ROW_US, JOIN_US = 150, 10, 400, 4000, 1000
FLIGHT_US, RATING_US = 1000, 4000
FLIGHTS_ASKED, RATINGS_ASKED = 36_000, 4000
FLIGHTS_A_BATCH, FLIGHTS_JOINED, RATINGS_A_BATCH = 36_000, 9_000, 10_000
SALTS = 8
OVER_SALTS = 1.1
A_CORE = (1, 2, 4, 8)
"""State partitions that stock Spark may have instead, for each core."""
LONGEST_FIRST_S = 120.0
EACH = 3
"""Rows of a key in a batch where a key's answer is what costs: 5 % of the keys have none."""
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
STOCK, ALONE, OTHER, SALTED, HAND = "stock", "jar alone", "best other number", "salts", "by hand"
TUNED = "jar alone, best other number"
"""Kinds of sides: of each, the table shows the fastest."""


@dataclass(frozen=True)
class Tried:
    """A side of a case.

    Attributes:
        side: its settings.
        kind: "stock", "jar alone", or what the best of several is called.
        command: what is to be done by hand.
        build: its query, if that is not the case's; its answers are not compared then.
    """

    side: Side
    kind: str
    command: Command | None = None
    build: Build | None = None


@dataclass(frozen=True)
class Case:
    """A query with its skew.

    Attributes:
        name: in tables and for ``--case``.
        cores: of the session.
        hot: the skew; None: balanced, without lanes by hand.
        stream: the query.
        goal: for jar alone over stock, rates.
        rounds: that count, if nothing else is asked for.
        hand: lanes that may be right, as (lanes of every partition, lanes of the hot one).
        others: stock's other numbers of state partitions.
        salted: the query over salted keys, if stock is to try that, too.
        balanced: state partitions of a case without ``hot``.
        key: of a recorded stream, by which rows go to partitions; empty: not told.
        tuned: whether jar alone has stock's other numbers of partitions, too: the goal is about the
            best of both then.
    """

    name: str
    cores: int
    hot: Hot | None
    stream: Stream
    goal: float
    rounds: int
    hand: Sequence[tuple[int, int]] = ()
    others: Sequence[int] = ()
    salted: Build | None = None
    balanced: int = 2
    key: str = ""
    tuned: bool = False

    @property
    def recording(self) -> Recording | None:
        """Its rows, if somebody has recorded them."""
        return self.stream.source if isinstance(self.stream.source, Recording) else None

    @property
    def partitions(self) -> int:
        """State partitions."""
        return self.balanced if self.hot is None else self.hot.partitions

    @property
    def sides(self) -> list[Tried]:
        """Stock, jar alone, stock's other ways, and those by hand."""
        found = [
            Tried(stock(self.partitions), STOCK),
            Tried(alone(self.partitions), ALONE),
        ]
        for partitions in self.others:
            rival, own = tuned_by(partitions)
            found.append(Tried(Side(rival, {}, partitions), OTHER))
            if self.tuned:
                found.append(Tried(Side(own, {"lanes": "auto"}, partitions), TUNED))
        if self.salted is not None:
            side = Side(f"stock, {SALTS} salts", {}, self.partitions)
            found.append(Tried(side, SALTED, build=self.salted))
        for lanes, most in self.hand:
            side = elastic(lanes, self.partitions)
            if most == lanes:
                found.append(Tried(side, HAND))
                continue
            options = side.options | {"maxLanes": str(most)}
            command = partial(more_lanes, 0 if self.hot is None else self.hot.at, most)
            named = Side(f"hot: {most} lanes", options, self.partitions)
            found.append(Tried(named, HAND, command))
        return found

    def arithmetic(self) -> str:
        """What tasks and lanes can do with this skew, in words."""
        if self.hot is None:
            return ""
        hot, cores = self.hot, self.cores
        tasks, ideal, mean = hot.stock(cores), hot.ideal(cores), hot.anywhere(cores)
        return (
            f"{self.name}: the hot partition has {hot.share:.1%} of the work. In units of all "
            f"work on one core, a batch on {cores} cores takes stock {tasks:.3f} by arithmetic "
            f"(a task a partition, started in the order of their numbers; {mean:.3f} on average "
            f"over all places of the hot one), and {ideal:.3f} if work goes to any core: "
            f"{tasks / ideal:.2f} times stock's rate at most ({mean / ideal:.2f} on average)."
        )

    def of_recording(self, spark: SparkSession) -> str:
        """The same with a recorded stream's keys, whose files are read for it."""
        stream, cores = self.stream, self.cores
        if not self.key or self.recording is None:
            return ""
        batches = self.recording.keys(spark, self.key, stream.rows, stream.batches)[stream.first :]
        ideal = undivided(batches, cores)
        lengths = {n: of_keys(batches, n, cores) for n in (self.partitions, *self.others)}
        tasks = ", ".join(f"{length:.3f} with {n}" for n, length in lengths.items())
        largest = float(mean(max(share for _, share in keys) for keys in batches))
        return (
            f"{self.name}: a batch's largest key has {largest:.1%} of its rows on average. In "
            f"units of all work on one core, a batch on {cores} cores takes stock by arithmetic "
            f"{tasks} partitions, and {ideal:.3f} if keys go to any core, each of them whole: "
            f"{min(lengths.values()) / ideal:.2f} times the rate of stock's best at most."
        )


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
        tuned = self.best(ALONE, TUNED) or ALONE
        for mine, kinds, goal in (
            (tuned, (STOCK, OTHER), self.case.goal),
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
        sides = {n: tuned_by(n) for n in self.case.others} | {self.case.partitions: (STOCK, ALONE)}
        return {
            n: self.ratio(own, lambda one: one.settled_ms, rival)
            for n, (rival, own) in sides.items()
            if {rival, own} <= self.runs.keys()
        }


def tuned_by(partitions: int) -> tuple[str, str]:
    """Names of the sides with another number of state partitions: stock, and jar alone."""
    return f"stock, {partitions} partitions", f"{ALONE}, {partitions} partitions"


def more_lanes(partition: int, lanes: int, run: Running) -> None:
    """What who knows the answer does: more lanes for the hot partition, once it is there.

    Its task may be the last of the first batch to start.
    """
    app = attach(SparkSession.active())
    until = time.monotonic() + LONGEST_FIRST_S
    while True:
        try:
            app.query(run.query).set_lanes(lanes, partition=partition)
        except NotFoundError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
        else:
            return


def costly(micros: int, rows: DataFrame) -> DataFrame:
    """Counts per key, each answer paid for."""
    cost = sf.expr(f"laneshift_cost(n, {micros}, 'wait')").alias("n")
    return counting(rows).select("key", cost, "event_time")


def costly_join(micros: int, rows: DataFrame) -> DataFrame:
    """The join of `operators`, each row of its output paid for."""
    cost = sf.expr(f"laneshift_cost(key, {micros}, 'wait')").alias("key")
    return joined(rows).select(cost, "event_time")


def asking(key: str, micros: int, rows: DataFrame) -> DataFrame:
    """A count by ``key`` in Python that waits for a service's answer to each row."""
    return python(partial(wait, micros), rows.withColumnRenamed(key, "key"))


def thinned(hot: Hot, build: Build, rows: DataFrame) -> DataFrame:
    """The query over a stream with that skew."""
    return build(hot.thin(rows))


def renamed(hot: Hot, keys: int, build: Build, rows: DataFrame) -> DataFrame:
    """The same without rows that are left out, for few keys."""
    return build(hot.renamed(rows, keys))


def cases(quick: bool, batches: int | None = None) -> list[Case]:
    """All of them, by cores of their session."""
    # Fewest of those whose batches take half a minute.
    first, fewest, few, more = (1, 3, 3, 4) if quick else (4, 6, 9, 12)
    if batches is not None:
        fewest = few = more = batches
    first = min(first, few - 1)
    rounds = (1, 1) if quick else (5, 3)
    scale = 5 if quick else 1

    def skewed(
        hot: Hot, build: Build, keys: int, each: float, batches: int, **more: object
    ) -> Stream:
        """``keys`` of those that are kept, so many rows of each in a batch."""
        of = round(keys / scale / hot.kept)
        source = {"keys": of, "zipf": 0, "rowBytes": 8} | more
        return Stream(source, partial(thinned, hot, build), round(of * each), batches, first)

    def recorded(
        name: str, of: Recording, build: Build, rows: int, goal: float = 0.98, cores: int = 2,
        partitions: int = 200, others: Sequence[int] = (2, 8), key: str = "",
    ) -> Case:  # fmt: skip
        stream = Stream(of, build, rows // scale, few, first)
        return Case(name, cores, None, stream, goal, rounds[1], others=others,
                    balanced=partitions, key=key, tuned=True)  # fmt: skip

    quarter, half = Hot(4, 9), Hot(8, 7)
    one, every = Hot(200, 20, 199), Hot.of_all_others(200, 20, 100)
    slow, fast = (partial(python, partial(burn, turns_of(us))) for us in (SLOW_US, FAST_US))
    waits = partial(python, partial(wait, WAIT_US))
    counts, joins = partial(costly, ROW_US), partial(costly_join, JOIN_US)
    usual, keys = Hot(200, 597, 100), 6000 // scale
    named = partial(renamed, usual, keys)
    salts = partial(named, partial(salted, SALTS, slow))
    source: dict[str, object] = {"keys": keys, "zipf": 0, "rowBytes": 8}
    # A batch takes half a minute: less, and it would be the commits of 200 stores.
    wide = Stream(source, partial(named, slow), 24 * keys, fewest, min(first, 2))
    twice, four, eight = ((2, 2), (1, 2)), ((4, 4), (1, 4)), ((8, 8), (1, 8))
    # Event time goes so fast that a row of one side meets one of the other side on average.
    pace = round(2 * 2000 / scale / half.kept)
    of_batch = skewed(half, joins, 2000, 8, few, rowsPerSecond=pace)
    return [
        Case("Python, slow", 2, quarter, skewed(quarter, slow, 2000, 10, more), 1.3, rounds[0],
             twice),
        Case("Python, 200 partitions", 2, usual, wide, 1.3, rounds[1],
             others=[2 * n for n in A_CORE], salted=salts, tuned=True),
        Case("Python, fast", 2, quarter, skewed(quarter, fast, 2000, 10, more), 0.98, rounds[0],
             twice),
        *(
            Case(f"balanced, {of.name}", 2, None, _balanced(of, scale, first, more), 0.98,
                 rounds[0])
            for of in operators.CASES
        ),
        Case("balanced, 200 partitions", 2, None,
             _balanced(operators.CASES[0], scale, first, more), 0.98, rounds[0], balanced=200),
        recorded("real: delays", FLIGHTS, real.delays, FLIGHTS_A_BATCH),
        # Spark's 200 would be 800 stores.
        recorded("real: late ones", FLIGHTS, real.behind_late_ones, FLIGHTS_JOINED, partitions=8,
                 others=(2,), key="dest"),
        recorded("real: ratings", RATINGS, real.expected_ratings, RATINGS_A_BATCH, key="user"),
        Case("hot 20 x one", 4, one, skewed(one, counts, 3000, EACH, few), 1.0, rounds[1], four),
        Case("hot 20 x all", 4, every, skewed(every, counts, 3000, EACH, few), 2.0, rounds[1],
             four),
        Case("hot Python", 8, half, skewed(half, waits, 1000, 20, few), 1.5, rounds[1], eight),
        Case("hot join", 8, half, of_batch, 1.5, rounds[1], eight),
        *(
            recorded(f"real: {name}, ask", of, partial(asking, key, micros), rows, 1.2,
                     cores=8, partitions=64, others=(8, 16), key=key)
            for name, of, key, micros, rows in (
                ("flights", FLIGHTS, "dest", FLIGHT_US, FLIGHTS_ASKED),
                ("ratings", RATINGS, "user", RATING_US, RATINGS_ASKED),
            )
        ),
    ]  # fmt: skip


def _balanced(case: operators.Case, scale: int, first: int, batches: int) -> Stream:
    source = {"keys": case.keys, "zipf": 0.3, "rowBytes": 8}
    return Stream(source, case.build, case.rows // scale, batches, first, case.mode)


def chosen(every: Sequence[Case], names: Sequence[str]) -> list[Case]:
    """Those whose name begins with one of ``names``; all without names."""
    for name in names:
        if not any(case.name.startswith(name) for case in every):
            known = ", ".join(case.name for case in every)
            raise InputError("case", name, f"the beginning of one of: {known}", "Choose one.")
    return [case for case in every if not names or case.name.startswith(tuple(names))]


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
        for tried in case.sides:
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
