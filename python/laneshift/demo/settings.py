"""What the demo runs with, and the Spark session that is made of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from laneshift.demo.failure import DemoError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODES = ("micro-batch", "real-time")
LANES = (1, 4, 2)
PARTITIONS = 2
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
        picture: the PNG file, or None for no picture.
        seconds: how long a mode's replay is meant to take (s).
        rows: replay only the first so many flights, or None for all.
        cost_us: waiting time that each row of an answer costs (microseconds).
        moves_per_s: shard moves that the demo asks for (1/s).
        modes: the modes to run, in order.
        stock: run without laneshift.
        seed: for the moves.
    """

    source: str
    work: Path
    picture: Path | None
    seconds: float
    rows: int | None
    cost_us: int
    moves_per_s: float
    modes: tuple[str, ...]
    stock: bool
    seed: int

    @property
    def log(self) -> Path:
        """Spark's log."""
        return self.work.absolute() / "spark.log"


def build_session(settings: Settings, jars: Sequence[Path]) -> SparkSession:
    """A local session with laneshift (unless ``stock``) and the given jars.

    Errors: DemoError if PySpark is missing; what :func:`laneshift.configure` raises.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        from pyspark.sql import SparkSession
    except ImportError as cause:
        raise DemoError("PySpark is missing: pip install 'laneshift[spark]'.") from cause
    from laneshift import configure

    log4j = settings.work.absolute() / "log4j2.properties"
    log4j.write_text(LOG4J.format(file=settings.log))
    # Real-time Mode needs a slot for each task of both stages at once.
    builder = SparkSession.builder.appName("laneshift demo").master(f"local[{2 * PARTITIONS + 2}]")
    options: dict[str, bool | float | int | str | None] = {
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{log4j}",
        "spark.jars": ",".join(str(jar.absolute()) for jar in jars),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": str(settings.work.absolute() / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
        "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
        "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "1",
    }
    builder = builder.config(map=options)
    if not settings.stock:
        builder = configure(builder, lanes=LANES[0], max_lanes=8, shards_per_partition=64)
    return builder.getOrCreate()
