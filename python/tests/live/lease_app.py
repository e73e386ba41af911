"""Lanes with leases on executors of three cores, for test_live_leases.py; prints JSON.

A micro-batch query has lanes on another executor, each with a lease. Beside it come another job,
the loss of that executor, a Real-time query, and a query that needs every slot that there is.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import laneshift
from live.cluster_app import answer

EXECUTORS, CORES = 3, 3
BATCH, COST_US = 2_000, 300
# Of an answer of the first query: Spark may compute its partition elsewhere after each batch, so
# they are to be fewer.
HOT_COST_US = 20_000
# What tasks have had is left free for two minutes.
FREE_AGAIN_S = 200
PIECES, PIECE_S = 30, 0.3


def session() -> SparkSession:
    made = (
        SparkSession.builder.master(f"local-cluster[{EXECUTORS},{CORES},1024]")
        .config("spark.ui.port", "0")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "OFF")
        .config("spark.executor.memory", "1g")
        .config("spark.deploy.maxExecutorRetries", "-1")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.laneshift.remote.leases", "true")
        .config("spark.sql.streaming.stateStore.checkpointFormatVersion", "2")
        .config("spark.sql.streaming.realTimeMode.allowlistCheck", "false")
        .config("spark.sql.streaming.realTimeMode.minBatchDuration", "1s")
    )
    return laneshift.configure(made, lanes=1, max_lanes=4, shards_per_partition=16).getOrCreate()


def rows(reader: Any, total: int, **options: object) -> DataFrame:
    found: DataFrame = (
        reader.format("laneshift-workload")
        .options(keys=300, zipf=0.2, rowBytes=8, totalRows=total, **options)
        .load()
    )
    return found


def until(what: str, condition: Callable[[], Any], seconds: float = 120) -> Any:
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise SystemExit(f"{what}: it did not happen in time")
        time.sleep(0.1)
    print(f"{time.time():.0f} {what}: {found}", file=sys.stderr, flush=True)
    return found


def executor_pids(spark: SparkSession) -> dict[str, int]:
    """Processes of the executors, by their ids."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if spark.sparkContext.applicationId in words and "--executor-id" in words:
            found[words[words.index("--executor-id") + 1]] = int(process.name)
    return found


def piece(_: int) -> tuple[int, float, float]:
    """A piece of another job's work: the executor's process, and when it began and ended."""
    began = time.time()
    time.sleep(PIECE_S)
    # This is a worker of the daemon that the executor has started.
    stat = Path(f"/proc/{os.getppid()}/stat").read_text()
    return int(stat.rsplit(")", 1)[1].split()[1]), began, time.time()


def most_at_once(pieces: list[tuple[int, float, float]], pid: int) -> int:
    mine = [(begin, end) for at, begin, end in pieces if at == pid]
    return max((sum(b <= begin < e for b, e in mine) for begin, _ in mine), default=0)


def main(folder: Path) -> None:
    spark = session()
    live = laneshift.attach(spark)
    seen: dict[str, Any] = {}

    def executors() -> dict[str, laneshift.ExecutorSnapshot]:
        return {e.executor: e for e in live.snapshot().executors}

    def started(
        name: str, stream: DataFrame, cost_us: int = COST_US, real_time: bool = False
    ) -> StreamingQuery:
        paid = f"laneshift_cost(n, {cost_us}, 'wait') AS n"
        written = (
            answer(stream).selectExpr("key", paid, "total", "last")
            .writeStream.format("laneshift-measure").option("name", name)
            .option("folder", str(folder / f"{name}-slots"))
            .outputMode("update").queryName(name)
            .option("checkpointLocation", str(folder / name))
        )  # fmt: skip
        if real_time:
            written = written.trigger(realTime="60 seconds")  # type: ignore[call-overload]
        return written.start()

    def part(query: StreamingQuery) -> laneshift.PartitionSnapshot | None:
        if query.exception() is not None:
            raise SystemExit(str(query.exception()))
        found = [q for q in live.snapshot().queries if q.id == str(query.id) and q.operators]
        return found[0].operators[0].partitions[0] if found else None

    def leases() -> dict[str, int]:
        return {name: e.leases for name, e in executors().items() if e.leases}

    def asked(lanes: int, query: StreamingQuery) -> str:
        """The executor that is to have so many lanes: not one that has just become the home."""
        while True:
            host = other(query)
            try:
                live.query(query).set_lanes(1, partition=0, on={host: lanes})
                return host
            except laneshift.LaneshiftError as error:
                if error.condition != "LANESHIFT_EXECUTOR_IS_HOME":
                    raise

    def leased(lanes: int, query: StreamingQuery) -> str:
        """So many lanes work on another executor, each with a lease: its id.

        Spark may compute the partition elsewhere by the next batch, on that executor, too.
        """
        end = time.monotonic() + FREE_AGAIN_S
        while time.monotonic() < end:
            host = asked(lanes, query)
            soon = time.monotonic() + 15
            while time.monotonic() < soon:
                there = now.elsewhere if (now := part(query)) else ()
                work = sum(r.executor == host and r.open and r.rows_sent > 50 for r in there)
                if work == lanes and leases() == {host: lanes}:
                    print(f"{time.time():.0f} {lanes} lanes on {host}", file=sys.stderr, flush=True)
                    return host
                time.sleep(0.1)
        raise SystemExit(f"{lanes} lanes with leases: not in time; {part(query)}, {leases()}")

    def other(query: StreamingQuery) -> str:
        now = part(query)
        assert now is not None
        return max(set(executors()) - {now.executor}, key=int)

    def others_at_once(executor: str) -> int:
        pids = executor_pids(spark)
        numbers = spark.sparkContext.parallelize(range(PIECES), PIECES)
        return most_at_once(numbers.map(piece).collect(), pids[executor])

    until("executors", lambda: len(executors()) == EXECUTORS)
    total = 1_000_000_000
    stream = rows(spark.readStream, total, rowsPerBatch=BATCH, pacing="none")
    hot = started("hot", stream, cost_us=HOT_COST_US)
    until("rows", lambda: (now := part(hot)) is not None and now.rows_out > 100)
    seen["without"] = others_at_once(other(hot))
    host = leased(2, hot)
    seen["with"] = others_at_once(host)
    jobs = spark.sparkContext.statusTracker()
    seen["jobs"] = len(jobs.getJobIdsForGroup("laneshift-leases"))

    os.kill(executor_pids(spark)[host], signal.SIGKILL)
    until("the executor is gone", lambda: host not in executors())
    until("its leases are gone", lambda: not leases())
    until("executors", lambda: len(executors()) == EXECUTORS)

    spark.conf.set("spark.sql.shuffle.partitions", "2")
    every = rows(
        spark.readStream, total, rowsPerBatch=BATCH, pacing="none", numPartitions=EXECUTORS * CORES
    )

    def note() -> str | None:
        return now.elsewhere_note if (now := part(hot)) else None

    while True:
        leased(2, hot)
        wide = started("wide", every)
        seen["note"] = until("a note", note)
        if "has the partition now" not in seen["note"]:
            break
        # The next batch was computed where the lanes were: they have not given way, once more.
        wide.stop()
    until("it has every slot", lambda: not leases())
    done = (hot.lastProgress or {"batchId": 0})["batchId"]
    until("batches", lambda: (p := wide.lastProgress) and p["batchId"] >= 2)
    until("the first query's, too", lambda: (p := hot.lastProgress) and p["batchId"] > done + 1)
    wide.stop()

    leased(1, hot)
    spark.conf.set("spark.sql.shuffle.partitions", "5")
    source = {"rowsPerSecond": 200, "numPartitions": 1}
    quick = started("quick", rows(spark.readStream, total, **source), real_time=True)
    until("Real-time rows", lambda: (now := part(quick)) is not None and now.rows_out > 20)
    seen["beside"] = leases()
    for name, query in (("in_real_time", quick), ("beside_real_time", hot)):
        try:
            asked(1, query)
            seen[name] = "taken"
        except laneshift.LaneshiftError as error:
            seen[name] = error.condition
    quick.stop()

    leased(1, hot)
    hot.stop()
    until("no lease's job", lambda: not jobs.getActiveJobsIds())
    seen["after"] = leases()

    spark.conf.set("spark.sql.laneshift.enabled", "false")
    state = spark.read.format("statestore").load(str(folder / "hot"))
    kept = {row["key"][0]: tuple(row["value"]) for row in state.collect()}
    seen["rows"] = sum(values[0] for values in kept.values())
    batch = rows(spark.read, seen["rows"])
    stock = {row["key"]: tuple(row)[1:] for row in answer(batch).collect()}
    seen["keys"], seen["identical"] = len(stock), kept == stock
    spark.stop()
    print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    main(Path(sys.argv[1]))
