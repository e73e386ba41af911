"""The benchmarks' arithmetic speaks of the keys and partitions that the workload really has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from pyspark.sql import functions as sf

from laneshift_bench.bound import owners
from laneshift_bench.live import shares_by_key
from laneshift_bench.session import SEED
from laneshift_bench.setting import KEYS, Setting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.live, pytest.mark.deep("pairs")]
RATE, SECONDS = 30_000, 3


def test_shares_are_those_of_the_source_in_each_period(spark: SparkSession) -> None:
    setting = Setting(
        name="shuffled", cores=8, partitions=2, cost_us=1000, stages=((RATE, SECONDS),),
        zipf=1.0, omega=60,
    )  # fmt: skip
    options = setting.source(0.0) | {"seed": SEED, "totalRows": RATE * SECONDS}
    rows = spark.read.format("laneshift-workload").options(**options).load()
    period = sf.floor(sf.unix_micros("event_time") / 1e6).alias("period")
    counts = np.zeros((SECONDS, KEYS))
    for row in rows.groupBy(period, "key").count().collect():
        counts[row.period, row.key] = row["count"]
    expected = RATE * np.array(shares_by_key(spark, setting))
    assert counts.argmax(axis=1).tolist() == expected.argmax(axis=1).tolist()
    assert len(set(expected.argmax(axis=1))) == SECONDS
    assert np.all(np.abs(counts - expected) <= 6 * np.sqrt(expected) + 6)


def test_owners_are_those_of_the_shuffle(spark: SparkSession) -> None:
    where = spark.range(KEYS).repartition(5, "id").select("id", sf.spark_partition_id().alias("p"))
    found = {row.id: row.p for row in where.collect()}
    assert [found[key] for key in range(KEYS)] == owners(spark, 5).tolist()
