"""The cases of the benchmark `auto`: queries with their skew, and the sides of each."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import mean

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from laneshift import attach
from laneshift.errors import InputError, LaneshiftError
from laneshift_bench import operators, real
from laneshift_bench.batches import Command, Stream
from laneshift_bench.costs import burn, turns_of, wait
from laneshift_bench.hot import Hot, of_keys, undivided
from laneshift_bench.operators import joined, python
from laneshift_bench.query import Build, Running, counting
from laneshift_bench.recorded import FLIGHTS, RATINGS, Recording
from laneshift_bench.salting import salted
from laneshift_bench.sides import Side, alone, elastic, stock

SLOW_US, FAST_US, WAIT_US, ROW_US, JOIN_US = 150, 10, 400, 4000, 1000
FLIGHT_US, RATING_US = 1000, 4000
FLIGHTS_ASKED, RATINGS_ASKED = 36_000, 4000
FLIGHTS_A_BATCH, FLIGHTS_JOINED, RATINGS_A_BATCH = 36_000, 9_000, 10_000
SALTS = 8
A_CORE = (1, 2, 4, 8)
"""State partitions that stock Spark may have instead, for each core."""
LONGEST_FIRST_S = 120.0
NOT_YET = (
    "LANESHIFT_NO_SUCH_QUERY", "LANESHIFT_NO_SUCH_OPERATOR", "LANESHIFT_PARTITION_NOT_COMPUTED",
)  # fmt: skip
"""What a command is told before the partition's first task has begun."""
EACH = 3
"""Rows of a key in a batch where a key's answer is what costs: 5 % of the keys have none."""
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
            rival, own = with_partitions(partitions)
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


def with_partitions(partitions: int) -> tuple[str, str]:
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
        except LaneshiftError as error:
            if error.condition not in NOT_YET or time.monotonic() > until:
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
