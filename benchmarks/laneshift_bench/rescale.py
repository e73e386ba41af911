"""Another parallelism for a running query: Spark's own way against more lanes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from laneshift import attach
from laneshift.session.repartition import RepartitionedQuery
from laneshift_bench.measure import Latency, Meter
from laneshift_bench.pairs import Ratio, spread
from laneshift_bench.progress import Progress
from laneshift_bench.query import BenchmarkError, as_side, counting_payloads, running, writer
from laneshift_bench.report import Report
from laneshift_bench.session import session
from laneshift_bench.sides import Side, stock

RATE = 10_000
PARTITIONS, TIMES = 2, 4
WARM_S = 20.0
LAP_S = 0.2
CALM_S = 5.0
METHOD = f"""\
Counts per key and each key's greatest payload, micro-batches without pause at {RATE:,} rows/s due,
{PARTITIONS} state partitions. After {WARM_S:g} s it gets {TIMES} times the parallelism.
*resource-centric* is stock Spark by `RepartitionedQuery`: stop, do the batch
again that was cut short, Spark's offline repartition to {TIMES * PARTITIONS} partitions, start.
*laneshift* is one command, {TIMES} lanes in each partition instead of one. *Took*: until the call
came back. *Latest row*: the highest latency, from the time a row is due to its arrival in the sink,
of the rows that came after the call. *p99 before* and *afterwards*: medians of the 99th percentiles
of each {LAP_S:g} s, over the {CALM_S:g} s before the call and the last {CALM_S:g} s. Two real cores
do all of it, so neither side gets faster by its new parallelism. Sides take turns in one JVM,
after a warm-up of each."""
HEADER = ("state", "figure", "resource-centric", "laneshift", "laneshift / resource-centric")


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
        took_s: until the call came back.
        latest_ms: highest latency after the call.
        before_ms: median of the laps' 99th percentiles before.
        after_ms: the same at the end.
        steps: of Spark's way, in seconds each.
    """

    took_s: float
    latest_ms: float
    before_ms: float
    after_ms: float
    steps: Mapping[str, float]


def run(quick: bool) -> Report:
    """The whole benchmark."""
    rounds = 1 if quick else 3
    after_s = 12.0 if quick else 20.0
    sides = {"resource-centric": resource_centric, "laneshift": more_lanes}
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
                    progress.note(f"{one.took_s:.3f} s, latest row {one.latest_ms / 1000:.2f} s")
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

    def change() -> dict[str, float]:
        done = asdict(query.rescale(TIMES * PARTITIONS))
        return {name: value for name, value in done.items() if name.endswith("_s")}

    with as_side(spark, stock(PARTITIONS)):
        query.start()
        try:
            found = _watched(meter, change, after_s)
            if query.query.exception() is not None:
                raise BenchmarkError(f"The query has ended: {query.query.exception()}")
            return found
        finally:
            query.stop()
            meter.drop()


def more_lanes(spark: SparkSession, folder: Path, state: State, after_s: float) -> Change:
    """laneshift."""
    options = {"lanes": "1", "maxLanes": str(TIMES)}
    side = Side("laneshift", options, PARTITIONS)
    live = attach(spark)
    with running(spark, folder, side, state.source(), counting_payloads, trigger=None) as query:

        def change() -> dict[str, float]:
            live.set_lanes(query.query, 0, -1, TIMES)
            return {}

        found = _watched(query.meter, change, after_s)
        query.check()
        if (lanes := query.lanes(live)) != TIMES * PARTITIONS:
            raise BenchmarkError(f"There are {lanes} lanes, expected {TIMES * PARTITIONS}.")
        return found


def _watched(meter: Meter, change: Callable[[], dict[str, float]], after_s: float) -> Change:
    """Change a running query, with a lap of its meter every `LAP_S` before and after."""
    before = _laps(meter, WARM_S)

    def timed() -> tuple[float, dict[str, float]]:
        began = time.monotonic()
        steps = change()
        return time.monotonic() - began, steps

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(timed)
        after = _laps(meter, after_s)
        took_s, steps = done.result()
    if took_s > after_s / 2:
        raise BenchmarkError(f"It took {took_s:.1f} s, expected at most {after_s / 2:g} s.")
    before_ms, after_ms = (
        float(np.median([lap.p99_ms for at, lap in laps if at > seconds - CALM_S]))
        for laps, seconds in ((before, WARM_S), (after, after_s))
    )
    return Change(took_s, max(lap.max_ms for _, lap in after), before_ms, after_ms, steps)


def _laps(meter: Meter, seconds: float) -> list[tuple[float, Latency]]:
    """(seconds since the call, latency) of each lap in which rows came."""
    began = time.monotonic()
    found = []
    while (at := time.monotonic() - began) < seconds:
        time.sleep(LAP_S - at % LAP_S)
        _, latency = meter.lap()
        if latency.count:
            found.append((time.monotonic() - began, latency))
    if not found:
        raise BenchmarkError(f"No row came in {seconds:g} s.")
    return found


def _add(report: Report, state: State, found: Mapping[str, list[Change]]) -> None:
    figures: dict[str, Callable[[Change], float]] = {
        "took, s": lambda one: one.took_s,
        "latest row, s": lambda one: one.latest_ms / 1000,
        "p99 before, ms": lambda one: one.before_ms,
        "p99 afterwards, ms": lambda one: one.after_ms,
    }
    data: dict[str, Any] = {side: [asdict(one) for one in each] for side, each in found.items()}
    report.data[state.name] = data
    for name, figure in figures.items():
        values = [[figure(one) for one in each] for each in found.values()]
        ratio = Ratio.of(values[1], values[0])
        report.rows.append([state.name, name, *map(spread, values), str(ratio)])
    steps = [one.steps for one in found["resource-centric"]]
    words = ", ".join(
        f"{name.removesuffix('_s')} {np.median([s[name] for s in steps]):.2f} s"
        for name in steps[0]
    )
    report.notes.append(f"{state.name}: the steps of Spark's way, medians: {words}.")
