"""A Python function above a stateful operator reads ahead, so lanes restart to let a shard go."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import laneshift

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.live

MOTION = {
    "spark.sql.laneshift.lanes": "3",
    "spark.sql.laneshift.motion": "always",
    "spark.sql.laneshift.motion.interval": "3ms",
}


@contextmanager
def set_in(spark: SparkSession, options: dict[str, str]) -> Iterator[None]:
    before = {key: spark.conf.get(key) for key in options}
    for key, value in options.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, value or "")


def run(
    spark: SparkSession, folder: Path, batch: int
) -> tuple[list[tuple[int, ...]], list[int], str, str]:
    """Rows that were put out, state rows by batch, the plan, and the query's run."""
    from pyspark.sql import functions as F  # noqa: N812

    @F.udf("long")  # type: ignore[untyped-decorator]
    def twice(x: int) -> int:
        return 2 * x

    source = (
        spark.readStream.format("laneshift-workload")
        .options(pacing="none", keys=3000, rowBytes=8, rowsPerBatch=batch, totalRows=4 * batch)
        .load()
    )
    pairs = source.select("key", (F.col("value") % 20).alias("v")).dropDuplicates(["key", "v"])
    query = (
        pairs.select("key", "v", twice("v").alias("t"))
        .where("t % 4 = 0")
        .writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(240)
    rows = sorted(tuple(r) for r in spark.read.parquet(str(folder / "out")).collect())
    state = [p.stateOperators[0].numRowsTotal for p in query.recentProgress]
    return rows, state, query._jsq.explainInternal(False), str(query.id)


@pytest.mark.parametrize(
    ("batch", "remote"),
    [
        (4_000, 0),
        pytest.param(15_000, 0, marks=pytest.mark.deep("pairs")),
        pytest.param(15_000, 2, marks=pytest.mark.deep("pairs")),
    ],
)
def test_lanes_restart_under_a_python_function_and_nothing_is_lost(
    spark: SparkSession, app: laneshift.Application, tmp_path: Path, batch: int, remote: int
) -> None:
    with set_in(spark, {"spark.sql.laneshift.enabled": "false"}):
        stock = run(spark, tmp_path / "stock", batch)
    with set_in(spark, MOTION | {"spark.sql.laneshift.motion.remoteLanes": str(remote)}):
        elastic = run(spark, tmp_path / "elastic", batch)
    assert "handoff mid-batch-restart" in elastic[2]
    paused = [h for h in app.query(elastic[3]).handoffs() if h.pause_us > 0]
    assert len(paused) > 10
    assert elastic[0] == stock[0]
    assert elastic[1] == stock[1]
