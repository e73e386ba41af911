"""Ways of use as users write them, each on stock Spark and on laneshift under motion.

A case is a function of a `Side`: it runs queries there and gives what a user sees of them, which
must be equal on both sides. ``@case`` says in which `WORLDS` it runs, sessions with settings that
only a new application can have; ``gate=True`` runs it in the suite's session, too.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import cloudpickle

import laneshift

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

SIDES = ("stock", "elastic")
PREFIX = "spark.sql.laneshift."
OPTIONS = {
    "stock": {"enabled": "false"},
    "elastic": {
        "enabled": "true",
        "lanes": "3",
        "maxLanes": "5",
        "motion": os.environ.get("LANESHIFT_USAGE_MOTION", "always"),
        "motion.interval": "3ms",
        "motion.seed": os.environ.get("LANESHIFT_SEED", "1"),
    },
}
HANG = "hangs"
FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"

# Spark's Python workers cannot import the tests.
by_value = cloudpickle.register_pickle_by_value
by_value(sys.modules[__name__])


class HangError(Exception):
    """A query that does not end."""


@dataclass(frozen=True)
class Case:
    """`plain`: laneshift leaves its queries to Spark; `still`: no shard of them can move;
    `refused`: stock Spark refuses it, too."""

    name: str
    run: Callable[[Side], Any]
    worlds: tuple[str, ...]
    gate: bool = False
    plain: bool = False
    still: bool = False
    refused: bool = False

    @property
    def theme(self) -> str:
        return self.run.__module__.rpartition(".")[2]


CASES: dict[str, Case] = {}


def case(*worlds: str, **more: bool) -> Callable[[Callable[[Side], Any]], Callable[[Side], Any]]:
    def register(run: Callable[[Side], Any]) -> Callable[[Side], Any]:
        name = run.__name__
        assert name not in CASES, f"two cases are called {name}"
        CASES[name] = Case(name, run, worlds or ("usual",), **more)
        return run

    return register


@dataclass(frozen=True)
class Seen:
    """What became of a case on one side: its answer, and for each of its queries how many elastic
    regions were in its plan and how many shards moved; CPU time of all processes of the side."""

    answer: Any
    regions: list[int]
    moves: int
    cpu_s: float

    def line(self, name: str) -> str:
        return json.dumps({"case": name} | asdict(self), default=str)


@dataclass
class Side:
    """A session that is stock Spark's or laneshift's, with a folder for files."""

    name: str
    spark: SparkSession
    folder: Path
    regions: list[int] = field(default_factory=list)
    moves: int = 0

    @property
    def is_elastic(self) -> bool:
        return self.name == "elastic"

    # ---- files of a stream

    def put(self, folder: str, number: int, **columns: Any) -> str:
        """One file more of a stream: its source takes them by their time."""
        into = self.folder / folder
        into.mkdir(parents=True, exist_ok=True)
        hidden = self.folder / ".writing"
        pq.write_table(pa.table(columns), hidden)
        os.utime(hidden, (1_700_000_000 + 10 * number,) * 2)
        hidden.rename(into / f"{number:05d}.parquet")
        return str(into)

    def files(self, folder: str, schema: str) -> DataFrame:
        """One file a batch."""
        stream = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return stream.parquet(str(self.folder / folder))

    def rows(self, rows: int = 400, keys: int = 43, files: int = 3) -> DataFrame:
        """A stream in which some rows come again and some are late."""
        folder = f"in-{rows}-{keys}-{files}"
        if not (self.folder / folder).exists():
            for i in range(files):
                first = i * rows - (rows // 8 if i else 0)
                times = [1.7e9 + 15 * i + j / 30 - j * 13 % 4 for j in range(rows)]
                self.put(
                    folder, i,
                    id=list(range(first, first + rows)),
                    k=[j * j % keys for j in range(rows)],
                    kind=["ab"[j % 2] for j in range(rows)],
                    v=[j * 7919 % 1000 for j in range(rows)],
                    ts=at(times),
                )  # fmt: skip
        return self.files(folder, "id LONG, k LONG, kind STRING, v LONG, ts TIMESTAMP")

    def late(self, rows: int = 400, keys: int = 43, files: int = 3) -> DataFrame:
        return self.rows(rows, keys, files).withWatermark("ts", "5 seconds")

    # ---- queries

    def fresh(self, name: str) -> Path:
        """A folder that is nobody's yet."""
        of_name = self.folder / "fresh" / name
        of_name.mkdir(parents=True, exist_ok=True)
        made = of_name / str(len(list(of_name.iterdir())))
        made.mkdir()
        return made

    def collect(
        self,
        answers: DataFrame,
        mode: str,
        sink: Callable[[DataFrame, int], None] | None = None,
        checkpoint: Path | None = None,
    ) -> list[Any]:
        """Runs a query to its end: the rows of each batch, or none if a sink keeps them."""
        got: list[Any] = []

        def keep(batch: DataFrame, number: int) -> None:
            got.extend((number, *row) for row in batch.collect())

        self.end(answers.writeStream.outputMode(mode).foreachBatch(sink or keep), checkpoint)
        return in_order(got)

    def end(self, writer: DataStreamWriter, checkpoint: Path | None = None) -> StreamingQuery:
        """Starts what is to be written and waits for its end."""
        at = checkpoint or self.fresh("checkpoint")
        query = writer.option("checkpointLocation", str(at)).trigger(availableNow=True).start()
        try:
            if not query.awaitTermination(300):
                query.stop()
                raise HangError
        finally:
            self.look(query)
        return query

    def until(self, query: StreamingQuery, condition: Callable[[], Any]) -> None:
        """Lets a query run that has no end, and stops it."""
        try:
            if not comes(lambda: not query.isActive or condition()):
                raise HangError
            if error := query.exception():
                raise error
        finally:
            query.stop()
            self.look(query)

    def look(self, query: StreamingQuery) -> None:
        """Was it elastic at all, and did shards move?"""
        if self.is_elastic:
            self.regions.append(query._jsq.explainInternal(False).count("Elastic ["))
            self.moves += len(
                laneshift.attach(self.spark).query(str(query.id)).handoffs(limit=100_000)
            )


def comes(condition: Callable[[], Any], looks: int = 600) -> bool:
    """Whether something comes to be, looked at ten times a second."""
    return any(condition() or threading.Event().wait(0.1) for _ in range(looks))


def at(seconds: list[float]) -> pa.Array:
    """A column of times, in UTC."""
    return pa.array([int(s * 1e6) for s in seconds], pa.timestamp("us", tz="UTC"))


def in_order(rows: Any) -> list[Any]:
    """Across lanes and partitions rows have no order."""
    return sorted(([*row] for row in rows), key=str)


def digest(value: Any) -> str:
    """Of what is too large to be shown."""
    return hashlib.md5(str(value).encode(), usedforsecurity=False).hexdigest()


def problem(error: BaseException) -> str:
    """What a user can tell an error by: its conditions."""
    found = set(re.findall(r"\[([A-Z][A-Z0-9_.]{5,})\]", str(error))) - {"STREAM_FAILED"}
    return "fails: " + ("+".join(sorted(found)[:3]) or type(error).__name__)


def see(case: Case, side: Side, cpu_s: Callable[[], float] = lambda: 0.0) -> Seen:
    before = cpu_s()
    try:
        answer = case.run(side)
    except HangError:
        answer = HANG
    except Exception as error:
        answer = problem(error)
        print(f"{side.name}: {case.name}: {str(error)[:6000]}", file=sys.stderr)
    # As it is after a way through a pipe.
    answer = json.loads(json.dumps(answer, default=str))
    return Seen(answer, side.regions, side.moves, round(cpu_s() - before, 2))


def judge(case: Case, stock: Seen, elastic: Seen) -> None:
    assert elastic.answer == stock.answer
    failed = isinstance(stock.answer, str) and stock.answer.startswith((HANG, "fails: "))
    assert failed == case.refused, stock.answer
    if case.plain:
        assert not any(elastic.regions), elastic.regions
    else:
        assert elastic.regions and all(elastic.regions), elastic.regions
        assert case.still or elastic.moves > 0


# ---- sessions


ROCKS = "spark.sql.streaming.stateStore.rocksdb."
STATE = "spark.sql.streaming.stateStore."
WORLDS: dict[str, dict[str, str]] = {
    "usual": {},
    "memory": {
        "spark.memory.offHeap.enabled": "true",
        "spark.memory.offHeap.size": "96m",
        "spark.memory.fraction": "0.3",
        "spark.buffer.pageSize": "1m",
        "spark.task.cpus": "2",
        "spark.sql.inMemoryColumnarStorage.batchSize": "50",
    },
    "rocks": {
        ROCKS + "boundedMemoryUsage": "true",
        ROCKS + "maxMemoryUsageMB": "64",
        ROCKS + "trackTotalNumberOfRows": "false",
        ROCKS + "compression": "zstd",
        ROCKS + "changelogCheckpointing.enabled": "true",
        ROCKS + "maxOpenFiles": "64",
        ROCKS + "compactOnCommit": "true",
        STATE + "rowChecksum.enabled": "true",
        STATE + "rowChecksum.readVerificationRatio": "1",
        STATE + "compression.codec": "zstd",
        STATE + "maintenanceInterval": "500ms",
        STATE + "minDeltasForSnapshot": "1",
    },
    "secure": {
        "spark.authenticate": "true",
        "spark.authenticate.secret": "nobody knows it",
        "spark.network.crypto.enabled": "true",
        "spark.io.encryption.enabled": "true",
        "spark.io.encryption.keySizeBits": "256",
        "spark.acls.enable": "true",
        "spark.sql.artifact.isolation.enabled": "true",
    },
    "jvm": {
        "spark.driver.extraJavaOptions": "-Xss700k",
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.unsafe": "true",
        "spark.shuffle.compress": "false",
        "spark.rdd.compress": "true",
        "spark.cleaner.periodicGC.interval": "2s",
        "spark.log.structuredLogging.enabled": "true",
        "spark.extraListeners": "org.apache.spark.scheduler.StatsReportListener",
        "spark.scheduler.mode": "FAIR",
    },
    "strict": {
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrationRequired": "true",
    },
    "foreign": {"spark.sql.extensions": "foreignrule.Foreign"},
}
"""Settings that an application has from its start on."""


def themes() -> Iterator[ModuleType]:
    """The modules with cases."""
    from usage import above, foreach_batch, python_ways, readings, settings, sizes, sources

    for module in (above, foreach_batch, python_ways, readings, settings, sizes, sources):
        by_value(module)
        yield module
