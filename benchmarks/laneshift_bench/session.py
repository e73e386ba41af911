"""The local Spark session that the benchmarks run in, one for each benchmark's process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import SparkSession

from laneshift import configure
from laneshift.plugin.jar import jar_path
from laneshift.session.builder import with_jar
from laneshift_lab.workload import with_workload, without_forks

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SEED = 20130101

LOG4J = """\
status = off
rootLogger.level = error
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
"""


def in_flight(buffer_kb: int, writer_kb: int, reader_kb: int) -> dict[str, str]:
    """Settings of how much may be on its way to a state task (KB), in a Real-time shuffle."""
    bounds = {"networkBufferSize": buffer_kb, "writerMaxMemory": writer_kb,
              "readerMaxMemory": reader_kb}  # fmt: skip
    return {f"spark.shuffle.streaming.{name}": str(kb << 10) for name, kb in bounds.items()}


FLIGHT = in_flight(buffer_kb=4, writer_kb=128, reader_kb=16)
"""Spark's own bounds hold many seconds of rows that cost 1 ms each: keys would be hot and cold
again while their rows still wait."""


def jvm_pid(spark: SparkSession) -> int:
    """The process id of the session's JVM."""
    gateway: Any = spark.sparkContext._gateway
    return int(gateway.proc.pid)


@contextmanager
def session(
    slots: int,
    settings: Mapping[str, str] | None = None,
    plugin: bool = True,
    memory: str = "3g",
    java: str = "",
    forks: bool = False,
) -> Iterator[tuple[SparkSession, Path]]:
    """A session with ``slots`` task slots and a folder for checkpoints; both end with the block.

    Slots cost nothing while idle; Real-time Mode needs one for each task of all stages. Without
    ``plugin`` only the jar is there, for its source and sink. With ``forks`` Hadoop starts
    processes for files.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with TemporaryDirectory(prefix="laneshift-bench-", ignore_cleanup_errors=True) as folder:
        work = Path(folder)
        log4j = work / "log4j2.properties"
        log4j.write_text(LOG4J.format(file=work / "spark.log"))
        builder = SparkSession.builder.appName("laneshift benchmarks").master(f"local[{slots}]")
        base = {
            "spark.driver.memory": memory,
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{log4j} {java}",
            "spark.local.dir": str(work / "local"),
            # Spark's Python workers take the benchmarks' functions by their names.
            "spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[1]),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.warehouse.dir": str(work / "warehouse"),
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
            "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
            "spark.sql.streaming.numRecentProgressUpdates": "1000",
            "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
            "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "1",
        }
        for key, value in (base | dict(settings or {})).items():
            builder = builder.config(key, value)
        # Without the plugin, too, its jar is there: the workload's has classes that need it.
        builder = configure(builder) if plugin else with_jar(builder, jar_path())
        spark = with_workload(builder).getOrCreate()
        if not forks:
            without_forks(spark)
        try:
            yield spark, work
        finally:
            spark.stop()
