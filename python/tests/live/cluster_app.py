"""An application on two executors, run by test_live_cluster.py; prints what it saw as JSON.

Skewed micro-batches under constant motion, an autoscaler that decides, commands to both executors;
then one executor is killed in the middle and the query goes on.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import laneshift
from laneshift_lab.workload import with_workload

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

ROWS, BATCH, PARTITIONS, EXECUTORS = 240_000, 8_000, 2, 2


def builder(**options: Any) -> SparkSession.Builder:
    """A session with two executors of three cores, and the plugin with these options."""
    made = (
        SparkSession.builder.master(f"local-cluster[{EXECUTORS},3,1024]")
        .config("spark.ui.port", "0")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.executor.memory", "1g")
        .config("spark.sql.shuffle.partitions", str(PARTITIONS))
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
    )
    return with_workload(
        laneshift.configure(
            made, lanes=1, max_lanes=3, shards_per_partition=16, motion="always", **options
        )
    )


def rows(reader: Any, total: int) -> DataFrame:
    found: DataFrame = (
        reader.format("laneshift-workload")
        .options(keys=300, zipf=0.9, rowBytes=8, totalRows=total)
        .load()
    )
    return found


def answer(source: DataFrame) -> DataFrame:
    return source.groupBy("key").agg(
        F.count("*").alias("n"), F.sum("value").alias("total"), F.max("seq").alias("last")
    )


def pids(*words: str) -> list[int]:
    """Processes with all these words in their command or environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            said = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            continue
        if all(word.encode() in said for word in words):
            found.append(int(process.name))
    return found


def autoscaler_pids(mark: str) -> list[int]:
    """The process that the configuration asks for: it has our environment."""
    return pids("-m\0laneshift.control.process", mark)


def page(spark: SparkSession) -> str:
    """The tab of Spark's UI, as text."""
    with urlopen(f"{spark.sparkContext.uiWebUrl}/laneshift/", timeout=60) as answer:
        html = answer.read().decode()
    text = re.sub(r"<(style|script).*?</\1>|<[^>]+>", " ", html, flags=re.DOTALL)
    return re.sub(r"\s+", " ", unescape(text))


def top(spark: SparkSession) -> str:
    """What `laneshift top` shows of this application."""
    command = [sys.executable, "-m", "laneshift.cli", "top", "--once"]
    done = subprocess.run(
        [*command, "--url", str(spark.sparkContext.uiWebUrl)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout + done.stderr


def started(stream: DataFrame, folder: Path) -> StreamingQuery:
    """The query over these rows, into the table ``answers``."""
    return (
        answer(stream)
        .writeStream.format("memory")
        .queryName("answers")
        .outputMode("update")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )


def until(condition: Callable[[], Any], seconds: float = 120) -> Any:
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise SystemExit("it did not happen in time")
        time.sleep(0.1)
    return found


def main(folder: Path) -> None:
    mark = f"LANESHIFT_TEST={folder}"
    os.environ["LANESHIFT_TEST"] = str(folder)
    spark = (
        builder(autoscaler="static", autoscaler_interval="200ms")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    app = laneshift.attach(spark)
    stream = rows(spark.readStream.options(rowsPerBatch=BATCH, pacing="none"), ROWS)
    query = started(stream, folder)
    seen: dict[str, Any] = {"executors": [], "cores": []}
    # Lanes have more to do here than a hundredth of their time: it has something to say.
    autoscaler = app.autoscale(
        policy="elasticutor", interval=0.5, dry_run=True, target_utilisation=0.01
    )
    killed = False
    (seen_process,) = until(lambda: autoscaler_pids(mark))
    os.kill(seen_process, signal.SIGKILL)
    while query.isActive:
        snapshot = app.snapshot()
        parts = [p for q in snapshot.queries for o in q.operators for p in o.partitions]
        seen["executors"] = sorted({*seen["executors"], *(p.executor for p in parts)})
        seen["cores"] = sorted({*seen["cores"], *(e.cores for e in snapshot.executors)})
        ready = len(parts) == PARTITIONS and max(p.batch_id for p in parts) >= 5
        if not killed and ready and autoscaler.decisions() and app.query(query).handoffs(limit=1):
            seen["applied"] = app.query(query).set_lanes(3).applied
            seen["before"] = sorted(e.executor for e in snapshot.executors)
            seen["page"] = page(spark)
            seen["top"] = top(spark)
            executors = pids("CoarseGrainedExecutorBackend", spark.sparkContext.applicationId)
            os.kill(executors[0], signal.SIGKILL)
            killed = True
        progress = query.lastProgress
        if progress and progress["batchId"] * BATCH >= ROWS:
            break
        time.sleep(0.1)
    if query.exception() is not None:
        raise SystemExit(str(query.exception()))
    query.processAllAvailable()
    handoffs = app.query(query).handoffs(limit=100_000)
    seen["handoffs"] = len(handoffs)
    seen["after"] = sorted(e.executor for e in app.snapshot().executors)
    (again,) = until(lambda: autoscaler_pids(mark))
    seen["autoscaler_again"] = again != seen_process
    seen["turns"] = autoscaler.turns
    seen["errors"] = [d.error for d in autoscaler.decisions() if d.error]
    autoscaler.stop()
    streamed: dict[str, tuple[int, ...]] = {}
    for row in spark.table("answers").collect():
        values = tuple(row)[1:]
        streamed[row["key"]] = max(streamed.get(row["key"], (0,)), values)
    query.stop()
    spark.conf.set("spark.sql.laneshift.enabled", "false")
    stock = {row["key"]: tuple(row)[1:] for row in answer(rows(spark.read, ROWS)).collect()}
    seen["keys"] = len(stock)
    seen["identical"] = streamed == stock
    spark.stop()
    until(lambda: not autoscaler_pids(mark))
    print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    main(Path(sys.argv[1]))
