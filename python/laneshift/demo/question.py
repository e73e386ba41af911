"""The demo's query: delays per day, destination and carrier; the same for a stream and for a table.

All sums are of whole numbers and the mean is a decimal, so that equal answers are equal to the last
digit, whatever the order of the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SCHEMA = "event_s LONG, dest STRING, carrier STRING, dep_delay INT, distance INT, sent_us LONG"
"""What every source gives. ``sent_us``: when the row was sent (microseconds since 1970)."""

ANSWER = (
    "window_s",
    "dest",
    "carrier",
    "flights",
    "departed",
    "delay_sum",
    "delay_max",
    "delay_mean",
    "distance",
)
"""The parts of an answer's line. The first three are its key."""

KEY_PARTS = 3
NULL = "-"


def answers(rows: DataFrame, cost_us: int = 0) -> DataFrame:
    """One line per key, comma-separated as :data:`ANSWER`, and the newest ``sent_us`` behind it.

    ``cost_us`` makes each row of the answer cost that many microseconds of waiting, as a look-up in
    another system would; it needs the plugin's ``laneshift_cost``.
    """
    from pyspark.sql import functions as F  # noqa: N812

    day = F.window(F.timestamp_seconds("event_s"), "1 day")
    grouped = rows.groupBy(day, "dest", "carrier").agg(
        F.count("*").alias("flights"),
        F.count("dep_delay").alias("departed"),
        F.sum("dep_delay").alias("delay_sum"),
        F.max("dep_delay").alias("delay_max"),
        F.avg(F.col("dep_delay").cast("decimal(6,0)")).alias("delay_mean"),
        F.sum("distance").alias("distance"),
        F.max("sent_us").alias("sent_us"),
    )
    named = grouped.withColumn("window_s", F.unix_timestamp("window.start")).drop("window")
    if cost_us:
        cost = F.expr(f"laneshift_cost(flights, {cost_us}, 'wait')")
        named = named.withColumn("flights", cost)
    line = F.concat_ws(",", *(_text(F.col(name)) for name in ANSWER))
    return named.select(line.alias("line"), "sent_us")


def key_and_values(line: str) -> tuple[str, str]:
    """Split an answer's line after its key."""
    parts = line.split(",", KEY_PARTS)
    return ",".join(parts[:KEY_PARTS]), parts[KEY_PARTS]


def _text(column: Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.coalesce(column.cast("string"), F.lit(NULL))
