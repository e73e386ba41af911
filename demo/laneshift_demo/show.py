"""The demo from start to end: calibrate, race, micro-batches, compare, draw, say the result."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from laneshift import attach
from laneshift_demo import calibrate, flights
from laneshift_demo.batches import micro_batches
from laneshift_demo.compare import Comparison, batch_answers, compare
from laneshift_demo.display import Display
from laneshift_demo.picture import draw
from laneshift_demo.race import Race, SideRun, racing
from laneshift_demo.scene import FlightsScene, Scene
from laneshift_demo.settings import CORES, PARTITIONS, Settings, build_session
from laneshift_demo.stream import (
    HOT_AIRPORTS,
    HOT_SHARE,
    HOT_WORDS,
    Stream,
    hot_airports,
    make_stream,
    random_airports,
    write_parquet,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KAFKA_FOLDER = Path("build/kafka")
KAFKA_COST_US = 4_000
"""Broker, producer and consumers need the real cores, too: fewer rows, which cost more."""
BEHIND_S = 1.0
"""A side has kept up if it is less than so much of the load behind when the last row is due."""


def show(settings: Settings, stack: ExitStack) -> int:
    """Run the demo; what must be ended is pushed on the stack. Returns the exit code.

    Errors: DemoError, LaneshiftError.
    """
    began = time.monotonic()
    display = Display()
    shutil.rmtree(settings.work, ignore_errors=True)
    settings.work.mkdir(parents=True)
    jars: list[Path] = []
    address = ""
    if settings.source == "kafka":
        from laneshift_demo.kafka.broker import Broker
        from laneshift_demo.kafka.jars import fetch

        jars = fetch("connector", KAFKA_FOLDER)
        broker = Broker(fetch("broker", KAFKA_FOLDER), KAFKA_FOLDER / "run")
        address = stack.enter_context(broker).address
        display.say(f"A Kafka broker runs at {address}.")
    spark = build_session(settings, jars)
    stack.callback(spark.stop)
    app = attach(spark)
    display.say(
        f"Spark {spark.version}, laneshift {app.version}, {os.cpu_count()} real cores. "
        f"Log: {settings.log}"
    )
    display.say(
        f"{CORES} emulated cores on each side, in Real-time Mode, at the same time. Stock: {CORES} "
        f"state partitions, a core each. laneshift: {PARTITIONS} state partitions, whose {CORES} "
        f"lanes policy {settings.policy} moves to where the load is."
    )
    table = flights.load()
    chosen = _calibrated(spark, settings)
    display.say(f"Calibrated: {chosen.words}.")
    if not chosen.fits:
        display.say("This machine is too slow or too busy for that: expect both sides to be late.")
    at_random = settings.hot == "random"
    hot = random_airports(table, settings.seed) if at_random else hot_airports(spark, table)
    stream = make_stream(table, hot, chosen.rows_per_s, settings.seconds, settings.seed)
    rows = write_parquet(stream.table, settings.work / "rows")
    display.say(
        f"{stream.rows:,} rows, the flights of 2013; in each hot spell {HOT_SHARE:.0%} of them go "
        f"to {HOT_AIRPORTS} airports {HOT_WORDS[settings.hot]}."
    )
    scene = _scene(spark, settings, stream, rows, address)
    with racing(spark, app, scene, stream, settings, chosen, display) as both:
        display.say("laneshift has answered all. Now in micro-batches, beside stock's backlog ...")
        batches = micro_batches(spark, app, scene, stream, settings)
    for line in verdict(both):
        display.say(line)
    answers = batch_answers(spark, rows)
    runs = {"Real-time": both.elastic, "micro-batch": batches}
    same = {mode: compare(answers, run.updates.answers) for mode, run in runs.items()}
    for mode, run in runs.items():
        display.say(_compared(mode, run, same[mode]))
    draw(both, chosen, settings)
    display.say(f"Picture: {settings.picture}   Total time: {time.monotonic() - began:.0f} s")
    line, good = result(runs, same)
    display.say(line)
    return 0 if good else 1


def _calibrated(spark: SparkSession, settings: Settings) -> calibrate.Calibration:
    own_us, start_s = calibrate.measure(spark, settings.work)
    least_us = KAFKA_COST_US if settings.source == "kafka" else calibrate.COSTS_US[0]
    return calibrate.choose(own_us, start_s, least_us, settings.cost_us, settings.rows_per_s)


def _scene(
    spark: SparkSession, settings: Settings, stream: Stream, rows: Path, address: str
) -> Scene:
    if settings.source == "kafka":
        from laneshift_demo.kafka.scene import KafkaScene

        return KafkaScene(spark, stream, address)
    return FlightsScene(spark, rows, stream.rows_per_s)


def verdict(both: Race) -> list[str]:
    """A line for each side, and one more if the machine has not shown the difference."""
    lines, kept = [], {}
    limit = BEHIND_S * both.stream.rows_per_s
    for run in (both.stock, both.elastic):
        p50, p99 = np.percentile(both.latencies(run)[1], [50, 99])
        behind = both.behind(run)
        kept[run.side] = behind <= limit
        how = "kept up" if kept[run.side] else "fell behind"
        lines.append(
            f"{run.side:<9} {how}: p50 {p50:,.1f} ms, p99 {p99:,.0f} ms of all rows; "
            f"{(both.stream.rows - behind) / both.stream.seconds:,.0f} rows/s of "
            f"{both.stream.rows_per_s:,.0f}, {behind:,} rows late when the last was due"
        )
    if not kept[both.elastic.side]:
        lines.append("laneshift has not kept up: this machine is too slow or too busy just now.")
    elif kept[both.stock.side]:
        lines.append("Stock has kept up, too: this run does not show the difference.")
    return lines


def _compared(mode: str, run: SideRun, same: Comparison) -> str:
    disorder = run.updates.disorder
    order = f"{disorder:,} out of order" if disorder else "in order"
    return (
        f"{mode:<11} laneshift against batch Spark over the same rows: {same.report()}, "
        f"each airport's {order}; {len(run.handoffs):,} shard moves"
    )


def result(runs: Mapping[str, SideRun], same: Mapping[str, Comparison]) -> tuple[str, bool]:
    """The last line, and whether all is as it should be."""
    identical = all(one.identical for one in same.values())
    identical = identical and not any(run.updates.disorder for run in runs.values())
    moves = sum(len(run.handoffs) for run in runs.values())
    # One between two batches has no pause.
    pauses = [h.pause_us for run in runs.values() for h in run.handoffs if h.pause_us > 0]
    p99 = float(np.percentile(pauses, 99)) / 1000 if pauses else 0.0
    line = (
        f"RESULT identical={str(identical).lower()} rows={sum(c.rows for c in same.values())} "
        f"moves={moves} pause_p99_ms={p99:.3f}"
    )
    return line, identical and moves > 0
