"""Runs a query that an autoscaler drives, and watches it: rows, latency and lanes over time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from laneshift import attach
from laneshift.api.application import Application
from laneshift.api.autoscaler import Autoscaler
from laneshift.autoscale.decisions import Decision
from laneshift_bench.measure import SLOT_MS, Latency
from laneshift_bench.pairs import in_turn
from laneshift_bench.pictures import Kept
from laneshift_bench.progress import Progress
from laneshift_bench.query import START_TIMEOUT_S, BenchmarkError, Running, running
from laneshift_bench.setting import STOCK, Setting

FloatArray = NDArray[np.float64]
LAP_S = 0.5
LEAD_S = 4.0
"""The first row is due so long after a query is asked to start."""
SETTLE_S = 6.0
"""Not measured at the start: late rows of a slow start are caught up with, lanes are balanced. A
query that has not put out a row by then has started too late."""
WARM_S = 8.0


@dataclass(frozen=True, slots=True)
class Lap:
    """What came to the sink in half a second that ended ``end_s`` after the first row was due."""

    end_s: float
    latency: Latency
    lanes: int


@dataclass(slots=True)
class Run:
    """One run of one side; times are seconds after the first row was due.

    Attributes:
        side: stock, or the policy.
        counts: rows of each slot of 100 ms that came to the sink, by the slot's start.
        laps: latency and lanes over time.
        decisions: what the autoscaler did.
        turns: of the autoscaler.
        thread_s: CPU time of the autoscaler's thread since it began, at each lap.
    """

    side: str
    counts: dict[float, int] = field(default_factory=dict)
    laps: list[Lap] = field(default_factory=list)
    decisions: tuple[Decision, ...] = ()
    turns: int = 0
    thread_s: list[float] = field(default_factory=list)

    def rate(self, begin_s: float, end_s: float) -> float:
        """Rows a second that came from ``begin_s`` to ``end_s``."""
        inside = [n for at, n in self.counts.items() if begin_s <= at < end_s]
        return sum(inside) / (end_s - begin_s)

    def p99_ms(self, begin_s: float, end_s: float) -> float:
        """The median of the half seconds' 99th percentiles."""
        inside = [latency.p99_ms for latency in self._latencies(begin_s, end_s)]
        return float(np.median(inside)) if inside else float("nan")

    def latency(self, begin_s: float, end_s: float) -> Latency:
        """Over all rows, each with the same weight."""
        return Latency.merged(self._latencies(begin_s, end_s))

    def p99_all_ms(self, begin_s: float, end_s: float) -> float:
        """The 99th percentile over all rows, each with the same weight."""
        return self.latency(begin_s, end_s).p99_ms

    def _latencies(self, begin_s: float, end_s: float) -> list[Latency]:
        """Of the half seconds inside, those that had rows."""
        return [
            lap.latency
            for lap in self.laps
            if begin_s + LAP_S <= lap.end_s <= end_s and lap.latency.count
        ]

    def series(self, step_s: float) -> tuple[FloatArray, FloatArray]:
        """(times, rows/s): ends of steps of ``step_s`` from 0 on, and the rate in each."""
        end = self.laps[-1].end_s if self.laps else 0.0
        edges = np.arange(0.0, end + 1e-9, step_s)
        starts = np.array(list(self.counts), dtype=np.float64) + SLOT_MS / 2000
        weights = np.array(list(self.counts.values()), dtype=np.float64)
        rows, _ = np.histogram(starts, bins=edges, weights=weights)
        return edges[1:], rows / step_s

    def backlog(self, setting: Setting, step_s: float) -> tuple[FloatArray, FloatArray]:
        """(times, rows): what was due and had not come at the end of each step."""
        times, rates = self.series(step_s)
        before = sum(n for at, n in self.counts.items() if at + SLOT_MS / 2000 < 0)
        due = np.array([setting.due(float(t)) for t in times])
        return times, np.maximum(due - before - np.cumsum(rates) * step_s, 0.0)

    def lanes(self, begin_s: float, end_s: float) -> float:
        """Mean of the lanes that all partitions had together."""
        inside = [lap.lanes for lap in self.laps if begin_s <= lap.end_s <= end_s]
        return float(np.mean(inside)) if inside else float("nan")

    def p99s(self) -> tuple[FloatArray, FloatArray]:
        """(times, ms): the 99th percentile of each half second that had rows."""
        found = [lap for lap in self.laps if lap.latency.count]
        times = np.array([lap.end_s for lap in found], dtype=np.float64)
        return times, np.array([lap.latency.p99_ms for lap in found], dtype=np.float64)

    def held(self) -> tuple[FloatArray, FloatArray]:
        """(times, lanes of all partitions together)."""
        times = np.array([lap.end_s for lap in self.laps], dtype=np.float64)
        return times, np.array([lap.lanes for lap in self.laps], dtype=np.float64)

    def data(self) -> dict[str, object]:
        """For JSON: rates of half seconds, latencies, lanes, and decisions in words."""
        times, rates = self.series(LAP_S)
        return {
            "time_s": times.round(3).tolist(),
            "rows_per_s": rates.round(1).tolist(),
            "p99_s": self.p99s()[0].round(2).tolist(),
            "p99_ms": self.p99s()[1].round(2).tolist(),
            "lanes": [lap.lanes for lap in self.laps],
            "turns": self.turns,
            "changes": [str(change) for d in self.decisions for change in d.changes],
        }

    @property
    def most_lanes(self) -> int:
        """The most lanes that were seen at once."""
        return max((lap.lanes for lap in self.laps), default=0)

    def changes(self, after_s: float, start_s: float) -> int:
        """Lane counts that were changed later than ``after_s``; the run began at ``start_s``."""
        late = [d for d in self.decisions if d.applied and d.time_s - start_s > after_s]
        return sum(len(d.changes) for d in late)


@dataclass(slots=True)
class Driven:
    """A query that runs, with its autoscaler."""

    setting: Setting
    start_s: float
    running: Running
    app: Application | None
    autoscaler: Autoscaler | None
    run: Run
    _clock: int | None = None

    def lap(self) -> None:
        """Note what has come since the last call."""
        rows, latency = self.running.meter.lap()
        for at_ms, count in rows:
            at = round(at_ms / 1000 - self.start_s, 3)
            self.run.counts[at] = self.run.counts.get(at, 0) + count
        lanes = self.setting.operators * self.setting.stock_partitions
        if self.app is not None:
            lanes = self.running.lanes(self.app)
        self.run.laps.append(Lap(time.time() - self.start_s, latency, lanes))
        if self._clock is not None:
            self.run.thread_s.append(time.clock_gettime(self._clock))

    def watch_thread(self, before: set[int | None]) -> None:
        """Measure the CPU time of the one thread that was not there ``before``."""
        new = [t.ident for t in threading.enumerate() if t.name == "laneshift autoscaler"]
        (ident,) = [i for i in new if i is not None and i not in before]
        self._clock = time.pthread_getcpuclockid(ident)

    def finish(self) -> None:
        """Check the query, stop the autoscaler, keep what it did."""
        self.running.check()
        if self.autoscaler is not None:
            if not self.autoscaler.is_running:
                raise BenchmarkError(f"The autoscaler {self.run.side} has ended by itself.")
            self.autoscaler.stop()
            self.run.decisions = self.autoscaler.decisions(limit=10_000)
            self.run.turns = self.autoscaler.turns
            failed = [d.error for d in self.run.decisions if d.error]
            if failed:
                raise BenchmarkError(
                    f"{len(failed)} turns of {self.run.side} failed, the first by: {failed[0]}"
                )


@contextmanager
def driving(
    spark: SparkSession,
    work: Path,
    setting: Setting,
    side: str,
    trace: Path | None = None,
    most_late_s: float = SETTLE_S,
) -> Iterator[Driven]:
    """Start a query of the side and its autoscaler; both end with the block."""
    start_s = round(time.time() + LEAD_S, 3)
    with (
        running(
            spark, work, setting.side(side), setting.source(start_s), setting.build, setting.batch,
            every=f"{round(1000 * setting.every_s)} milliseconds",
            folder=work / f"slots{time.monotonic_ns()}" if setting.nodes > 1 else None,
        ) as query,
        scheduled(spark, setting, side, query, start_s, trace, most_late_s) as driven,
    ):  # fmt: skip
        yield driven


@contextmanager
def scheduled(
    spark: SparkSession,
    setting: Setting,
    side: str,
    query: Running,
    start_s: float,
    trace: Path | None = None,
    most_late_s: float = SETTLE_S,
    cores: int | None = None,
    **parameters: Any,
) -> Iterator[Driven]:
    """The autoscaler of a query that has put out its first row; it ends with the block.

    Args:
        start_s: when the first row was due (s since 1970).
        most_late_s: how much later it may have come.
        cores: of an executor that lanes may use; None: the setting's.
        parameters: of the policy.

    Errors: BenchmarkError if it came later.
    """
    late_s = time.time() - start_s
    if late_s > most_late_s:
        raise BenchmarkError(
            f"{setting.name}, {side}: the first row came {late_s:.1f} s after it was due, "
            f"expected at most {most_late_s:g} s: the machine does something else, too."
        )
    app = autoscaler = None
    before = {thread.ident for thread in threading.enumerate()}
    if side != STOCK:
        app = attach(spark)
        autoscaler = app.query(query.query).autoscale(
            policy=setting.policy(side),
            interval=setting.interval_s,
            cores=setting.cores_each if cores is None else cores,
            trace=trace,
            **parameters,
        )
    driven = Driven(setting, start_s, query, app, autoscaler, Run(side))
    if autoscaler is not None:
        driven.watch_thread(before)
    try:
        yield driven
    finally:
        if autoscaler is not None:
            autoscaler.stop()


def drive(
    spark: SparkSession, work: Path, setting: Setting, side: str, trace: Path | None = None
) -> Run:
    """Run all stages of one side."""
    with driving(spark, work, setting, side, trace) as driven:
        watch([driven], setting.seconds)
    return driven.run


def take_turns(
    spark: SparkSession, work: Path, setting: Setting, sides: Sequence[str], rounds: int,
    progress: Progress, words: Callable[[Run], str],
) -> tuple[dict[str, list[Run]], dict[str, Kept]]:  # fmt: skip
    """Runs by side, one a round, and the policies' traces of the last round.

    Args:
        words: says what a run gave, for progress.
    """
    runs: dict[str, list[Run]] = {side: [] for side in sides}
    kept: dict[str, Kept] = {}
    for number in range(1, rounds + 1):
        for side in in_turn(sides, number):
            progress.step(f"{setting.name}, {side}, round {number}")
            trace = None if side == STOCK else work / f"trace{progress.done}"
            one = drive(spark, work, setting, side, trace)
            if one.most_lanes > setting.cores:
                raise BenchmarkError(f"{side} had {one.most_lanes} lanes on {setting.cores} cores.")
            runs[side].append(one)
            if trace is not None:
                kept[side] = Kept.of(trace)
                trace.unlink()
            progress.note(words(one))
    return runs, kept


def warm_up(spark: SparkSession, work: Path, setting: Setting) -> None:
    """A few seconds of stock and of a driven query, so that a JVM that begins is on no side."""
    for side in (STOCK, "static"):
        with driving(spark, work, setting, side, most_late_s=START_TIMEOUT_S) as driven:
            watch([driven], max(0.0, time.time() - driven.start_s) + WARM_S)


def watch(driven: list[Driven], until_s: float) -> None:
    """Note laps of all until ``until_s`` after their first rows were due, and finish them."""
    due = time.time()
    while min(time.time() - d.start_s for d in driven) < until_s:
        due = max(due + LAP_S, time.time())
        time.sleep(max(due - time.time(), 0.0))
        for each in driven:
            each.lap()
    for each in driven:
        each.finish()
