"""Executors that join, are killed, and are decommissioned under a query: cases of `remote`."""

from __future__ import annotations

import math
import os
import signal
import time
from typing import Any

from pyspark.sql import SparkSession

from laneshift_bench import processes
from laneshift_bench.remote_case import (
    CORES,
    COST_US,
    EXECUTORS,
    HALF,
    Bench,
    Case,
    costly,
    side,
    source,
)
from laneshift_bench.there import Spread, cluster, spread_query, until

CALM_S, AFTER_S = 3.0, 6.0
EACH = 2
"""Cores of an executor that the policy of *join* may use."""
HOSTS = (4, 3)
MANY = 50
"""Rows that a lane has been sent when it counts as one that works."""
METHOD = f"""\
*kill*: one lane at home and {HOSTS[0]} + {HOSTS[1]} elsewhere at {HALF:,} rows/s, half of what they
take; one of the two processes is killed with SIGKILL. The age of the oldest row that comes in the
{AFTER_S:g} s after it is how long its shards had no answer, at most; before it, in {CALM_S:g} s.
*decommission*: the same with Spark's own decommissioning, from the call until the partition has no
lane there. *join*: the policy `laneshift` may use {EACH} cores of each executor, of which there
are two; {EACH * EXECUTORS * 1000 - 500:,} rows/s are offered, more than they take; a third one is
asked for while the batch runs. From its registration until a lane there has been sent {MANY}
rows."""


def kill(bench: Bench) -> None:
    """An executor with lanes dies."""
    calm: list[float] = []
    after: list[float] = []
    with (
        cluster(EXECUTORS, CORES) as (spark, work),
        spread_query(spark, work, side(), source(rowsPerSecond=HALF), costly()) as query,
    ):
        for turn in range(4 * bench.rounds):
            _await_executors(spark, query, EXECUTORS)
            query.split(1, HOSTS)
            bench.progress.step(f"kill {turn + 1}")
            time.sleep(CALM_S)
            query.meter.lap()
            time.sleep(CALM_S)
            calm.append(query.meter.lap()[1].max_ms)
            victim = query.others()[0]
            os.kill(
                processes.executors(str(spark.sparkContext.applicationId))[victim], signal.SIGKILL
            )
            time.sleep(AFTER_S)
            after.append(query.meter.lap()[1].max_ms)
            bench.progress.note(f"oldest row {calm[-1]:.0f} ms before, {after[-1]:.0f} ms after")
        query.part()
    name = "1 at home, 4 + 3 elsewhere"
    bench.add("kill", name, "oldest row before, ms", calm)
    bench.add("kill", name, "oldest row after, ms", after)
    worst = max(after, default=math.nan)
    bench.goal("host killed: oldest row of all kills, ms", [worst], "<=", 1000.0)


def decommission(bench: Bench) -> None:
    """Spark decommissions an executor with lanes."""
    took: list[float] = []
    settings = {"spark.decommission.enabled": "true"}
    with (
        cluster(EXECUTORS, CORES, settings) as (spark, work),
        spread_query(spark, work, side(), source(rowsPerSecond=HALF), costly()) as query,
    ):
        for turn in range(2 * bench.rounds):
            _await_executors(spark, query, EXECUTORS)
            query.split(1, HOSTS)
            bench.progress.step(f"decommission {turn + 1}")
            time.sleep(CALM_S)
            goes = query.others()[0]
            begun = time.monotonic()
            _decommission(spark, goes)
            until("lanes have left", lambda: _has_left(query, goes))  # noqa: B023
            took.append(time.monotonic() - begun)
            bench.progress.note(f"{took[-1]:.2f} s")
            until("the executor is gone", lambda: goes not in query.others() or None)  # noqa: B023
            _ask_for(spark, EXECUTORS)
    bench.add("decommission", "1 at home, 4 + 3 elsewhere", "until its lanes have left, s", took)
    bench.goal("decommissioned: lanes have left, s", [max(took)], "<=", 1.0)


def join(bench: Bench) -> None:
    """An executor registers while a Real-time batch runs, and cores are short."""
    took: list[float] = []
    offered = source(rowsPerSecond=EACH * EXECUTORS * 1000 - 500)
    with (
        cluster(EXECUTORS, CORES) as (spark, work),
        spread_query(spark, work, side(), offered, costly(COST_US)) as query,
    ):
        autoscaler = query.app.query(query.query).autoscale(
            policy="laneshift", interval=0.5, cores=EACH
        )
        for turn in range(2 * bench.rounds):
            bench.progress.step(f"join {turn + 1}")
            _context(spark).killExecutor(query.others()[-1])
            known = until("an executor less", lambda: _ids(query, EXECUTORS - 1))
            others = known - {query.part().executor}
            until("lanes on the other one", lambda: _works(query, others))  # noqa: B023
            _ask_for(spark, EXECUTORS)
            there = until("an executor more", lambda: _ids(query, EXECUTORS))
            begun = time.monotonic()
            until("lanes on it", lambda: _works(query, there - known))  # noqa: B023
            took.append(time.monotonic() - begun)
            bench.progress.note(f"{took[-1]:.2f} s")
        autoscaler.stop()
    bench.add("join", "policy laneshift", "from registration until a lane works there, s", took)
    bench.goal("executor joins: its cores work, s", [max(took)], "<=", 2.0)


def _context(spark: SparkSession) -> Any:
    java: Any = spark.sparkContext._jsc
    return java.sc()


def _ask_for(spark: SparkSession, executors: int) -> None:
    jvm: Any = spark._jvm
    nowhere = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(jvm.java.util.HashMap())
    _context(spark).requestTotalExecutors(executors, 0, nowhere)


def _decommission(spark: SparkSession, executor: str) -> None:
    jvm: Any = spark._jvm
    nowhere = jvm.scala.Option.apply(None)
    why = jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo("benchmark", nowhere)
    _context(spark).schedulerBackend().decommissionExecutor(executor, why, True, False)


def _await_executors(spark: SparkSession, query: Spread, count: int) -> None:
    """As many processes that have registered and are alive."""

    def there() -> bool | None:
        ids = {e.executor for e in query.app.snapshot().executors if not e.leaving}
        return (
            len(ids) == count
            and ids <= processes.executors(str(spark.sparkContext.applicationId)).keys()
        ) or None

    until(f"{count} executors", there)


def _ids(query: Spread, count: int) -> frozenset[str] | None:
    ids = frozenset(e.executor for e in query.app.snapshot().executors)
    return ids if len(ids) == count else None


def _works(query: Spread, executors: frozenset[str]) -> bool | None:
    there = query.part().elsewhere
    return any(r.executor in executors and r.rows_sent > MANY for r in there) or None


def _has_left(query: Spread, executor: str) -> bool | None:
    return all(r.executor != executor for r in query.part().elsewhere) or None


CASES = (
    Case("kill", "an executor with lanes is killed", kill, 4),
    Case("decommission", "an executor with lanes is decommissioned", decommission, 2),
    Case("join", "an executor joins while cores are short", join, 2),
)
