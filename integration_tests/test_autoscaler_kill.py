"""kill -9 of the autoscaler while lanes come and go: the query does not notice.

``LANESHIFT_KILLS`` sets the number of kills (default 3; `make deep ROOMS=kills KILLS=50`).
The seed is printed and can be set with ``LANESHIFT_SEED``.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import laneshift
from laneshift_lab.workload import with_workload
from live.conftest import to_lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from laneshift_demo.scene import MeasureTail

KILLS = int(os.environ.get("LANESHIFT_KILLS", "3"))
SEED = int(os.environ["LANESHIFT_SEED"])
STAGES = "200:3s,2500:3s"
LIMIT_S = 120


@pytest.fixture
def spark() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master("local[6]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.streaming.realTimeMode.allowlistCheck", "false")
        .config("spark.sql.streaming.realTimeMode.minBatchDuration", "1s")
        .config("spark.sql.streaming.stateStore.checkpointFormatVersion", "2")
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
    )
    made = with_workload(laneshift.configure(builder, lanes=1, max_lanes=4)).getOrCreate()
    yield made
    made.stop()


def start(spark: SparkSession, folder: Path) -> tuple[StreamingQuery, MeasureTail]:
    """Running counts by key whose answers cost a millisecond each, in bursts."""
    from pyspark.sql import functions as F  # noqa: N812

    rows = (
        spark.readStream.format("laneshift-workload")
        .options(keys=300, rowBytes=0, zipf=0.3, rate="stage", rateStages=STAGES)
        .load()
    )
    answers = rows.groupBy("key").agg(F.count("*").alias("n"))
    slow = answers.withColumn("n", F.expr("laneshift_cost(n, 1000, 'wait')"))
    return to_lines(slow, folder, "5 seconds")


def until(
    query: StreamingQuery, reached: Callable[[], bool], said: Callable[[], str] = str
) -> None:
    """Wait for something while the query runs; ``said()`` is told if it does not come."""
    end = time.monotonic() + LIMIT_S
    while not reached():
        assert query.isActive, query.exception()
        assert time.monotonic() < end, f"not within {LIMIT_S} s: {said()}"
        time.sleep(0.05)


def rows_committed(checkpoint: Path) -> int:
    """Rows that the source had given at the last committed batch."""
    ended = [int(file.name) for file in (checkpoint / "commits").iterdir() if file.name.isdigit()]
    if not ended:
        return 0
    offset = (checkpoint / "offsets" / str(max(ended))).read_text().splitlines()[-1]
    return sum(json.loads(offset)["next"])


class Autoscaler:
    """An autoscaler in a process of its own, as ``spark.sql.laneshift.autoscaler`` starts it."""

    def __init__(self, spark: SparkSession, log: Path) -> None:
        gateway = spark.sparkContext._gateway
        assert gateway is not None
        reached = gateway.gateway_parameters
        about = {
            "policy": "laneshift",  # it gives lanes back, too
            "target_latency_ms": None,
            "interval_s": 0.5,
            "port": reached.port,
            "token": reached.auth_token,
        }
        self._log = log
        with log.open("w") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "laneshift.control.process"],
                env={**os.environ, "LANESHIFT_CONTROL": json.dumps(about)},
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def until(self, word: str, query: StreamingQuery) -> None:
        """Wait until the autoscaler has said ``word``."""
        said = self._log.read_text
        until(query, lambda: word in said() or self._process.poll() is not None, said)
        assert word in said(), said()

    def kill(self) -> str:
        """kill -9; what it had said."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._log.read_text()


@pytest.mark.deep("kills")
@pytest.mark.timeout(3600)
def test_killed_autoscalers_leave_the_query_exact(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(SEED)
    query, tail = start(spark, tmp_path)
    said = []
    app = laneshift.attach(spark)
    try:
        until(query, lambda: any(q.operators for q in app.snapshot().queries))
        for number in range(KILLS):
            # Too few for the higher stage, or too many: there is something to change.
            app.query(query).set_lanes(rng.choice((1, 4)))
            autoscaler = Autoscaler(spark, tmp_path / f"autoscaler{number}")
            autoscaler.until("decides every", query)
            time.sleep(rng.uniform(0.0, 4.0))
            said.append(autoscaler.kill())
            assert query.isActive, query.exception()
        app.query(query).set_lanes(1)
        last = Autoscaler(spark, tmp_path / "last")
        last.until(" lanes: ", query)
        said.append(last.kill())
        before = rows_committed(tmp_path / "checkpoint")
        until(query, lambda: rows_committed(tmp_path / "checkpoint") > before)
        moved = len(app.query(query).handoffs(limit=100_000))
    finally:
        query.stop()
    assert query.exception() is None
    committed = rows_committed(tmp_path / "checkpoint")
    tail.poll()
    assert tail.updates.rows >= committed
    state = spark.read.format("statestore").load(str(tmp_path / "checkpoint"))
    counted = sum(row[0] for row in state.select("value.count").collect())
    changes = sum(" lanes: " in line for text in said for line in text.splitlines())
    print(f"seed {SEED}: {KILLS} killed, {changes} changes, {moved} moves, {committed} rows")
    steps = set(tail.updates.new_rows)
    assert steps == {1}, f"an answer of a key is not the one before and one: steps {steps}"
    assert counted == committed > 0
    assert moved > 0
