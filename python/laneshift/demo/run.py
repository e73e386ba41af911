"""Runs the demo's query once, in one mode, and records what happens."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from laneshift import Handoff, Laneshift
from laneshift.demo.director import Director
from laneshift.demo.display import Display, Sample
from laneshift.demo.failure import DemoError
from laneshift.demo.question import answers
from laneshift.demo.scene import Scene
from laneshift.demo.settings import Settings
from laneshift.demo.updates import Updates

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TICK_S = 0.1
SAMPLE_S = 0.5
WARM_UP_LIMIT_S = 180.0
QUIET_LIMIT_S = 120.0
REALTIME_BATCH = "10 seconds"
ALL_HANDOFFS = 100_000


@dataclass(frozen=True, slots=True)
class Run:
    """One mode's run: its updates, its handoffs, its lane changes (s, lanes), when it began."""

    mode: str
    began_us: int
    seconds: float
    updates: Updates
    handoffs: tuple[Handoff, ...]
    lane_changes: tuple[tuple[float, int], ...]

    def mid_batch(self) -> list[Handoff]:
        """The handoffs while rows flowed; one between two batches has no pause."""
        return [handoff for handoff in self.handoffs if handoff.pause_us > 0]


def run(
    spark: SparkSession,
    live: Laneshift | None,
    scene: Scene,
    mode: str,
    settings: Settings,
    total_rows: int,
    checkpoint: Path,
    display: Display,
) -> Run:
    """Run until the answers stand for all rows, then stop the query.

    Errors: DemoError if the query fails, or gives no answer for two minutes.
    """
    writer = scene.write(answers(scene.rows, settings.cost_us)).outputMode("update")
    writer = writer.option("checkpointLocation", str(checkpoint.absolute()))
    if mode == "real-time":
        # PySpark's overloads of trigger leave this one out.
        writer = writer.trigger(realTime=REALTIME_BATCH)  # type: ignore[call-overload]
    query = writer.queryName(f"demo_{mode.replace('-', '_')}").start()
    director = None
    if live is not None:
        director = Director(live, query.id, settings.moves_per_s, random.Random(settings.seed))
    try:
        scene.feed.prime()
        _warm_up(query, scene)
        scene.feed.start()
        began, began_us = time.monotonic(), int(time.time() * 1e6)
        _watch(query, scene, mode, total_rows, director, display)
        scene.feed.stop()
        seconds = time.monotonic() - began
        handoffs = live.handoffs(query.id, ALL_HANDOFFS) if live is not None else ()
    finally:
        query.stop()
        scene.tail.close()
        display.end()
    changes = tuple(director.lane_changes) if director is not None else ()
    return Run(mode, began_us, seconds, scene.tail.updates, handoffs, changes)


def _warm_up(query: StreamingQuery, scene: Scene) -> None:
    """Wait for the first answer."""
    until = time.monotonic() + WARM_UP_LIMIT_S
    while not scene.tail.updates.rows:
        _require_running(query)
        if time.monotonic() > until:
            raise DemoError(f"The query gave no answer in its first {WARM_UP_LIMIT_S:g} s.")
        time.sleep(TICK_S)
        scene.tail.poll()


def _watch(
    query: StreamingQuery,
    scene: Scene,
    mode: str,
    total_rows: int,
    director: Director | None,
    display: Display,
) -> None:
    began = sampled = news = time.monotonic()
    updates = scene.tail.updates
    rows_then, updates_then = updates.rows, len(updates.at_us)
    while updates.rows < total_rows:
        time.sleep(TICK_S)
        scene.tail.poll()
        now = time.monotonic()
        _require_running(query)
        if len(updates.at_us) > updates_then:
            news = now
        if now - news > QUIET_LIMIT_S:
            missing = f"{updates.rows:,} of {total_rows:,} rows answered"
            raise DemoError(f"No answer for {QUIET_LIMIT_S:g} s, {missing}; the log says more.")
        if director is not None:
            director.act(now - began, updates.rows / total_rows)
        if now - sampled >= SAMPLE_S or updates.rows >= total_rows:
            rate = (updates.rows - rows_then) / (now - sampled)
            sample = Sample(
                mode, now - began, updates.rows / total_rows, rate, *updates.recent(updates_then)
            )
            display.show(_with_lanes(sample, director) if director is not None else sample)
            sampled, rows_then, updates_then = now, updates.rows, len(updates.at_us)


def _with_lanes(sample: Sample, director: Director) -> Sample:
    query = director.look()
    if query is None:
        return sample
    recent = [h.pause_us for h in director.live.handoffs(director.query_id, 500)]
    p50, p99 = np.percentile(recent, [50, 99]) / 1000 if recent else (np.nan, np.nan)
    lanes = tuple(p.lanes for operator in query.operators for p in operator.partitions)
    moves = sum(operator.handoffs for operator in query.operators)
    return sample.with_lanes(lanes, moves, float(p50), float(p99))


def _require_running(query: StreamingQuery) -> None:
    if not query.isActive:
        error = query.exception()
        why = str(error).strip().splitlines()[0] if error is not None else "it was stopped"
        raise DemoError(f"The query has failed: {why}")
