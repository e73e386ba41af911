"""Salting: what users of stock Spark try against skew by key.

A key's rows go to several groups, by a salt that is in the key: each group keeps a part of the
state, and who reads the answers adds the parts up. It works for what can be added up, the state has
up to so many times the groups, and a key's rows lose their order: none of which laneshift asks for.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from laneshift_bench.query import Build


def salt(salts: int) -> str:
    """SQL of a key with its salt, as one BIGINT."""
    return f"key * {salts} + pmod(value, {salts})"


def unsalt(salts: int) -> str:
    """SQL of the key that was salted: no less than it, for keys below zero, too."""
    return f"CAST(floor(key / {salts}) AS BIGINT)"


def salted(salts: int, build: Build, rows: DataFrame) -> DataFrame:
    """The query over salted keys: partial answers, each with its own key."""
    found = build(rows.withColumn("key", sf.expr(salt(salts))))
    return found.withColumn("key", sf.expr(unsalt(salts)))


def merged(partial: DataFrame) -> DataFrame:
    """A batch of final partial counts as counts per key: what the reader of a sink has to do."""
    return partial.groupBy("key").agg(sf.sum("n").alias("n"))
