"""Another parallelism for a running query: Spark's own way against more lanes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from laneshift import attach
from laneshift.api.application import Application
from laneshift_bench.measure import Latency, Meter
from laneshift_bench.pairs import Ratio, spread
from laneshift_bench.progress import Progress
from laneshift_bench.query import (
    BenchmarkError,
    Running,
    as_side,
    await_rows,
    counting_payloads,
    running,
    writer,
)
from laneshift_bench.repartition import RepartitionedQuery
from laneshift_bench.report import Report
from laneshift_bench.session import session
from laneshift_bench.sides import Side, stock

RATE = 10_000
PARTITIONS, TIMES = 2, 4
WARM_S = 20.0
LAP_S = 0.2
CALM_S = 5.0
IN_FORCE_S = 60.0
AT_MOST_S = 300.0
METHOD = f"""\
Counts per key and each key's greatest payload, micro-batches without pause at {RATE:,} rows/s due,
{PARTITIONS} state partitions. After {WARM_S:g} s it gets {TIMES} times the parallelism.
*resource-centric* is stock Spark by `RepartitionedQuery`: stop, do the batch
again that was cut short, Spark's offline repartition to {TIMES * PARTITIONS} partitions, start.
*lanes* is one command of laneshift, {TIMES} lanes in each partition instead of one. *partitions* is
`query.rescale`: stores for {TIMES * PARTITIONS} partitions are built while the query runs, and take
over between two batches; laneshift runs each partition in a task, as Spark does. All are timed
alike, from the call. *First output*: until the first row came to the sink of a batch that began
after the new parallelism was in force: Spark's first batch of the query that started again, the
first batch after all lanes were seen, and the first batch after that of the take-over.
*Longest gap*: the longest time in which no row came to the sink,
from the last one before the call on; *before* is the same over the {CALM_S:g} s before it, which is
the rhythm of the batches. *Call* is how long the call itself took, which for laneshift is that of a
command, and says little. *Latest row*: the highest latency, from the time a row is due to its
arrival in the sink, of the rows that came after the call. *p99 before* and *afterwards*: over all
rows of the {CALM_S:g} s before the call and of the last {CALM_S:g} s; *windows*: the medians of the
99th percentiles of each {LAP_S:g} s. Two real cores do all of it, so neither side gets faster by
its new parallelism. Sides take turns in one JVM, after a warm-up of each."""
SPARK = "resource-centric"
HEADER = (
    "state", "figure", SPARK, "lanes", "partitions", f"lanes / {SPARK}", f"partitions / {SPARK}",
)  # fmt: skip


@dataclass(frozen=True)
class State:
    """How much state there is: keys, and bytes of each key's payload."""

    keys: int
    row_bytes: int

    @property
    def name(self) -> str:
        """In tables."""
        return f"{self.keys:,} keys of {self.row_bytes:,} bytes"

    def source(self) -> dict[str, object]:
        """Options of the workload source."""
        return {
            "keys": self.keys,
            "zipf": 0.0,
            "rowBytes": self.row_bytes,
            "numPartitions": 2,
            "rowsPerSecond": RATE,
        }


STATES = (State(10_000, 16), State(100_000, 1000))


@dataclass(frozen=True)
class Change:
    """What a change of parallelism did to the query that it was for.

    Attributes:
        first_s: until the first output at the new parallelism.
        gap_s: the longest time without a row after the call.
        gap_before_s: the same before it.
        took_s: until the call came back.
        latest_ms: highest latency after the call.
        before_ms, after_ms: 99th percentile over all rows before, and at the end.
        before_window_ms, after_window_ms: medians of the laps' 99th percentiles.
        steps: of Spark's way, in seconds each.
    """

    first_s: float
    gap_s: float
    gap_before_s: float
    took_s: float
    latest_ms: float
    before_ms: float
    after_ms: float
    before_window_ms: float
    after_window_ms: float
    steps: Mapping[str, float]


@dataclass(frozen=True)
class Done:
    """What a call did: times of its steps (s), and when batches began that have the new
    parallelism (ms since 1970), asked for at the end of the run."""

    steps: Mapping[str, float]
    began_ms: Callable[[], Sequence[float]]


def begun_ms(query: StreamingQuery, after: int | None = None) -> list[float]:
    """When each batch with rows began that has ended, if later than ``after`` (ms since 1970)."""
    return [
        1000 * datetime.fromisoformat(progress.timestamp).timestamp()
        for progress in query.recentProgress
        if progress.numInputRows and (after is None or progress.batchId > after)
    ]


def first_output_s(came_ms: Sequence[float], began_ms: Sequence[float], call_ms: float) -> float:
    """Seconds from the call to the first row of the first batch at the new parallelism.

    Args:
        came_ms: starts of the slots of `SLOT_MS` in which rows came, in their order.
        began_ms: when batches at the new parallelism began.

    Errors: BenchmarkError if there is none.
    """
    begin = min(began_ms, default=math.inf)
    # A batch takes longer than a slot: what came in the slot in which it began is of another one.
    first = next((at for at in came_ms if at >= begin), None)
    if first is None:
        raise BenchmarkError("No row came at the new parallelism.")
    return (first - call_ms) / 1000


def longest_gap_s(came_ms: Sequence[float], from_ms: float, until_ms: float) -> float:
    """The longest time without a row (s): from the last one before ``from_ms`` on."""
    before = [at for at in came_ms if at <= from_ms]
    inside = [at for at in came_ms if from_ms < at <= until_ms]
    marks = [*before[-1:], *inside, until_ms]
    return max((b - a for a, b in pairwise(marks)), default=0.0) / 1000


def run(quick: bool) -> Report:
    """The whole benchmark."""
    rounds = 1 if quick else 3
    after_s = 12.0 if quick else 20.0
    sides = {SPARK: resource_centric, "lanes": more_lanes, "partitions": more_partitions}
    states = STATES[:1] if quick else STATES
    progress = Progress("rescale", len(states) * len(sides) * (rounds + 1))
    report = Report("rescale", "More parallelism while the query runs", METHOD, HEADER)
    with session(slots=TIMES * PARTITIONS) as (spark, work):
        for state in states:
            found: dict[str, list[Change]] = {side: [] for side in sides}
            for number in range(rounds + 1):
                for side, change in sides.items():
                    what = f"round {number}" if number else "warm-up"
                    progress.step(f"{state.name}, {side}, {what}")
                    folder = work / f"rescale{progress.done}"
                    one = change(spark, folder, state, after_s)
                    progress.note(
                        f"first output after {one.first_s:.2f} s, longest gap {one.gap_s:.2f} s, "
                        f"call {one.took_s:.3f} s, latest row {one.latest_ms / 1000:.2f} s"
                    )
                    if number:
                        found[side].append(one)
            _add(report, state, found)
    return report


def resource_centric(spark: SparkSession, folder: Path, state: State, after_s: float) -> Change:
    """Spark's own way."""
    meter = Meter(spark, folder.name)

    def written(session: SparkSession) -> DataStreamWriter:
        made = writer(session, folder.name, state.source(), counting_payloads)
        return made.outputMode("update")

    trigger = {"processingTime": "0 seconds"}
    query = RepartitionedQuery(spark, written, str(folder), trigger)

    def change() -> Done:
        done = asdict(query.rescale(TIMES * PARTITIONS))
        steps = {name: value for name, value in done.items() if name.endswith("_s")}
        # All of the batches of the query that has started again.
        return Done(steps, partial(begun_ms, query.query))

    with as_side(spark, stock(PARTITIONS)), repartitioned(query, meter):
        return _watched(meter, change, after_s)


@contextmanager
def repartitioned(query: RepartitionedQuery, meter: Meter) -> Iterator[None]:
    """Start a query that Spark repartitions; it puts out rows, and stops with the block."""
    query.start()
    try:
        await_rows(Running(query.query, meter))
        yield
        if query.query.exception() is not None:
            raise BenchmarkError(f"The query has ended: {query.query.exception()}")
    finally:
        query.stop()
        meter.drop()


def more_lanes(spark: SparkSession, folder: Path, state: State, after_s: float) -> Change:
    """laneshift."""
    options = {"lanes": "1", "maxLanes": str(TIMES)}
    side = Side("laneshift", options, PARTITIONS)
    app = attach(spark)
    with running(spark, folder, side, state.source(), counting_payloads, trigger=None) as query:

        def change() -> Done:
            app.query(query.query).set_lanes(TIMES)
            in_force = pool.submit(_in_force_ms, query, app)

            def began_ms() -> list[float]:
                since = in_force.result()
                return [at for at in begun_ms(query.query) if at > since]

            return Done({}, began_ms)

        with ThreadPoolExecutor(1) as pool:
            found = _watched(query.meter, change, after_s)
        query.check()
        if (lanes := query.lanes(app)) != TIMES * PARTITIONS:
            raise BenchmarkError(f"There are {lanes} lanes, expected {TIMES * PARTITIONS}.")
        return found


def more_partitions(spark: SparkSession, folder: Path, state: State, after_s: float) -> Change:
    """laneshift's rescale of the stores."""
    side = Side("laneshift", {"lanes": "1"}, PARTITIONS)
    app = attach(spark)
    with running(spark, folder, side, state.source(), counting_payloads, trigger=None) as query:

        def change() -> Done:
            done = app.query(query.query).rescale(TIMES * PARTITIONS).wait(AT_MOST_S)
            steps = {"take_over_s": done.pause_ms / 1000}
            return Done(steps, partial(begun_ms, query.query, done.batch_id))

        found = _watched(query.meter, change, after_s)
        query.check()
        return found


def _in_force_ms(query: Running, app: Application) -> float:
    """When all lanes were seen first (ms since 1970)."""
    deadline = time.monotonic() + IN_FORCE_S
    while query.lanes(app) != TIMES * PARTITIONS:
        query.check()
        if time.monotonic() > deadline:
            raise BenchmarkError(f"The new lanes were not there within {IN_FORCE_S:g} s.")
        time.sleep(0.01)
    return time.time() * 1000


@dataclass(frozen=True)
class Laps:
    """What came in one phase: laps with rows, as (seconds since it began, latency), and slots."""

    laps: list[tuple[float, Latency]]
    came_ms: list[float]

    def p99_ms(self, from_s: float) -> tuple[float, float]:
        """Over all rows that came later than ``from_s``, and the laps' median."""
        late = [lap for at, lap in self.laps if at > from_s]
        return Latency.merged(late).p99_ms, float(np.median([lap.p99_ms for lap in late]))


def _watched(meter: Meter, change: Callable[[], Done], after_s: float) -> Change:
    """Change a running query, with a lap of its meter every `LAP_S` before and after."""
    before = _laps(meter, WARM_S)

    def timed() -> tuple[float, Done]:
        began = time.monotonic()
        done = change()
        return time.monotonic() - began, done

    call_ms = time.time() * 1000
    with ThreadPoolExecutor(1) as pool:
        called = pool.submit(timed)
        after = _laps(meter, after_s / 2, called.done)
        more = _laps(meter, after_s / 2)
        after = Laps(after.laps + more.laps, after.came_ms + more.came_ms)
        took_s, done = called.result()
    end_ms = time.time() * 1000
    came_ms = sorted({*before.came_ms, *after.came_ms})
    before_ms, before_window_ms = before.p99_ms(WARM_S - CALM_S)
    after_ms, after_window_ms = more.p99_ms(after_s / 2 - CALM_S)
    return Change(
        first_s=first_output_s(came_ms, done.began_ms(), call_ms),
        gap_s=longest_gap_s(came_ms, call_ms, end_ms),
        gap_before_s=longest_gap_s(came_ms, call_ms - 1000 * CALM_S, call_ms),
        took_s=took_s,
        latest_ms=max(lap.max_ms for _, lap in after.laps),
        before_ms=before_ms,
        after_ms=after_ms,
        before_window_ms=before_window_ms,
        after_window_ms=after_window_ms,
        steps=done.steps,
    )


def _laps(meter: Meter, seconds: float, over: Callable[[], bool] = lambda: True) -> Laps:
    """Laps of so many seconds, and until it is ``over``."""
    began = time.monotonic()
    found = Laps([], [])
    while (at := time.monotonic() - began) < seconds or not over():
        if at > AT_MOST_S:
            raise BenchmarkError(f"The change was not there within {AT_MOST_S:g} s.")
        time.sleep(LAP_S - at % LAP_S)
        slots, latency = meter.lap()
        found.came_ms.extend(float(slot) for slot, _ in slots)
        if latency.count:
            found.laps.append((time.monotonic() - began, latency))
    if not found.laps:
        raise BenchmarkError(f"No row came in {seconds:g} s.")
    return found


def _add(report: Report, state: State, found: Mapping[str, list[Change]]) -> None:
    figures: dict[str, Callable[[Change], float]] = {
        "first output, s": lambda one: one.first_s,
        "longest gap, s": lambda one: one.gap_s,
        "longest gap before, s": lambda one: one.gap_before_s,
        "call, s": lambda one: one.took_s,
        "latest row, s": lambda one: one.latest_ms / 1000,
        "p99 before, ms": lambda one: one.before_ms,
        "p99 afterwards, ms": lambda one: one.after_ms,
        "p99 before, windows, ms": lambda one: one.before_window_ms,
        "p99 afterwards, windows, ms": lambda one: one.after_window_ms,
    }
    data: dict[str, Any] = {side: [asdict(one) for one in each] for side, each in found.items()}
    report.data[state.name] = data
    for name, figure in figures.items():
        values = [[figure(one) for one in each] for each in found.values()]
        ratios = [str(Ratio.of(each, values[0])) for each in values[1:]]
        report.rows.append([state.name, name, *map(spread, values), *ratios])
    words = "; ".join(
        f"{side}: {name.removesuffix('_s').replace('_', '-')} "
        f"{np.median([one.steps[name] for one in each]):.2f} s"
        for side, each in found.items()
        for name in each[0].steps
    )
    report.notes.append(f"{state.name}: steps, medians: {words}.")
