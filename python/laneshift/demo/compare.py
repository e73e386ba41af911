"""Holds a stream's answer against the batch answer of stock Spark, row by row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from laneshift.demo.question import answers, key_and_values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Comparison:
    """Keys that only one side has or whose values differ; and how many rows were compared."""

    rows: int
    missing: tuple[str, ...]
    extra: tuple[str, ...]
    different: tuple[tuple[str, str, str], ...]

    @property
    def identical(self) -> bool:
        """Every row of either side equals the other side's."""
        return not (self.missing or self.extra or self.different)

    def report(self) -> str:
        """One sentence; the first few differences below it, if there are any."""
        if self.identical:
            return f"{self.rows:,} rows, all equal"
        lines = [
            f"{self.rows:,} rows: {len(self.missing):,} missing, {len(self.extra):,} too many, "
            f"{len(self.different):,} different"
        ]
        lines += [f"    missing    {key}" for key in self.missing[:3]]
        lines += [f"    too many   {key}" for key in self.extra[:3]]
        lines += [f"    different  {k}: stock {a}, stream {b}" for k, a, b in self.different[:3]]
        return "\n".join(lines)


def compare(stock: Mapping[str, str], stream: Mapping[str, str]) -> Comparison:
    """Compare two answers, values by key, in full."""
    return Comparison(
        rows=len(stock),
        missing=tuple(sorted(stock.keys() - stream.keys())),
        extra=tuple(sorted(stream.keys() - stock.keys())),
        different=tuple(
            (key, stock[key], stream[key])
            for key in sorted(stock.keys() & stream.keys())
            if stock[key] != stream[key]
        ),
    )


def stock_answer(spark: SparkSession, flights: Path) -> dict[str, str]:
    """The answer of a batch query over all files, in a session with laneshift switched off."""
    from pyspark.sql import functions as F  # noqa: N812

    stock = spark.newSession()
    stock.conf.set("spark.sql.laneshift.enabled", "false")
    stock.conf.set("spark.sql.session.timeZone", "UTC")
    table = stock.read.parquet(str(flights)).withColumn("sent_us", F.lit(0).cast("long"))
    lines = answers(table).select("line").toArrow().column("line").to_pylist()
    return dict(map(key_and_values, lines))
