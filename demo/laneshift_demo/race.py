"""Real-time Mode: the same rows at the same time for stock Spark and for laneshift."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from laneshift import Application, Handoff
from laneshift_demo.calibrate import Calibration
from laneshift_demo.display import Display, Moment, SideMoment
from laneshift_demo.failure import DemoError, require_running
from laneshift_demo.question import answers
from laneshift_demo.scene import Scene, Tail
from laneshift_demo.settings import (
    CORES,
    ELASTIC,
    PARTITIONS,
    POLICY,
    STOCK,
    Settings,
    options_set,
    side_options,
)
from laneshift_demo.stream import Stream
from laneshift_demo.updates import Updates

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

BATCH = "5 minutes"
"""No pause between two batches falls into the demo, on either side."""
LEAD_S = (4.0, 15.0)
"""The first row is due so long after the queries are asked to start: as long as they took to start
in calibration, within these bounds, so that rows seldom wait for a query that has not begun."""
OVERTIME_S = 20.0
"""How long laneshift may take for what is left when the last row was due."""
STOCK_OVERTIME_S = 30.0
"""How long stock may, beside what comes next."""
TICK_S, SAMPLE_S = 0.1, 0.5
TURN_S = 0.5
"""From one turn of the policy to the next."""
TARGET_COSTS = 2.0
"""Mean latency that the demo's policy is to keep to, in costs of a row: little waiting."""
START_LIMIT_S = 90.0
ALL_HANDOFFS = 100_000


@dataclass(slots=True)
class SideRun:
    """What one side did.

    Attributes:
        side: stock or laneshift.
        updates: its answers.
        lanes: (seconds since the start, lanes of each partition) over time; stock: empty.
        late_rows: (seconds since the start, rows that were due and not answered).
        handoffs: every shard that moved.
    """

    side: str
    updates: Updates
    lanes: list[tuple[float, tuple[int, ...]]] = field(default_factory=list)
    late_rows: list[tuple[float, int]] = field(default_factory=list)
    handoffs: tuple[Handoff, ...] = ()


@dataclass(slots=True)
class Race:
    """Both sides over the same stream.

    Attributes:
        stream: the rows.
        start_s: when the first one was due (s since 1970).
        stock, elastic: what the sides did.
        end_s: when the last answers were read (s since 1970).
    """

    stream: Stream
    start_s: float
    stock: SideRun
    elastic: SideRun
    end_s: float = 0.0

    def latencies(self, run: SideRun) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(s since the start when rows were due, ms until their answers) of all rows; one without
        answer counts with its age when the race ended, which is too little."""
        at_us, latency_us, _ = run.updates.columns()
        late = self.stream.due_s(self.stream.unanswered(run.updates.counts))
        due = np.concatenate([(at_us - latency_us) / 1e6 - self.start_s, late])
        age_ms = np.maximum(self.end_s - self.start_s - late, 0.0) * 1e3
        return due, np.concatenate([latency_us / 1e3, age_ms])

    def behind(self, run: SideRun) -> int:
        """Rows without answer when the last row was due."""
        at = np.array(run.updates.at_us, dtype=np.float64) / 1e6 - self.start_s
        new = np.array(run.updates.new_rows, dtype=np.int64)
        return self.stream.rows - int(new[at <= self.stream.seconds].sum())


@contextmanager
def racing(
    spark: SparkSession,
    app: Application,
    scene: Scene,
    stream: Stream,
    settings: Settings,
    chosen: Calibration,
    display: Display,
) -> Iterator[Race]:
    """Run both sides until laneshift has answered all rows. Stock goes on, beside what is done in
    the block and for a while after it, with what it has left.

    Errors: DemoError if a query fails, or laneshift does not answer in time.
    """
    start_s = round(time.time() + min(max(chosen.start_s, LEAD_S[0]), LEAD_S[1]), 3)
    with ExitStack() as stack:
        stack.callback(display.end)
        queries, tails = {}, {}
        for side in (STOCK, ELASTIC):
            with options_set(spark, side_options(side, CORES // PARTITIONS, most_lanes())):
                started = _start(scene, side, start_s, chosen.cost_us, settings.work)
            queries[side], tails[side] = started
            stack.callback(tails[side].close)
            stack.callback(queries[side].stop)
        _await_operators(app, queries[ELASTIC])
        target_s = TARGET_COSTS * chosen.cost_us / 1e6
        autoscaler = app.query(queries[ELASTIC]).autoscale(
            policy=settings.policy,
            # Other policies keep their own, if they have one.
            target_latency=target_s if settings.policy == POLICY else None,
            interval=TURN_S,
            cores=CORES,
        )
        stack.callback(autoscaler.stop)
        scene.begin(start_s)
        runs = {side: SideRun(side, tails[side].updates) for side in queries}
        _watch(app, queries, tails, runs, stream, start_s, display)
        scene.end()
        autoscaler.stop()
        runs[ELASTIC].handoffs = tuple(app.query(queries[ELASTIC].id).handoffs(limit=ALL_HANDOFFS))
        queries[ELASTIC].stop()
        both = Race(stream, start_s, runs[STOCK], runs[ELASTIC])
        yield both
        while runs[STOCK].updates.rows < stream.rows:
            tails[STOCK].poll()
            if time.time() > start_s + stream.seconds + STOCK_OVERTIME_S:
                break
            time.sleep(TICK_S)
        both.end_s = time.time()


def most_lanes() -> int:
    """Of one partition, when each other one keeps its own."""
    return CORES - PARTITIONS + 1


def _start(
    scene: Scene, side: str, start_s: float, cost_us: int, work: Path
) -> tuple[StreamingQuery, Tail]:
    writer, tail = scene.sink(f"real-time-{side}", answers(scene.live_rows(start_s), cost_us))
    checkpoint = (work / f"real-time-{side}").absolute()
    writer = writer.outputMode("update").option("checkpointLocation", str(checkpoint))
    # PySpark's overloads of trigger leave this one out.
    writer = writer.trigger(realTime=BATCH)  # type: ignore[call-overload]
    return writer.queryName(f"demo_{side}").start(), tail


def _await_operators(app: Application, query: StreamingQuery) -> None:
    until = time.monotonic() + START_LIMIT_S
    while not lanes_of(app, query):
        require_running(query)
        if time.monotonic() > until:
            raise DemoError(f"The query has not begun in {START_LIMIT_S:g} s; the log says more.")
        time.sleep(TICK_S)


def lanes_of(app: Application, query: StreamingQuery) -> tuple[int, ...]:
    """Lanes of each elastic partition; empty before the first batch."""
    mine = [q for q in app.snapshot().queries if q.id == query.id]
    return tuple(p.lanes for q in mine for operator in q.operators for p in operator.partitions)


def _watch(
    app: Application,
    queries: dict[str, StreamingQuery],
    tails: dict[str, Tail],
    runs: dict[str, SideRun],
    stream: Stream,
    start_s: float,
    display: Display,
) -> None:
    before = dict.fromkeys(runs, (0, 0))
    sampled = time.time()
    while True:
        time.sleep(TICK_S)
        for side, tail in tails.items():
            require_running(queries[side])
            tail.poll()
        now = time.time()
        at = now - start_s
        done = runs[ELASTIC].updates.rows >= stream.rows
        if at > 0 and (now - sampled >= SAMPLE_S or done):
            moments = {}
            for side, run in runs.items():
                rows, updates = before[side]
                late = stream.due(at) - run.updates.rows
                run.late_rows.append((at, late))
                rate = (run.updates.rows - rows) / (now - sampled)
                moments[side] = SideMoment(rate, run.updates.p99_ms(updates), max(0, late))
                before[side] = (run.updates.rows, len(run.updates.at_us))
            lanes = lanes_of(app, queries[ELASTIC])
            runs[ELASTIC].lanes.append((at, lanes))
            display.show(
                Moment(at, stream.hot_at(at), moments[STOCK], moments[ELASTIC], lanes), last=done
            )
            sampled = now
        if done:
            return
        if at > stream.seconds + OVERTIME_S:
            raise DemoError(
                f"laneshift answered {runs[ELASTIC].updates.rows:,} of {stream.rows:,} rows, "
                f"{OVERTIME_S:g} s after the last one was due: this machine is too slow or too "
                "busy for the load. Try again, or set a smaller one with --rate."
            )
