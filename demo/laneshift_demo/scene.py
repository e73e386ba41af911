"""A scene is where rows come from and where answers go; each query of the demo has its own sink."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from laneshift_demo.question import SCHEMA
from laneshift_demo.settings import SOURCES
from laneshift_demo.updates import Updates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class Tail(Protocol):
    """Reads what a sink got."""

    updates: Updates

    def poll(self) -> None:
        """Take what came since the last call."""
        ...

    def close(self) -> None:
        """Stop reading."""
        ...


class Scene(Protocol):
    """One stream, which any number of queries read from its beginning."""

    def live_rows(self, start_s: float) -> DataFrame:
        """The stream in Real-time Mode; its first row is due at ``start_s`` (s since 1970)."""
        ...

    def batch_rows(self, per_batch: int) -> DataFrame:
        """The stream in micro-batches of at most so many rows, as fast as they are taken."""
        ...

    def sink(self, name: str, answers: DataFrame) -> tuple[DataStreamWriter, Tail]:
        """A writer for the column ``line``, and what reads what it has written."""
        ...

    def begin(self, start_s: float) -> None:
        """Send the rows from ``start_s`` on, if the source does not do so by itself."""
        ...

    def end(self) -> None:
        """Send no more. Raises what went wrong while sending."""
        ...


class FlightsScene:
    """Rows from Parquet files by laneshift's replay source, answers to its measuring sink.

    Spark has no file source for Real-time Mode, and its Python sinks get rows in blocks that grow
    to a megabyte: seconds of answers.
    """

    def __init__(self, spark: SparkSession, rows: Path, rows_per_s: float) -> None:
        self._spark = spark
        self._rows = rows
        self._rate = rows_per_s

    def live_rows(self, start_s: float) -> DataFrame:
        start = datetime.fromtimestamp(start_s, UTC).isoformat(timespec="milliseconds")
        return self._replay({"startTime": start})

    def batch_rows(self, per_batch: int) -> DataFrame:
        return self._replay({"pacing": "none", "maxRowsPerTrigger": str(per_batch)})

    def sink(self, name: str, answers: DataFrame) -> tuple[DataStreamWriter, Tail]:
        writer = answers.writeStream.format("laneshift-measure")
        writer = writer.option("name", name).option("lineColumn", "line")
        return writer, MeasureTail(self._spark, name)

    def begin(self, start_s: float) -> None:
        """The source sends by itself."""

    def end(self) -> None:
        """And ends by itself."""

    def _replay(self, options: dict[str, str]) -> DataFrame:
        reader = self._spark.readStream.format("laneshift-replay").schema(SCHEMA)
        common = {
            "path": str(self._rows.absolute()),
            "rowsPerSecond": str(self._rate),
            "numPartitions": str(SOURCES),
            "partitionBy": "dest",
            "sentColumn": "sent_us",
        }
        return reader.options(**common, **options).load()


class MeasureTail:
    """Takes the lines of a measuring sink."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        jvm: Any = spark._jvm
        self._registry = jvm.org.apache.spark.sql.laneshift.workload.MeasureRegistry
        self._name = name
        self.updates = Updates()

    def poll(self) -> None:
        for text in self._registry.lines(self._name).splitlines():
            at_us, line = text.split(",", 1)
            self.updates.add(int(at_us), line)

    def close(self) -> None:
        self._registry.drop(self._name)
