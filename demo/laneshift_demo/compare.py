"""Holds every update of a stream against what batch Spark says of the same rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from laneshift_demo.question import key_and_values, running_answers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Comparison:
    """How many updates were compared, and those that differ.

    Attributes:
        rows: updates of the stream.
        missing: last answers of airports that the stream has not given.
        extra: updates that stand for no row.
        different: (update, batch Spark's values, the stream's).
    """

    rows: int
    missing: tuple[str, ...]
    extra: tuple[str, ...]
    different: tuple[tuple[str, str, str], ...]

    @property
    def identical(self) -> bool:
        """Every update equals the batch answer, and the last one of each airport is there."""
        return not (self.missing or self.extra or self.different)

    def report(self) -> str:
        """One sentence; the first few differences below it, if there are any."""
        if self.identical:
            return f"{self.rows:,} answers, all equal"
        lines = [
            f"{self.rows:,} answers: {len(self.missing):,} missing, {len(self.extra):,} too many, "
            f"{len(self.different):,} different"
        ]
        lines += [f"    missing    {key}" for key in self.missing[:3]]
        lines += [f"    too many   {key}" for key in self.extra[:3]]
        lines += [f"    different  {k}: batch {a}, stream {b}" for k, a, b in self.different[:3]]
        return "\n".join(lines)


def compare(batch: Mapping[str, str], stream: Mapping[str, str]) -> Comparison:
    """Compare answers by ``dest,flights``.

    ``batch`` has one for each row; a stream may leave out all but an airport's last one, since a
    micro-batch answers several rows at once.
    """
    last = Counter(key.rsplit(",", 1)[0] for key in batch)
    final = {f"{dest},{flights}" for dest, flights in last.items()}
    return Comparison(
        rows=len(stream),
        missing=tuple(sorted(final - stream.keys())),
        extra=tuple(sorted(stream.keys() - batch.keys())),
        different=tuple(
            (key, batch[key], stream[key])
            for key in sorted(batch.keys() & stream.keys())
            if batch[key] != stream[key]
        ),
    )


def batch_answers(spark: SparkSession, rows: Path) -> dict[str, str]:
    """The answer to each row by a batch query over the files, without laneshift."""
    batch = spark.newSession()
    batch.conf.set("spark.sql.laneshift.enabled", "false")
    batch.conf.set("spark.sql.session.timeZone", "UTC")
    batch.conf.set("spark.sql.shuffle.partitions", "2")
    table = running_answers(batch.read.parquet(str(rows)))
    return dict(map(key_and_values, table.toArrow().column("line").to_pylist()))
