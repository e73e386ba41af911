"""Finds out what emulated cores do on this machine, and chooses row cost and load by it."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laneshift_demo.failure import DemoError
from laneshift_demo.settings import CORES, ELASTIC, PARTITIONS, STOCK, options_set, side_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COSTS_US = (2_000, 4_000, 8_000, 16_000)
OWN_SHARE = 0.25
"""Most that a row's own work, and what it waits for a real core, may add to its cost."""
LOAD = 0.5
"""Of what all emulated cores take: a hot spell leaves laneshift some room."""
SETTLE_S = 1.0
MEASURE_S = 3.0
LIMIT_S = 90.0


@dataclass(frozen=True, slots=True)
class Calibration:
    """Row cost (us), load (rows/s), how long a row takes a core beside its cost (us), and
    how long both sides' queries took until they gave rows (s)."""

    cost_us: int
    rows_per_s: float
    own_us: float
    start_s: float

    @property
    def fits(self) -> bool:
        """Whether cores are emulated well enough to show anything."""
        return self.own_us <= OWN_SHARE * self.cost_us

    @property
    def words(self) -> str:
        """For the terminal."""
        return (
            f"a row waits {self.cost_us / 1000:g} ms (an emulated core: it is waiting, not work) "
            f"and takes {self.own_us / 1000:.2f} ms more on this machine, so {CORES} cores take "
            f"{CORES * 1e6 / (self.cost_us + self.own_us):,.0f} rows/s; the load is "
            f"{self.rows_per_s:,.0f} rows/s"
        )


def choose(
    own_us: float,
    start_s: float,
    least_us: int = COSTS_US[0],
    cost_us: int | None = None,
    rows_per_s: float | None = None,
) -> Calibration:
    """The least cost beside which a row's own time is small, and a load below the cores' rate."""
    fitting = (cost for cost in COSTS_US if cost >= least_us and own_us <= OWN_SHARE * cost)
    cost = cost_us or next(fitting, COSTS_US[-1])
    load = rows_per_s or round(LOAD * CORES * 1e6 / (cost + own_us), -1)
    return Calibration(cost, max(load, 1.0), own_us, start_s)


def measure(spark: SparkSession, folder: Path) -> tuple[float, float]:
    """(us, s): what a row takes an emulated core beside its cost, while all cores of both sides are
    busy with evenly spread rows; and how long the queries took to start. It warms the JVM up.

    Errors: DemoError if a query fails or gives nothing.
    """
    jvm: Any = spark._jvm
    registry = jvm.org.apache.spark.sql.laneshift.workload.MeasureRegistry
    sides = (STOCK, ELASTIC)
    names = {side: f"calibration-{side}" for side in sides}
    with ExitStack() as stack:
        queries = []
        began = time.monotonic()
        for side in sides:
            with options_set(spark, side_options(side, CORES // PARTITIONS, CORES)):
                queries.append(_start(spark, names[side], folder))
            stack.callback(registry.drop, names[side])
            stack.callback(queries[-1].stop)
        while not all(json.loads(registry.read(name))["rows"] for name in names.values()):
            _check(queries)
            if time.monotonic() > began + LIMIT_S:
                raise DemoError(f"Calibration gave no row in {LIMIT_S:g} s; the log says more.")
            time.sleep(0.1)
        start_s = time.monotonic() - began
        time.sleep(SETTLE_S)
        for name in names.values():
            registry.begin(name)
        time.sleep(MEASURE_S)
        found = [json.loads(registry.read(name)) for name in names.values()]
        _check(queries)
    rate = min(one["rows"] / one["seconds"] for one in found)
    return max(0.0, CORES * 1e6 / max(rate, 1.0) - COSTS_US[0]), start_s


def _start(spark: SparkSession, name: str, folder: Path) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    source = spark.readStream.format("laneshift-workload").options(
        keys=1000, zipf=0, rowBytes=0, pacing="none", totalRows=10**12
    )
    counts = source.load().groupBy("key").agg(F.count("*").alias("n"))
    paid = counts.select("key", F.expr(f"laneshift_cost(n, {COSTS_US[0]}, 'wait')").alias("n"))
    writer = paid.writeStream.format("laneshift-measure").option("name", name).outputMode("update")
    writer = writer.option("checkpointLocation", str((folder / name).absolute()))
    return writer.trigger(realTime="5 minutes").start()  # type: ignore[call-overload]


def _check(queries: list[Any]) -> None:
    for query in queries:
        if not query.isActive:
            raise DemoError(f"Calibration has failed: {query.exception()}")
