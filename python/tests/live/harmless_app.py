"""The queries of test_live_harmless.py; as a process, Spark without the plugin or its jar.

Goes on with checkpoints that laneshift left, and prints their rows as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark import cloudpickle
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Spark's Python workers cannot import the tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

SCHEMA = "key STRING, value LONG, time TIMESTAMP"
OUTPUT = "key STRING, n LONG, total LONG"


class Sums(StatefulProcessor):
    """Counts and sums a key's rows, and those of each parity."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.total = handle.getValueState("total", "n LONG, total LONG")
        self.parity = handle.getMapState("parity", "odd LONG", "total LONG")

    def tell(self, key: str, n: int, total: int) -> Iterator[Any]:
        yield pd.DataFrame({"key": [key], "n": [n], "total": [total]})

    def values(self, rows: Iterator[Any]) -> list[int]:
        return [int(v) for part in rows for v in part["value"]]

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802
        n, total = self.total.get() if self.total.exists() else (0, 0)
        for value in self.values(rows):
            n, total = n + 1, total + value
            odd = (value % 2,)
            before = self.parity.getValue(odd)[0] if self.parity.containsKey(odd) else 0
            self.parity.updateValue(odd, (before + value,))
        self.total.update((n, total))
        yield from self.tell(key[0], n, sum(value[0] for value in self.parity.values()))

    def close(self) -> None:
        pass


class SumsOfRows(Sums):
    """The same by Spark's rows."""

    def tell(self, key: str, n: int, total: int) -> Iterator[Any]:
        from pyspark.sql import Row

        yield Row(key=key, n=n, total=total)

    def values(self, rows: Iterator[Any]) -> list[int]:
        return [row["value"] for row in rows]


def in_pandas(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key").transformWithStateInPandas(Sums(), OUTPUT, "update", "None")


def by_rows(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key").transformWithState(SumsOfRows(), OUTPUT, "update", "None")


def aggregated(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key").agg(F.count("*").alias("n"), F.sum("value").alias("total"))


STREAMS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "in_pandas": in_pandas,
    "by_rows": by_rows,
    "aggregated": aggregated,
}


def stream(spark: SparkSession, name: str, source: Path, checkpoint: Path) -> list[list[Any]]:
    """Run a stream over the files that are there; its rows."""
    rows: list[list[Any]] = []

    def keep(batch: DataFrame, _: int) -> None:
        rows.extend(list(row) for row in batch.collect())

    query = (
        STREAMS[name](spark.readStream.schema(SCHEMA).parquet(str(source)))
        .writeStream.foreachBatch(keep)
        .outputMode("update")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return sorted(rows)


def main(source: Path, checkpoints: list[Path]) -> None:
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    found = {str(c): stream(spark, c.name.split("-")[0], source, c) for c in checkpoints}
    jars = spark.sparkContext.getConf().get("spark.jars", "")
    spark.stop()
    print(json.dumps({"jars": jars, "rows": found}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(arg) for arg in sys.argv[2:]])
