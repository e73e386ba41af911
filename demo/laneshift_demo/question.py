"""The demo's query: departures and delays by airport; the same for a stream and for a table.

In Real-time Mode every row gives an answer: the figures of its airport up to that row. All sums are
of whole numbers and the mean is a decimal, so that equal answers are equal to the last digit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SCHEMA = "seq LONG, dest STRING, carrier STRING, dep_delay INT, distance INT, sent_us LONG"
"""What every source gives. ``sent_us``: when the row was due (microseconds since 1970)."""

KEY_PARTS = 2
NULL = "-"


def answers(rows: DataFrame, cost_us: int = 0) -> DataFrame:
    """One column ``line``: ``sent_us,dest,flights,departed,delay_sum,delay_max,delay_mean,miles``.

    ``cost_us`` makes each answer cost that many microseconds of waiting, as a look-up in another
    system would; it needs the workload's ``laneshift_cost``.
    """
    from pyspark.sql import functions as F  # noqa: N812

    figures = _figures()
    grouped = rows.groupBy("dest").agg(
        F.max("sent_us").alias("sent_us"), *(column.alias(name) for name, column in figures.items())
    )
    if cost_us:
        cost = F.expr(f"laneshift_cost(flights, {cost_us}, 'wait')")
        grouped = grouped.withColumn("flights", cost)
    return grouped.select(_line("sent_us", "dest", *figures).alias("line"))


def running_answers(table: DataFrame) -> DataFrame:
    """For each row of the table the line that a stream has to give for it, without ``sent_us``."""
    from pyspark.sql import Window

    before = Window.partitionBy("dest").orderBy("seq").rowsBetween(Window.unboundedPreceding, 0)
    figures = _figures()
    named = [column.over(before).alias(name) for name, column in figures.items()]
    return table.select("dest", *named).select(_line("dest", *figures).alias("line"))


def key_and_values(line: str) -> tuple[str, str]:
    """Split an answer's line after ``dest,flights``: which row it stands for."""
    parts = line.split(",", KEY_PARTS)
    return ",".join(parts[:KEY_PARTS]), parts[KEY_PARTS]


def _figures() -> dict[str, Column]:
    from pyspark.sql import functions as F  # noqa: N812

    return {
        "flights": F.count("*"),
        "departed": F.count("dep_delay"),
        "delay_sum": F.sum("dep_delay"),
        "delay_max": F.max("dep_delay"),
        "delay_mean": F.avg(F.col("dep_delay").cast("decimal(6,0)")),
        "miles": F.sum("distance"),
    }


def _line(*names: str) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.concat_ws(",", *(F.coalesce(F.col(n).cast("string"), F.lit(NULL)) for n in names))
