"""Two sessions, one after the other, in one process, run by test_live_again.py.

The first one is stopped as it is: with a query that runs and is about to take over other state
partitions, a claim that nobody releases, a limit in force. Prints what the second one finds of it
as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import laneshift
from laneshift.plugin.gateway import Gateway
from laneshift.plugin.v1 import control_pb2 as pb
from laneshift_lab.workload import with_workload

NAME = "of the first session"


def session() -> SparkSession:
    builder = (
        SparkSession.builder.master("local[4]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "OFF")
        .config("spark.sql.shuffle.partitions", "2")
    )
    builder = laneshift.configure(
        builder, lanes=2, max_lanes=3, shards_per_partition=16, motion="always"
    )
    return with_workload(builder).getOrCreate()


def start(spark: SparkSession, folder: Path, name: str) -> Any:
    rows = (
        spark.readStream.format("laneshift-workload")
        .options(keys=100, zipf=0.9, rowBytes=0, rowsPerBatch=500, pacing="none")
        .load()
    )
    return (
        rows.groupBy("key")
        .agg(F.count("*").alias("n"))
        .writeStream.format("noop")
        .queryName(name)
        .outputMode("update")
        .option("checkpointLocation", str(folder / name))
        # Between two batches a rescale that is ready waits, and nothing else goes on.
        .trigger(processingTime="4 seconds")
        .start()
    )


def until(what: str, holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        if time.monotonic() > end:
            raise SystemExit(f"{what}: not within a minute")
        time.sleep(0.1)


def await_handoffs(app: laneshift.Application, query: Any) -> None:
    until("shards move", lambda: bool(app.query(query).handoffs()))


def await_ready(app: laneshift.Application, query: Any, take_over: Any) -> None:
    """Have new state partitions built, which no batch takes over."""
    getattr(take_over, "held_$eq")(True)
    until("a batch ends", lambda: query.lastProgress is not None)
    rescale = app.query(query).rescale(3)
    until("a rescale is ready", lambda: rescale.progress.state == "ready")


DECIDED = pb.Decision(time_ms=1, executor="driver", policy="static", notes=["a note"], applied=True)


def status(gateway: Gateway) -> pb.StatusReply:
    """What the tab tells programs: queries and decisions."""
    return gateway.ask("Status", pb.StatusRequest(decisions=10), pb.StatusReply)


def main(folder: Path) -> None:
    spark = session()
    app = laneshift.attach(spark)
    first = start(spark, folder, NAME)
    await_handoffs(app, first)
    gateway = app._gateway
    gateway.claim("autoscaler of the first", "static", "", 3600.0)
    gateway.decided(DECIDED)
    gateway.limit_source(str(first.id), 1000.0, 3600.0)
    before = status(gateway)
    laneshift_jvm = spark._jvm.org.apache.spark.sql.laneshift  # type: ignore[union-attr]
    await_ready(app, first, laneshift_jvm.rescale.TakeOver)
    spark.stop()
    left = laneshift_jvm.driver.DriverState.get().nonEmpty()

    spark = session()
    app = laneshift.attach(spark)
    gateway = app._gateway
    seen: dict[str, Any] = {
        "left": left,
        "before": [len(before.snapshot.queries), len(before.decisions)],
        "executors": [e.executor for e in app.snapshot().executors],
        "queries": [q.name for q in app.snapshot().queries],
        "decisions": list(status(gateway).decisions),
        "handoffs": len(app.handoffs()),
    }
    for what, call in {
        "old query": lambda: app.query(NAME).handoffs(),
        "claim": lambda: gateway.claim("autoscaler of the second", "static", "", 1.0),
    }.items():
        try:
            call()
            seen[what] = "ok"
        except laneshift.LaneshiftError as error:
            seen[what] = error.condition
    second = start(spark, folder, "of the second session")
    await_handoffs(app, second)
    seen["now"] = [q.name for q in app.snapshot().queries]
    second.stop()
    spark.stop()
    print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
