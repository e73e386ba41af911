"""NEXMark: stock Spark and laneshift on the same auctions, and both against a batch run."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count, groupby
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from laneshift_bench.batches import START
from laneshift_bench.measure import Meter
from laneshift_bench.nexmark_queries import QUERIES, Query, Tables, tables
from laneshift_bench.pairs import Ratio, in_turn, spread
from laneshift_bench.progress import Progress
from laneshift_bench.query import (
    BenchmarkError,
    Running,
    as_side,
    await_rows,
    batch_rate,
    measured,
)
from laneshift_bench.report import Goal, Report, kept, ran_now
from laneshift_bench.session import SEED, session
from laneshift_bench.sides import Side, alone, stock

MICRO, REAL_TIME = "micro-batch", "real-time"
RATE = 10_000
"""Events a second of event time."""
EVENTS = 100_000
FEW = 20_000
SLOTS = 8
HOT: Mapping[str, object] = {"hotAuctions": 0.5, "hotBidders": 0.75, "hotSellers": 0.75}
CHECKED_BATCHES = 4
MEASURED_S = 4.0
"""For how long a run's micro-batches are measured, at least."""
FEWEST_BATCHES, MOST_BATCHES = 5, 90
"""Of them that a run measures."""
SIDES = (stock(), alone())
TIMEOUT_S = 180
METHOD = f"""\
NEXMark's queries in PySpark (`nexmark_queries.py`) over the people, auctions and bids of
`laneshift-nexmark`, with nothing at the source or in the sink that waits, and with the standard's
hot ones: half of all bids are for one auction, three quarters are by one bidder, three quarters of
all auctions are one seller's, and every hundred auctions or people others become hot. *jar alone*
is laneshift with nothing configured. In micro-batches of {EVENTS:,} events (of Python's queries
{FEW:,}), {RATE:,} of them a second of event time: events of a batch over its whole time, median
over the batches of a run after the first three, as many as {MEASURED_S:g} s had in the warm-up
({FEWEST_BATCHES} to {MOST_BATCHES}). In Real-time Mode: rows that come out each second, median of
100 ms; with {SLOTS} task slots. Micro-batches have one a core of the machine. 2 source partitions
of each table, 2 state partitions.
Sides run in turn in one JVM, after a warm-up of each; a ratio compares runs of the same round.
Before it is timed each query's answer on each side, over {CHECKED_BATCHES} batches, is compared
with that of a batch run over the same events (without the windows that are still open)."""
HEADER = (
    "query",
    "mode",
    *(side.name for side in SIDES),
    f"{SIDES[1].name} / stock",
    "answers",
)
LINE = "line"
LINES = {"timestampFormat": "yyyy-MM-dd HH:mm:ss.SSSSSS"}

_numbers = count()


def python_query(query: Query) -> bool:
    """Whether its rows go through Python, a hundred times slower."""
    return query.batch is not None


def lines(rows: DataFrame) -> DataFrame:
    """Each row as text, as one column, in a form that batch and stream share."""
    return rows.select(sf.to_json(sf.struct(*rows.columns), LINES).alias(LINE))


def options(events: int, batches: int | None) -> dict[str, object]:
    """Of the source; without ``batches`` it does not end."""
    chosen: dict[str, object] = dict(HOT)
    chosen |= {"seed": SEED, "startTime": START, "rowsPerSecond": RATE, "numPartitions": 2}
    if batches is None:
        return chosen | {"pacing": "none"}
    return chosen | {"eventsPerBatch": events, "totalEvents": events * batches}


def final(query: Query, answers: Sequence[str], until: str | None = None) -> Counter[str]:
    """What counts of a stream's or a batch's answers.

    Args:
        answers: lines in the order in which they came; of rows with the same keys the last counts.
        until: watermark of the stream, in the lines' form: rows that close later are left out.
    """
    rows = [json.loads(line) for line in answers]
    if query.keys:
        rows = list({tuple(row[key] for key in query.keys): row for row in rows}.values())
    if query.closed is not None and until is not None:
        rows = [row for row in rows if row[query.closed] <= until]
    if query.total is None:
        return Counter(json.dumps(row, sort_keys=True) for row in rows)
    key, n = query.total
    totals: Counter[str] = Counter()
    for row in rows:
        totals[str(row[key])] += row[n]
    return totals


@contextmanager
def started(
    spark: SparkSession, work: Path, side: Side, query: Query, rows: DataFrame,
    trigger: Mapping[str, object],
) -> Iterator[Running]:  # fmt: skip
    """The query as a stream on this side; ``rows`` are its own or their lines."""
    name = f"nexmark{next(_numbers)}"
    mode = "update" if "realTime" in trigger else query.mode
    with as_side(spark, side):
        written = measured(rows, name).outputMode(mode)
        written = written.option("checkpointLocation", str(work / name))
        if rows.columns == [LINE]:
            written = written.option("lineColumn", LINE)
        found = Running(written.trigger(**trigger).start(), Meter(spark, name))  # type: ignore[call-overload]
        try:
            yield found
        finally:
            found.query.stop()
            found.meter.drop()


def streamed(
    spark: SparkSession, work: Path, side: Side, query: Query, source: Mapping[str, object],
    mode: str, batch: str = "5 seconds",
) -> tuple[list[str], str]:  # fmt: skip
    """All lines that the stream gives over a source that ends, and its last watermark."""
    if mode == REAL_TIME:  # whose batches end by time
        source = {name: value for name, value in source.items() if name != "eventsPerBatch"}
        source |= {"pacing": "none"}
    rows = lines(query.build(tables(spark, source, streams=True)))
    if mode == MICRO:
        with started(spark, work, side, query, rows, {"availableNow": True}) as run:
            if not run.query.awaitTermination(TIMEOUT_S):
                raise BenchmarkError(f"{query.name} did not end within {TIMEOUT_S} s.")
            progress = run.query.recentProgress
            marks = [p.eventTime["watermark"] for p in progress if "watermark" in p.eventTime]
            return run.meter.lines(), marks[-1].replace("T", " ").replace(
                "Z", "000"
            ) if marks else ""
    with started(spark, work, side, query, rows, {"realTime": batch}) as run:
        expected = sum(
            tables(spark, source, streams=False).of(name).count() for name in query.tables
        )
        taken, waited = 0, 0
        while taken < expected and waited < TIMEOUT_S:
            run.query.awaitTermination(1)
            waited += 1
            taken = sum(p.numInputRows for p in run.query.recentProgress)
        if taken < expected:
            raise BenchmarkError(f"{query.name} took {taken} of {expected} rows in {TIMEOUT_S} s.")
        return run.meter.lines(), ""


def batch_lines(spark: SparkSession, query: Query, source: Mapping[str, object]) -> list[str]:
    """The same of a batch run by stock Spark."""
    ending = {name: value for name, value in source.items() if name != "eventsPerBatch"}
    made: Tables = tables(spark, ending, streams=False)
    with as_side(spark, stock()):
        return [row[0] for row in lines((query.batch or query.build)(made)).collect()]


def difference(query: Query, stream: tuple[list[str], str], batch: Sequence[str]) -> str:
    """How a stream's answer differs from the batch's; empty if it does not."""
    answers, until = stream
    found, expected = final(query, answers, until), final(query, batch, until or None)
    if not expected:
        return "the batch has no answer"
    if found == expected:
        return ""
    more, fewer = found - expected, expected - found
    return f"{more.total()} of the stream only, {fewer.total()} of the batch only: " + " / ".join(
        [*list(more)[:1], *list(fewer)[:1]]
    )


def cases(queries: Sequence[Query], modes: Sequence[str] = ()) -> list[tuple[Query, str]]:
    """Each of them in each of the modes, all if none is given, that it can be in."""
    return [
        (query, mode)
        for query in queries
        for mode in (modes or (MICRO, REAL_TIME))
        if mode == MICRO or query.real_time
    ]


def run(
    quick: bool, names: Sequence[str] = (), modes: Sequence[str] = (), rounds: int | None = None,
    add: Path | None = None,
) -> Report:  # fmt: skip
    """The whole benchmark, or some queries or one mode.

    Args:
        add: results of an earlier run, whose other queries and modes are kept.
    """
    chosen = [query for query in QUERIES if not names or query.name in names]
    if not chosen:
        raise BenchmarkError(f"There is no such query: {', '.join(names)}.")
    rounds = rounds or (1 if quick else 3)
    asked = cases(chosen, modes)
    progress = Progress("nexmark", len(asked) * len(SIDES) * (rounds + 2))
    report = Report("nexmark", "NEXMark beside stock Spark", METHOD, HEADER, data=kept(add))
    for slots, group in groupby(sorted(asked, key=_slots), _slots):
        with session(slots) as (spark, work):
            for query, mode in group:
                name = f"{query.name} {mode}"
                report.data[name] = _case(spark, work, progress, query, mode, rounds, quick)
    for query in QUERIES:
        there = [mode for mode in (MICRO, REAL_TIME) if f"{query.name} {mode}" in report.data]
        for mode in there:
            _add(report, query, mode, report.data[f"{query.name} {mode}"])
        if there and not query.real_time:
            report.notes.append(f"{query.name}, {query.title}, in micro-batches only: {query.why}.")
    return report


def _add(report: Report, query: Query, mode: str, found: Mapping[str, Any]) -> None:
    """The table's line and the goal of one query in one mode."""
    rates = [found[side.name] for side in SIDES]
    ratio = Ratio(tuple(found["ratio"]["pairs"]))
    title = f"{query.name}, {query.title}"
    report.rows.append([title, mode, *map(spread, rates), str(ratio), "equal"])
    report.goals.append(Goal(f"{query.name} {mode}: jar alone / stock", ratio.median, ">=", 0.97))


def _slots(case: tuple[Query, str]) -> int:
    """Real-time Mode has all stages' tasks at once; micro-batches get the cores that there are."""
    return SLOTS if case[1] == REAL_TIME else os.cpu_count() or 1


def _case(
    spark: SparkSession, work: Path, progress: Progress, query: Query, mode: str, rounds: int,
    quick: bool,
) -> dict[str, Any]:  # fmt: skip
    """Rates of each side by rounds, after the answers were compared."""
    events = (FEW if python_query(query) else EVENTS) // (5 if quick else 1)
    ending = options(events, CHECKED_BATCHES)
    expected = batch_lines(spark, query, ending)
    for side in SIDES:
        progress.step(f"{query.name}, {mode}, {side.name}, answers")
        wrong = difference(query, streamed(spark, work, side, query, ending, mode), expected)
        if wrong:
            raise BenchmarkError(f"{query.name} of {side.name}, {mode}: {wrong}")
    found: dict[str, list[float]] = {side.name: [] for side in SIDES}
    batches = FEWEST_BATCHES
    for number in range(rounds + 1):
        for side in in_turn(SIDES, number):
            what = f"round {number}" if number else "warm-up"
            progress.step(f"{query.name}, {mode}, {side.name}, {what}")
            rate = _rate(spark, work, side, query, events, mode, batches, quick)
            progress.note(f"{rate:,.0f} a second")
            if number:
                found[side.name].append(round(rate, 1))
            else:
                batches = batches_in(MEASURED_S, rate / events)
    ratio = Ratio.of(*(found[side.name] for side in reversed(SIDES)))
    return {**found, "ratio": ratio.data(), "ran": ran_now()}


def batches_in(seconds: float, rate: float) -> int:
    """How many micro-batches to measure at so many (``rate``) a second."""
    return min(max(FEWEST_BATCHES, math.ceil(seconds * rate)), MOST_BATCHES)


def _rate(
    spark: SparkSession, work: Path, side: Side, query: Query, events: int, mode: str, batches: int,
    quick: bool,
) -> float:  # fmt: skip
    """Events a second of a median batch, or rows that come out each second."""
    first, batches = (1, 2) if quick else (3, batches)
    if mode == MICRO:
        source = options(events, None) | {"eventsPerBatch": events}
        del source["pacing"]
        rows = query.build(tables(spark, source, streams=True))
        with started(spark, work, side, query, rows, {"processingTime": "0 seconds"}) as run:
            return batch_rate(run, events, first, batches)
    rows = query.build(tables(spark, options(events, None), streams=True))
    with started(spark, work, side, query, rows, {"realTime": "5 seconds"}) as run:
        await_rows(run)
        return run.measure(3.0 if quick else 10.0, 5.0 if quick else 15.0).rows_per_s
