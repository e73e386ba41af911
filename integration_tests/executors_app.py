"""An application that loses executors, run by test_executor_kill.py; prints what it saw as JSON.

Skewed micro-batches whose lanes an autoscaler sets and whose shards move all the time. Executors
are killed one after the other, each once its forerunner's successor has come.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import pyspark
from pyspark.sql import DataFrame

import laneshift
from live.cluster_app import EXECUTORS, answer, builder, pids, rows

BATCH = 3_000
LIMIT_S = 120


class Newest:
    """The newest answer of each key; a count that falls is wrong."""

    def __init__(self) -> None:
        self.answers: dict[int, tuple[int, ...]] = {}
        self.wrong: list[str] = []

    def __call__(self, batch: DataFrame, number: int) -> None:
        for row in batch.collect():
            values = tuple(row)[1:]
            before = self.answers.get(row["key"], (0,))
            if values[0] <= before[0]:
                self.wrong.append(f"batch {number}: key {row['key']} has {values} after {before}")
            self.answers[row["key"]] = values


def main(folder: Path, kills: int, seed: int) -> None:
    rng = random.Random(seed)
    total = BATCH * (40 + 12 * kills)
    spark = (
        builder()
        .config("spark.log.level", "OFF")
        .config("spark.deploy.maxExecutorRetries", "-1")
        .getOrCreate()
    )
    app = laneshift.attach(spark)
    newest = Newest()
    source = spark.readStream.options(rowsPerBatch=BATCH, pacing="none")
    query = (
        answer(rows(source, total))
        .writeStream.foreachBatch(newest)
        .outputMode("update")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime="1 second")
        .start()
    )

    def read() -> int:
        return 0 if not query.lastProgress else (query.lastProgress["batchId"] + 1) * BATCH

    killed = moved = 0
    with app.autoscale(policy="elasticutor", interval=0.5) as autoscaler:
        while query.isActive and read() < total:
            executors = app.snapshot().executors
            if killed < kills and len(executors) == EXECUTORS and read() > 0:
                time.sleep(rng.uniform(0.0, 3.0))
                victims = pids("CoarseGrainedExecutorBackend", spark.sparkContext.applicationId)
                os.kill(rng.choice(sorted(victims)), signal.SIGKILL)
                killed += 1
                gone = {e.executor for e in executors}
                end = time.monotonic() + LIMIT_S
                while {e.executor for e in app.snapshot().executors} == gone:
                    if time.monotonic() > end:
                        raise SystemExit(f"nobody noticed kill {killed}")
                    time.sleep(0.1)
            moved = max(moved, len(app.query(query).handoffs(limit=100_000)))
            time.sleep(0.2)
        errors = sorted({d.error for d in autoscaler.decisions() if d.error})
    if query.exception() is not None:
        raise SystemExit(str(query.exception()))
    query.processAllAvailable()
    query.stop()
    spark.conf.set("spark.sql.laneshift.enabled", "false")
    stock = {row["key"]: tuple(row)[1:] for row in answer(rows(spark.read, total)).collect()}
    seen = {
        "killed": killed,
        "moved": moved,
        "rows": total,
        "wrong": newest.wrong[:5],
        "identical": newest.answers == stock,
        "errors": errors,
    }
    spark.stop()
    print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
