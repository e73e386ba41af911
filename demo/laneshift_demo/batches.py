"""Micro-batches: the same rows, as fast as they are taken, while lanes change and shards move."""

from __future__ import annotations

import random
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from laneshift import Application
from laneshift_demo.director import LANES, Director
from laneshift_demo.failure import DemoError, require_running
from laneshift_demo.question import answers
from laneshift_demo.race import ALL_HANDOFFS, SideRun
from laneshift_demo.scene import Scene
from laneshift_demo.settings import ELASTIC, Settings, options_set, side_options
from laneshift_demo.stream import Stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCHES = 12
MOVES_PER_S = 20.0
TICK_S = 0.1
QUIET_LIMIT_S = 120.0


def micro_batches(
    spark: SparkSession, app: Application, scene: Scene, stream: Stream, settings: Settings
) -> SideRun:
    """Run laneshift over all rows; a row costs nothing here but its own work.

    Errors: DemoError if the query fails, or gives no answer for two minutes.
    """
    rows = scene.batch_rows(-(-stream.rows // BATCHES))
    with ExitStack() as stack:
        writer, tail = scene.sink("micro-batch", answers(rows))
        stack.callback(tail.close)
        checkpoint = (settings.work / "micro-batch").absolute()
        writer = writer.outputMode("update").option("checkpointLocation", str(checkpoint))
        with options_set(spark, side_options(ELASTIC, LANES[0], max(LANES))):
            query = writer.queryName("demo_micro_batch").start()
        stack.callback(query.stop)
        director = Director(app, query.id, MOVES_PER_S, random.Random(settings.seed))
        run = SideRun(ELASTIC, tail.updates)
        began = news = time.monotonic()
        while run.updates.rows < stream.rows:
            time.sleep(TICK_S)
            require_running(query)
            before = run.updates.rows
            tail.poll()
            now = time.monotonic()
            news = now if run.updates.rows > before else news
            if now - news > QUIET_LIMIT_S:
                raise DemoError(
                    f"No answer for {QUIET_LIMIT_S:g} s, {run.updates.rows:,} of {stream.rows:,} "
                    "rows answered; the log says more."
                )
            director.act(now - began, run.updates.rows / stream.rows)
        run.handoffs = tuple(app.query(query.id).handoffs(limit=ALL_HANDOFFS))
        return run
