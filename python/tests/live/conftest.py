"""A local Spark with the plugin, and a query over files that a test adds to."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import laneshift
from budgets import count_queries, shared
from laneshift.plugin.jar import jar_path
from laneshift_demo.scene import MeasureTail
from laneshift_lab.workload import with_workload, without_forks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SHARDS = 16
PARTITIONS = 2
CONF = {
    "spark.ui.port": "0",
    "spark.metrics.conf.driver.sink.prometheusServlet.class": (
        "org.apache.spark.metrics.sink.PrometheusServlet"
    ),
    "spark.metrics.conf.driver.sink.prometheusServlet.path": "/metrics/prometheus",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": str(PARTITIONS),
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
    "spark.sql.streaming.realTimeMode.minBatchDuration": "1s",
}

# These JVMs, and their executors', end before optimized code pays: it took half of their CPU time.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"

# Made by archive.py. A JVM says nothing of one that does not fit it.
CLASSES = Path(__file__).parents[3] / "build" / "classes.jsa"
_shared = f" -XX:SharedArchiveFile={CLASSES} -Xlog:disable" if CLASSES.is_file() else ""
_given = os.environ.get("JAVA_TOOL_OPTIONS", "")
# An application that imports this has them already.
if SHORT_LIVED not in _given:
    os.environ["JAVA_TOOL_OPTIONS"] = f"{_given} {SHORT_LIVED}{_shared}".strip()

# Log lines, and the Java stack traces below them: they hide what an application says of itself.
OF_SPARKS_LOG = re.compile(r"\d\d/\d\d/\d\d |\s+at |\S*Exception\b|Caused by: ")


# An application records its autoscalers as tests do: see autoscale/tape.py.
_RECORDED: list[str] = []
if _tapes := os.environ.get("LANESHIFT_TAPES"):
    from autoscale.tape import record_all

    record_all(Path(_tapes))
    _run = "runpy.run_path(sys.argv[0], None, '__main__')"
    _RECORDED = ["-c", f"import runpy, sys, live.conftest; del sys.argv[0]; {_run}"]


def require_jar() -> None:
    """Skip without the jar, unless LANESHIFT_REQUIRE_JAR is set."""
    if not jar_path().is_file():
        if os.environ.get("LANESHIFT_REQUIRE_JAR"):
            pytest.fail(f"LANESHIFT_REQUIRE_JAR is set, but there is no {jar_path()}")
        pytest.skip(f"needs the plugin's jar at {jar_path()}: run `make jar`")


def environment(*folders: Path) -> dict[str, str]:
    """Of a process with Spark that finds modules in these folders, too."""
    paths = [*map(str, folders), os.environ.get("PYTHONPATH")]
    return os.environ | {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }


def until(condition: Callable[[], Any]) -> Any:
    """What the condition says once that is true; only the test's limit ends the wait."""
    while not (found := condition()):
        time.sleep(0.05)
    return found


def run_app(app: Path, *arguments: object, limit_s: int) -> dict[str, Any]:
    """Run an application in a process of its own; what its last line says."""
    require_jar()
    done = subprocess.run(
        [sys.executable, *_RECORDED, str(app), *map(str, arguments)],
        env=environment(Path(__file__).parents[1]),
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )
    own = "\n".join(line for line in done.stderr.splitlines() if not OF_SPARKS_LOG.match(line))
    assert done.returncode == 0, "\n".join((done.stdout[-3000:], own[-3000:], done.stderr[-6000:]))
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return seen


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    require_jar()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    warehouse = tmp_path_factory.mktemp("warehouse")
    builder = SparkSession.builder.master("local[6]").config(map=CONF)  # type: ignore[arg-type]
    builder = builder.config("spark.sql.warehouse.dir", str(warehouse))
    builder = laneshift.configure(
        builder, lanes=1, max_lanes=6, shards_per_partition=SHARDS, balance_enabled=False
    )
    with shared():
        session = with_workload(builder).getOrCreate()
    without_forks(session)
    count_queries()
    yield session
    session.stop()


def to_lines(
    answers: DataFrame, folder: Path, batch: str, name: str | None = None
) -> tuple[StreamingQuery, MeasureTail]:
    """A Real-time query with answers (key, n), started, and what reads them."""
    from pyspark.sql import functions as F  # noqa: N812

    # In the form of the demo's answers: when it was sent, the key, the count, the rest.
    line = F.concat_ws(",", F.lit("0"), "key", "n", F.lit("-"))
    writer = (
        answers.select(line.alias("line"))
        .writeStream.format("laneshift-measure")
        .option("name", str(folder))
        .option("lineColumn", "line")
        .outputMode("update")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(realTime=batch)  # type: ignore[call-overload]
    )
    return (writer.queryName(name) if name else writer).start(), MeasureTail(
        answers.sparkSession, str(folder)
    )


@pytest.fixture
def app(spark: SparkSession) -> laneshift.Application:
    return laneshift.attach(spark)


class Counting:
    """Rows (k, v) counted and summed per key, in micro-batches over files that ``add`` writes."""

    def __init__(self, spark: SparkSession, folder: Path, name: str) -> None:
        self._spark = spark
        self._input = folder / "in"
        self._input.mkdir()
        self.rows = 0
        self.name = name
        stream = spark.readStream.schema("k LONG, v LONG").parquet(str(self._input))
        self.query = (
            self._answer(stream)
            .writeStream.format("memory")
            .queryName(name)
            .outputMode("update")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .start()
        )

    def add(self, rows: int) -> None:
        """Add a file of rows and wait until its batch has ended."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        values = list(range(self.rows, self.rows + rows))
        table = pa.table({"k": [(v * v) % 97 for v in values], "v": values})
        hidden = self._input / ".writing"
        pq.write_table(table, hidden)
        hidden.rename(self._input / f"{self.rows:09d}.parquet")
        self.rows += rows
        self.query.processAllAvailable()

    def streamed(self) -> dict[int, tuple[Any, ...]]:
        """The last answer of each key; counts only rise."""
        answer: dict[int, tuple[Any, ...]] = {}
        for row in self._spark.table(self.name).collect():
            if row["k"] not in answer or row["n"] > answer[row["k"]][0]:
                answer[row["k"]] = tuple(row)[1:]
        return answer

    def stock(self) -> dict[int, tuple[Any, ...]]:
        """What a batch query without laneshift answers over the same files."""
        session = self._spark.newSession()
        session.conf.set("spark.sql.laneshift.enabled", "false")
        table = session.read.schema("k LONG, v LONG").parquet(str(self._input))
        return {row["k"]: tuple(row)[1:] for row in self._answer(table).collect()}

    def _answer(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        return rows.groupBy("k").agg(
            F.count("*").alias("n"), F.sum("v").alias("total"), F.max("v").alias("most")
        )


@pytest.fixture
def counting(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Counting]:
    name = "".join(c if c.isalnum() else "_" for c in request.node.name)
    made = Counting(spark, tmp_path, name)
    yield made
    made.query.stop()
