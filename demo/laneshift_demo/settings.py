"""What the demo runs with, and the Spark session that is made of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from laneshift_demo.failure import DemoError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES = 8
"""Emulated cores of each side: stock has a state partition for each, laneshift as many lanes."""
PARTITIONS = 4
"""State partitions of laneshift, whose lanes are ``CORES`` together."""
SOURCES = 2
POLICY = "elasticutor"
STOCK, ELASTIC = "stock", "laneshift"
SHARDS = 256
"""Of each partition of laneshift: so many that hot airports seldom share one."""
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

LOG4J = """\
status = off
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {file}
appender.file.append = false
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
logger.laneshift.name = org.apache.spark.sql.laneshift
logger.laneshift.level = info
"""


@dataclass(frozen=True, slots=True)
class Settings:
    """The command line.

    Attributes:
        source: ``flights`` or ``kafka``.
        work: folder for everything that the demo writes but the picture.
        picture: the PNG file.
        seconds: how long rows come in Real-time Mode (s).
        rows_per_s: the load; None: what calibration chooses.
        cost_us: waiting time that each answer costs its core (microseconds); None: as above.
        policy: which of the autoscaler's policies moves the lanes.
        seed: of the stream and of the moves.
        hot: which airports are hot: ``shared`` (their keys share a partition) or ``random``.
    """

    source: str
    work: Path
    picture: Path
    seconds: float
    rows_per_s: float | None
    cost_us: int | None
    policy: str
    seed: int
    hot: str

    @property
    def log(self) -> Path:
        """Spark's log."""
        return self.work.absolute() / "spark.log"


def build_session(settings: Settings, jars: Sequence[Path]) -> SparkSession:
    """A local session with laneshift and the given jars.

    Errors: DemoError if PySpark is missing; what :func:`laneshift.configure` raises.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    try:
        from pyspark.sql import SparkSession
    except ImportError as cause:
        raise DemoError("PySpark is missing: `make setup` brings it.") from cause
    from laneshift import configure
    from laneshift_lab.workload import with_workload

    log4j = settings.work.absolute() / "log4j2.properties"
    log4j.write_text(LOG4J.format(file=settings.log))
    # Real-time Mode needs a slot for each task of all stages at once, and a lane beyond a task's
    # first takes one. A slot costs nothing while it is idle.
    slots = 2 * (CORES + SOURCES)
    builder = SparkSession.builder.appName("laneshift demo").master(f"local[{slots}]")
    options: dict[str, bool | float | int | str | None] = {
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{log4j}",
        "spark.jars": ",".join(str(jar.absolute()) for jar in jars),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": str(settings.work.absolute() / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
        "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
        # How long Spark's shuffle holds a row in Real-time Mode: 50 by default. For both sides.
        "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "1",
    }
    builder = builder.config(map=options)
    return with_workload(configure(builder, shards_per_partition=SHARDS)).getOrCreate()


def side_options(side: str, lanes: int, max_lanes: int) -> dict[str, str]:
    """Session settings that make a query that starts now one of this side's."""
    return {
        "spark.sql.laneshift.enabled": str(side == ELASTIC).lower(),
        "spark.sql.laneshift.lanes": str(lanes),
        "spark.sql.laneshift.maxLanes": str(max_lanes),
        "spark.sql.shuffle.partitions": str(PARTITIONS if side == ELASTIC else CORES),
    }


@contextmanager
def options_set(spark: SparkSession, options: Mapping[str, str]) -> Iterator[None]:
    """Queries that start in the block have these settings."""
    for key, value in options.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in options:
            spark.conf.unset(key)
