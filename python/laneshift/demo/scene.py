"""A scene is where one run's rows come from and where its answers go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from laneshift.demo.failure import DemoError
from laneshift.demo.feed import SLICES_PER_BATCH, Feed, FileFeed, NoFeed
from laneshift.demo.filesink import FileTail, FileWriter
from laneshift.demo.question import SCHEMA
from laneshift.demo.settings import PARTITIONS
from laneshift.demo.updates import Updates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class Tail(Protocol):
    """Reads what a sink wrote."""

    updates: Updates

    def poll(self) -> None:
        """Take what came since the last call."""
        ...

    def close(self) -> None:
        """Stop reading."""
        ...


@dataclass(frozen=True, slots=True)
class Scene:
    """Rows as a stream, a writer for the answers, what sends the rows, what reads the answers."""

    rows: DataFrame
    write: Callable[[DataFrame], DataStreamWriter]
    feed: Feed
    tail: Tail


def flights_scene(
    spark: SparkSession, mode: str, table: Any, flights: Path, rows_per_s: float, folder: Path
) -> Scene:
    """Flights from files: put into a folder one by one, or replayed by laneshift's own source.

    Spark has no file source for Real-time Mode. ``laneshift-replay`` is one: it hands out the rows
    of the Parquet files under ``path`` in the order of file names and positions, ``rowsPerSecond``
    in all, in turn to ``numPartitions`` partitions, and fills the column ``sentColumn`` with the
    moment at which each row was due (microseconds since 1970).
    Errors: DemoError for Real-time Mode without laneshift.
    """
    answers = folder / "answers"
    answers.mkdir(parents=True)
    feed: Feed
    if mode == "micro-batch":
        feed = FileFeed(table, rows_per_s, folder / "in")
        rows = (
            spark.readStream.schema(SCHEMA)
            .option("maxFilesPerTrigger", SLICES_PER_BATCH)
            .parquet(str(folder / "in"))
        )
    else:
        if "laneshift" not in (spark.conf.get("spark.plugins", "") or ""):
            raise DemoError(
                "Stock Spark cannot replay files in Real-time Mode: "
                "add --modes micro-batch, or run the demo's kafka."
            )
        feed = NoFeed()
        rows = (
            spark.readStream.format("laneshift-replay")
            .schema(SCHEMA)
            .option("path", str(flights.absolute()))
            .option("rowsPerSecond", str(round(rows_per_s)))
            .option("numPartitions", str(PARTITIONS))
            .option("sentColumn", "sent_us")
            .load()
        )
    return Scene(
        rows=rows,
        write=lambda answer: answer.writeStream.foreach(FileWriter(str(answers.absolute()))),
        feed=feed,
        tail=FileTail(answers),
    )
