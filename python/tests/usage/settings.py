"""Settings that production has and tests do not, under some operators of each kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark.sql import functions as sf

from usage.harness import Side, case

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ALL = ("memory", "rocks", "secure", "jvm", "strict", "foreign")


def many(side: Side) -> DataFrame:
    key = sf.concat(sf.lit("key number "), sf.col("k"))
    return side.late(2500, 1501).select("id", key.alias("k"), "ts")


@case(*ALL)
def windows(side: Side) -> Any:
    grouped = many(side).groupBy(sf.window("ts", "10 seconds"), "k")
    lists = grouped.agg(sf.count("*").alias("n"), sf.collect_list("id").alias("ids"))
    return side.collect(
        lists.selectExpr("string(window.start)", "k", "n", "array_sort(ids)"), "append"
    )


@case(*ALL)
def distinct(side: Side) -> Any:
    return side.collect(many(side).dropDuplicates(["id"]).select("id"), "append")


@case(*ALL)
def sessions(side: Side) -> Any:
    counted = many(side).groupBy(sf.session_window("ts", "1 second"), "k").count()
    flat = counted.selectExpr("string(session_window.start)", "k", "count")
    return side.collect(flat, "append")


@case(*ALL)
def join(side: Side) -> Any:
    other = many(side).selectExpr("id AS rid", "k AS rk", "ts AS rt")
    near = "k = rk AND id = rid AND rt BETWEEN ts AND ts + INTERVAL 1 SECOND"
    joined = many(side).join(other, sf.expr(near), "leftOuter")
    return side.collect(joined.select("id", "rid"), "append")


@case(*ALL)
def state_in_python(side: Side) -> Any:
    def count(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        n = (state.get[0] if state.exists else 0) + sum(map(len, frames))
        state.update((n,))
        yield pd.DataFrame({"k": [key[0]], "n": [n]})

    grouped = many(side).where("id % 5 = 0").groupBy("k")
    answers = grouped.applyInPandasWithState(
        count, "k STRING, n LONG", "n LONG", "update", "NoTimeout"
    )
    return side.collect(answers, "update")


@case(*ALL)
def functions_in_python(side: Side) -> Any:
    twice = sf.udf(lambda n: 2 * n, "long")
    counted = (
        many(side).select("k", twice("id").alias("d")).groupBy("k").agg(sf.max("d").alias("m"))
    )
    return side.collect(counted.withColumn("t", twice("m")), "update")


@case("foreign", plain=True, still=True)
def the_foreign_rule_works(side: Side) -> Any:
    """It has put nodes into the plans of the cases before."""
    side.rows().groupBy("k").count().explain()
    jvm: Any = side.spark._jvm
    return jvm.foreignrule.Foreign.put > 0
