"""The demo from start to end: set up, run each mode, compare, draw, say the result."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from laneshift import attach
from laneshift.demo import flights
from laneshift.demo.compare import Comparison, compare, stock_answer
from laneshift.demo.display import Display
from laneshift.demo.picture import draw
from laneshift.demo.run import Run, run
from laneshift.demo.scene import Scene, flights_scene
from laneshift.demo.settings import LANES, Settings, build_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KAFKA_FOLDER = Path("build/kafka")


def show(settings: Settings, stack: ExitStack) -> int:
    """Run the demo; what must be ended is pushed on the stack. Returns the exit code.

    Errors: DemoError, LaneshiftError.
    """
    began = time.monotonic()
    display = Display()
    shutil.rmtree(settings.work, ignore_errors=True)
    settings.work.mkdir(parents=True)
    table = flights.load(settings.rows)
    folder = flights.write_parquet(table, settings.work.parent)
    rows_per_s = table.num_rows / settings.seconds

    jars: list[Path] = []
    address = ""
    if settings.source == "kafka":
        from laneshift.demo.kafka.broker import Broker
        from laneshift.demo.kafka.jars import fetch

        jars = fetch("connector", KAFKA_FOLDER)
        broker = Broker(fetch("broker", KAFKA_FOLDER), KAFKA_FOLDER / "run")
        address = stack.enter_context(broker).address
        display.say(f"A Kafka broker runs at {address}.")
    spark = build_session(settings, jars)
    stack.callback(spark.stop)
    live = None if settings.stock else attach(spark)
    lanes = " -> ".join(map(str, LANES))
    what = f"laneshift {live.version}, lanes {lanes}" if live is not None else "stock Spark"
    display.say(
        f"{table.num_rows:,} flights of 2013 at {rows_per_s:,.0f} rows/s; "
        f"Spark {spark.version}, {what}. Log: {settings.log}"
    )

    def scene_of(mode: str, place: Path) -> Scene:
        if settings.source == "kafka":
            from laneshift.demo.kafka.scene import kafka_scene

            return kafka_scene(spark, mode, table, address, rows_per_s)
        return flights_scene(spark, mode, table, folder, rows_per_s, place)

    runs = []
    for mode in settings.modes:
        place = settings.work / mode
        scene = scene_of(mode, place)
        checkpoint = place / "checkpoint"
        runs.append(run(spark, live, scene, mode, settings, table.num_rows, checkpoint, display))
    same = _compared(spark, folder, runs, display.say)
    if settings.picture is not None:
        draw(runs, _title(settings), settings.picture)
        display.say(f"Picture: {settings.picture}   Total time: {time.monotonic() - began:.0f} s")
    return _result(runs, same, display.say)


def _compared(
    spark: SparkSession, folder: Path, runs: list[Run], say: Callable[[str], None]
) -> list[Comparison]:
    stock = stock_answer(spark, folder)
    same = [compare(stock, one.updates.answer) for one in runs]
    for one, comparison in zip(runs, same, strict=True):
        order = f"{one.updates.disorder:,} out of order" if one.updates.disorder else "in order"
        say(
            f"{one.mode:<11} against stock batch: {comparison.report()}; "
            f"{len(one.updates.at_us):,} updates, each key's {order}; "
            f"{len(one.handoffs):,} shard moves"
        )
    return same


def _result(runs: list[Run], same: list[Comparison], say: Callable[[str], None]) -> int:
    identical = all(c.identical for c in same) and not any(one.updates.disorder for one in runs)
    moves = sum(len(one.handoffs) for one in runs)
    pauses = [handoff.pause_us for one in runs for handoff in one.mid_batch()]
    p99 = float(np.percentile(pauses, 99)) / 1000 if pauses else 0.0
    say(
        f"RESULT identical={str(identical).lower()} rows={sum(c.rows for c in same)} "
        f"moves={moves} pause_p99_ms={p99:.3f}"
    )
    return 0 if identical and moves > 0 else 1


def _title(settings: Settings) -> str:
    what = "Kafka" if settings.source == "kafka" else "files"
    how = "stock Spark" if settings.stock else "laneshift"
    return f"Flights of 2013 from {what}, delays per day, destination and carrier, on {how}"
