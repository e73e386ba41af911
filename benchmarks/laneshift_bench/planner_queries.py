"""The queries of Data Distribution, 2017, over generated rows: EQ5, B_NCI and TOPK.

Rows are the workload source's, whose `key` is drawn by Zipf's law: suppliers of line items, their
orders, topics of posts. What each answer costs waits, so that lanes need no cores.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from laneshift_bench.query import Build

MATCH_US, COUNT_US = 400, 1000
SUPPLIERS, NATIONS, REGIONS = 200, 25, 5
TRUCK, NO_INSTRUCTIONS = 7, 100
"""One of so many line items goes by truck, or has no instructions and a large quantity."""


@dataclass(frozen=True)
class Case:
    """One query.

    Attributes:
        systems: planners that the paper compares on it.
        real_time: in Real-time Mode, else in micro-batches.
        rows: of a micro-batch.
        keys: distinct.
        stated: what the paper's text says of the comparison, in our words.
    """

    name: str
    systems: tuple[str, ...]
    real_time: bool
    rows: int
    keys: int
    build: Build
    stated: tuple[str, ...]


def eq5(rows: DataFrame) -> DataFrame:
    """Line items with their suppliers' nations and regions, over the whole history.

    The stage that is distributed is that of Lineitem and Supplier; nations and regions are
    functions of the supplier here, as TPC-H's are small tables that every node has.
    """
    suppliers = rows.where(f"seq < {SUPPLIERS}").select(
        sf.col("seq").alias("s_suppkey"), (sf.col("seq") % NATIONS).alias("nationkey")
    )
    lines = rows.where(f"seq >= {SUPPLIERS}").select("key", "seq", "event_time")
    both = lines.join(suppliers, sf.expr("key = s_suppkey"))
    return both.select(
        sf.expr(f"laneshift_cost(seq, {MATCH_US}, 'wait')").alias("linekey"),
        "nationkey",
        (sf.col("nationkey") % REGIONS).alias("regionkey"),
        "event_time",
    )


def b_nci(rows: DataFrame) -> DataFrame:
    """Line items by truck with those without instructions, of the same order or the next ones.

    Streams join by equal keys: a row of the second stream is there for each of the three orders.
    Rows meet those of their own batch.
    """
    batch = sf.floor(sf.col("seq") / BAND_ROWS)
    trucks = rows.where(f"seq % {TRUCK} = 0").select(
        "key", batch.alias("batch"), "seq", "event_time"
    )
    near = sf.explode(sf.expr("array(key - 1, key, key + 1)"))
    others = rows.where(f"seq % {NO_INSTRUCTIONS} = 1").select(
        near.alias("other_key"), batch.alias("other_batch"), sf.col("seq").alias("other")
    )
    both = trucks.join(others, sf.expr("key = other_key AND abs(batch - other_batch) < 1"))
    cost = sf.expr(f"laneshift_cost(seq + other, {MATCH_US}, 'wait')").alias("pair")
    return both.select(cost, "key", "event_time")


def topk(rows: DataFrame) -> DataFrame:
    """Posts by topic; who reads the counts takes the ten highest."""
    counts = rows.groupBy("key").agg(
        sf.count("*").alias("n"), sf.max("event_time").alias("event_time")
    )
    return counts.withColumn("n", sf.expr(f"laneshift_cost(n, {COUNT_US}, 'wait')"))


BAND_ROWS = 7_000

CASES = (
    Case(
        "EQ5", ("mnrt", "qmmp", "dynamic", "bi", "bi6"), False, 2_000, SUPPLIERS, eq5,
        (
            "MNRT and QMMP are good at low z; QMMP slows as z rises",
            "Bi6 degrades at high z (1.5 named), Bi is slowest, Dynamic is flat in z",
        ),
    ),
    Case(
        "B_NCI", ("mnrt", "qmmp", "dynamic", "bi", "bi6"), False, BAND_ROWS, 1_000, b_nci,
        (
            "As EQ5; QMMP's loss from splitting is clearest here",
            "Dynamic takes the same time for both queries",
        ),
    ),
    Case(
        "TOPK", ("mnrt", "qmmp", "readj", "pkg", "w-choices"), True, 2_000, 1_000, topk,
        (
            "QMMP plans fast at every tolerance, MNRT slower, Readj longest; PKG does not plan",
            "Systems that split more pay more merge delay; Readj loses by its planning time",
        ),
    ),
)  # fmt: skip
