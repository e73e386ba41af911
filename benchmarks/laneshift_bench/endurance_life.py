"""One life of the endurance run: an application that works until it is killed or its time is over.

Two queries over :mod:`numbered`'s rows on executor processes of their own: *totals* in
micro-batches, which is rescaled, and *order* in Real-time Mode. Shards and lanes of both move all
the time, lanes go to other executors, executors are killed. What has happened is in a file of the
life's, what processes hold in one of the run's, and the first wrong answer in another one.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from laneshift import attach
from laneshift.errors import LaneshiftError
from laneshift_bench.holdings import held
from laneshift_bench.memory import HISTORIES
from laneshift_bench.numbered import (
    COLUMNS,
    KEY_SQL,
    MARK,
    WRONG,
    Batches,
    Order,
    Wrong,
    check_state,
    leave,
    replace,
)
from laneshift_bench.processes import executors
from laneshift_bench.query import BenchmarkError
from laneshift_bench.session import LOG4J, jvm_pid, session

EXECUTORS, CORES = 2, 6
HEAP = "700m"
BATCH, RATE = 2000, 200
"""Rows of a micro-batch, one a second; and rows/s of Real-time Mode."""
PARTITIONS = 2
REAL_TIME = "10 seconds"
GRACE_S = 240.0
"""How long after a kill a query may fail by it."""
START_S = 600.0
PLUGIN = {
    "lanes": "2", "maxLanes": "4", "shardsPerPartition": "16", "motion": "always",
    "motion.interval": "20ms", "motion.remoteLanes": "1",
}  # fmt: skip
FOUND_WRONG = 3
"""Exit code of a life that has met a wrong answer."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often things happen, in seconds.

    Attributes:
        life_s: of the driver, on average.
        executor_s: from one killed executor to the next, on average.
        rescale_s: from one rescale to the next.
        elsewhere_s: from one placing of lanes on other executors to the next.
        sample_s: from one look at all processes to the next.
        warm_s: of a process, before what it holds counts.
    """

    life_s: float
    executor_s: float
    rescale_s: float
    elsewhere_s: float
    sample_s: float
    warm_s: float

    @staticmethod
    def of(total_s: float) -> Pace:
        """A fifth of the whole for a life, an hour at most; all else in proportion."""

        def within(low: float, share: float, high: float) -> float:
            return min(max(low, share), high)

        life_s = within(75.0, total_s / 5, 3600.0)
        return Pace(
            life_s,
            within(35.0, life_s / 2.5, 1800.0),
            within(20.0, life_s / 8, 300.0),
            within(5.0, life_s / 40, 60.0),
            within(4.0, life_s / 60, 60.0),
            within(12.0, life_s / 4, 900.0),
        )


@dataclass
class Lived:
    """What has happened in a life so far, counts but for the times; kept in its file."""

    lived_s: float = 0.0
    executor_kills: int = 0
    restarts: int = 0
    rescales: dict[str, int] = field(default_factory=dict)
    placed: int = 0
    refused: int = 0
    moves: int = 0
    remote_rows: int = 0
    states: int = 0
    ended: bool = False


@contextmanager
def alone(file: Path) -> Iterator[None]:
    """Hold the lock ``file``; another process that holds it is waited for, five minutes at most."""
    with file.open("w") as lock:
        until = time.monotonic() + 300
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise BenchmarkError(f"Another process holds {file}.") from None
                time.sleep(0.2)
        yield


def numbered(rows: DataFrame) -> DataFrame:
    """Count, newest row and sum of each key."""
    return (
        rows.select(sf.expr(KEY_SQL).alias("key"), "seq")
        .groupBy("key")
        .agg(sf.count("*").alias("n"), sf.max("seq").alias("newest"), sf.sum("seq").alias("total"))
        .select(*COLUMNS)
    )


def committed_rows(checkpoint: Path) -> int | None:
    """Rows of the input until the end of the newest batch that has ended; None without one.

    Errors: BenchmarkError if the checkpoint is not as Spark 4.3 writes it.
    """
    done = [int(f.name) for f in (checkpoint / "commits").glob("[0-9]*") if f.name.isdigit()]
    if not done:
        return None
    file = checkpoint / "offsets" / str(max(done))
    found = re.findall(r'"next":\[(\d+)\]', file.read_text().replace(" ", ""))
    if len(found) != 1:
        raise BenchmarkError(f"{file} has {len(found)} ends of the one source partition.")
    return int(found[0])


@contextmanager
def _session(settings: dict[str, str]) -> Iterator[SparkSession]:
    java = f"-Xms{HEAP} -XX:+AlwaysPreTouch"
    with session(1, settings, memory=HEAP, java=java) as (spark, _):
        yield spark


class Life:
    """One application, from its start to its end."""

    def __init__(
        self, folder: Path, number: int, piece: int, seed: int, pace: Pace, before_s: float
    ) -> None:
        self.folder, self.number, self.pace, self.before_s = folder, number, pace, before_s
        self.order = folder / f"order-{piece}"
        self.order.mkdir(exist_ok=True)
        self.rng = random.Random(f"{seed} {number}")
        self.batches = Batches(folder / "totals.json", BATCH)
        self.lived = Lived()
        self.file = folder / "lives" / f"{number}.json"
        self.parent = os.getppid()
        self.killed_at = -GRACE_S
        self.begun = 0.0
        self.seen: dict[int, float] = {}
        self.moves: dict[str, int] = {}
        self.remote: dict[str, int] = {}
        self.rescaling = False

    def live(self, for_s: float) -> None:
        """Work for ``for_s`` (s). Errors: Wrong, BenchmarkError."""
        with alone(self.folder / "life.lock"), _session(self._settings()) as spark:
            self.spark, self.live_ = spark, attach(spark)
            self._check_states()
            self.queries = {name: start() for name, start in self._starts().items()}
            self._await_answers()
            self.begun = time.monotonic()
            turns = self._turns()
            while (now := time.monotonic()) - self.begun < for_s:
                self._look()
                for turn in turns:
                    turn.take(now)
                self._keep()
                time.sleep(0.5)
            for query in self.queries.values():
                query.stop()
            self._look(running=False)
            self._check_states()
            self.lived.ended = True
            self._keep()

    def _settings(self) -> dict[str, str]:
        os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
        log4j = self.folder / "executors.properties"
        log4j.write_text(LOG4J.format(file=self.folder / "executors.log"))
        memory = f"-Xms{HEAP} -XX:+AlwaysPreTouch"
        prefix = "spark.sql.laneshift."
        return HISTORIES | {
            "spark.master": f"local-cluster[{EXECUTORS},{CORES},1024]",
            "spark.executor.memory": HEAP,
            "spark.executor.extraJavaOptions": f"{memory} -Dlog4j2.configurationFile=file:{log4j}",
            "spark.deploy.maxExecutorRetries": "-1",
            "spark.task.maxFailures": "1000",
            "spark.stage.maxConsecutiveAttempts": "1000",
            "spark.sql.shuffle.partitions": str(PARTITIONS),
            f"{prefix}motion.seed": str(self.rng.randrange(10**6)),
            **{prefix + key: value for key, value in PLUGIN.items()},
        }

    # ---- the queries

    def _starts(self) -> dict[str, Callable[[], StreamingQuery]]:
        return {"totals": self._start_totals, "order": self._start_order}

    def _rows(self, **options: object) -> DataFrame:
        reader = self.spark.readStream.format("laneshift-workload")
        for name, value in ({"keys": 1, "rowBytes": 0, "numPartitions": 1} | options).items():
            reader = reader.option(name, str(value))
        return numbered(reader.load())

    def _start_totals(self) -> StreamingQuery:
        def check(batch: DataFrame, number: int) -> None:
            try:
                self.batches.check(number, [tuple(row) for row in batch.collect()])
            except Wrong as wrong:
                leave(self.folder / WRONG, str(wrong).removeprefix(f"{MARK} "))
                raise

        rows = self._rows(pacing="none", rowsPerBatch=BATCH)
        written = rows.writeStream.foreachBatch(check).outputMode("update").queryName("totals")
        written = written.option("checkpointLocation", str(self.folder / "totals"))
        return written.trigger(processingTime="1 second").start()

    def _start_order(self) -> StreamingQuery:
        rows = self._rows(rowsPerSecond=RATE)
        written = rows.writeStream.foreach(Order(str(self.order))).outputMode("update")
        written = written.queryName("order")
        written = written.option("checkpointLocation", str(self.order / "checkpoint"))
        return written.trigger(realTime=REAL_TIME).start()  # type: ignore[call-overload,no-any-return]

    def _await_answers(self) -> None:
        until = time.monotonic() + START_S
        while not all(query.lastProgress for query in self.queries.values()):
            self._look()
            if time.monotonic() > until:
                raise BenchmarkError(f"A query has ended no batch within {START_S:g} s.")
            time.sleep(0.5)

    def _look(self, running: bool = True) -> None:
        """Errors: Wrong if there is a wrong answer, BenchmarkError if a query fails by itself."""
        for file in (self.folder / WRONG, self.order / WRONG):
            if file.exists():
                raise Wrong(file.read_text().strip().removeprefix(f"{MARK} "))
        if os.getppid() != self.parent:
            # Whoever goes on with this run must not meet its forerunner.
            os.killpg(0, signal.SIGKILL)
        for name, query in self.queries.items() if running else ():
            if query.isActive:
                continue
            why = str(query.exception())
            if MARK in why:
                raise Wrong(why[why.index(MARK) + len(MARK) :].strip().splitlines()[0])
            if time.monotonic() - self.killed_at > GRACE_S:
                raise BenchmarkError(
                    f"Query {name} has ended; nothing was killed for {GRACE_S:g} s: {why[:2000]}"
                )
            time.sleep(2)
            self.lived.restarts += 1
            self.queries[name] = self._starts()[name]()

    def _check_states(self) -> None:
        """What the checkpoints hold, after whatever has happened, is what the input gives."""
        for name, checkpoint in (
            ("totals", self.folder / "totals"), ("order", self.order / "checkpoint"),
        ):  # fmt: skip
            rows = committed_rows(checkpoint)
            if rows is None:
                continue
            state = self.spark.read.format("statestore").load(str(checkpoint))
            found = [(row["key"][0], *row["value"]) for row in state.collect()]
            try:
                check_state(found, rows, f"the state of {name} after {rows:,} rows")
            except Wrong as wrong:
                leave(self.folder / WRONG, str(wrong).removeprefix(f"{MARK} "))
                raise
            self.lived.states += 1

    # ---- what happens to them

    def _turns(self) -> list[Turn]:
        pace, rng = self.pace, self.rng
        return [
            Turn(lambda: pace.sample_s, self._sample),
            Turn(lambda: pace.elsewhere_s * rng.uniform(0.5, 1.5), self._place),
            Turn(lambda: pace.rescale_s * rng.uniform(0.5, 1.5), self._rescale),
            Turn(lambda: pace.executor_s * rng.uniform(0.5, 1.5), self._kill),
        ]

    def _sample(self) -> None:
        processes = {os.getpid(): "python", jvm_pid(self.spark): "driver"}
        for pid in executors(str(self.spark.sparkContext.applicationId)).values():
            processes[pid] = "executor"
        for pid, role in processes.items():
            now = time.monotonic()
            age_s = now - self.seen.setdefault(pid, now)
            if (found := held(pid, java=role != "python")) is not None:
                reading = {
                    "life": self.number, "role": role, "pid": pid, "age_s": round(age_s, 1),
                    "at_s": round(self.before_s + now - self.begun, 1), **asdict(found),
                }  # fmt: skip
                with (self.folder / "samples.jsonl").open("a") as out:
                    out.write(json.dumps(reading) + "\n")
        snapshot = self.live_.snapshot()
        for query in snapshot.queries:
            self.moves[query.run_id] = max(
                self.moves.get(query.run_id, 0), sum(o.handoffs for o in query.operators)
            )
        for each in snapshot.executors:
            self.remote[each.executor] = max(self.remote.get(each.executor, 0), each.remote_rows)
        self.lived.moves = sum(self.moves.values())
        self.lived.remote_rows = sum(self.remote.values())
        self._tell_rescale()

    def _place(self) -> None:
        """Lanes of a partition on another executor, or home again."""
        try:
            snapshot = self.live_.snapshot()
            found = [
                (query.id, operator.operator_id, partition)
                for query in snapshot.queries if query.active
                for operator in query.operators if not operator.is_dealt
                for partition in operator.partitions
            ]  # fmt: skip
            if not found:
                return
            query_id, operator_id, partition = self.rng.choice(found)
            others = [e.executor for e in snapshot.executors if e.executor != partition.executor]
            on = {self.rng.choice(others): 1} if others and self.rng.random() < 0.7 else None
            lanes = self.rng.randint(1, partition.max_lanes)
            self.live_.query(query_id).set_lanes(
                lanes, partition=partition.partition, operator=operator_id, on=on
            )
            self.lived.placed += on is not None
        except LaneshiftError:  # the query or the executor has ended meanwhile
            self.lived.refused += 1

    def _rescale(self) -> None:
        """Another number of state partitions for *totals*."""
        self._tell_rescale()
        if self.rescaling:
            return
        try:
            to = self.rng.choice([n for n in (1, 2, 3, 4, 6) if n != self._partitions()])
            self.live_.query(self.queries["totals"]).rescale(to)
            self.rescaling = True
            self._count("asked for")
        except LaneshiftError:
            self.lived.refused += 1

    def _partitions(self) -> int:
        mine = [q for q in self.live_.snapshot().queries if q.name == "totals"]
        return max((o.partition_count for q in mine for o in q.operators), default=PARTITIONS)

    def _tell_rescale(self) -> None:
        if not self.rescaling:
            return
        try:
            newest = self.live_.query(self.queries["totals"]).rescaling
            now = None if newest is None else newest.progress
        except LaneshiftError:  # the query has ended
            now = None
        if now is None:  # started again: its rescale is gone with its run
            self.rescaling = False
            self._count("ended with its query")
            return
        if now.ended:
            self.rescaling = False
            self._count(now.state)
            if now.failure:
                print(f"rescale {now.before} -> {now.after} failed: {now.failure}", flush=True)

    def _count(self, state: str) -> None:
        self.lived.rescales[state] = self.lived.rescales.get(state, 0) + 1

    def _kill(self) -> None:
        """An executor, if all are there."""
        found = executors(str(self.spark.sparkContext.applicationId))
        if len(found) >= EXECUTORS:
            os.kill(self.rng.choice(sorted(found.values())), signal.SIGKILL)
            self.killed_at = time.monotonic()
            self.lived.executor_kills += 1

    def _keep(self) -> None:
        self.lived.lived_s = round(time.monotonic() - self.begun, 1)
        replace(self.file, asdict(self.lived))


class Turn:
    """Something that is done again and again, the first time after one interval."""

    def __init__(self, interval_s: Callable[[], float], do: Callable[[], None]) -> None:
        self.interval_s, self.do = interval_s, do
        self.due = time.monotonic() + interval_s()

    def take(self, now: float) -> None:
        """Do it if it is due."""
        if now >= self.due:
            self.do()
            self.due = time.monotonic() + self.interval_s()


def child(given: str) -> int:
    """The body of a life's process; ``given`` is JSON. Returns the exit code."""
    about: dict[str, Any] = json.loads(given)
    pace = Pace(**about["pace"])
    life = Life(
        Path(about["folder"]), about["life"], about["piece"], about["seed"], pace,
        about["before_s"],
    )  # fmt: skip
    try:
        life.live(about["for_s"])
    except Wrong as wrong:
        print(wrong, file=sys.stderr, flush=True)
        return FOUND_WRONG
    except BenchmarkError as error:
        print(error, file=sys.stderr, flush=True)
        return 1
    return 0
