"""Planners of key distribution drive real queries by name, and answers are those of stock Spark.

In the gate: autoscale/test_tapes.py, autoscale/test_keys.py.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import laneshift
from laneshift.autoscale.measure import shard_of
from laneshift.contract.trace import read_trace
from laneshift.policies import registry
from laneshift_lab.replay import replay
from live.conftest import SHARDS, to_lines, until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.live

ROWS = 24_000
HOT, FILES, FILE_ROWS = 7, 8, 4_000


def operator_of(
    app: laneshift.Application, query: StreamingQuery
) -> laneshift.OperatorSnapshot | None:
    mine = [q for q in app.snapshot().queries if q.id == str(query.id) and q.operators]
    return next((o for q in mine for o in q.operators if not o.is_dealt), None)


def check_done(
    name: str, decisions: tuple[laneshift.Decision, ...], moved: int, was_apart: bool
) -> None:
    assert [d.error for d in decisions if d.error] == []
    notes = [note for d in decisions for note in d.notes]
    moving = name == "mnrt"
    assert (moved > 0) == moving == any("lane" in n and "mean load" in n for n in notes), notes
    assert was_apart and any("goes to any lane from the next batch on" in n for n in notes), notes


def _once(rows: DataFrame) -> DataFrame:
    """Rows of a key meet its state as they are, and what is left of them costs something."""
    from pyspark.sql import functions as F  # noqa: N812

    return rows.dropDuplicates(["k"]).select("k", F.sha2(F.col("k").cast("string"), 256).alias("h"))


@pytest.mark.deep("policies")
@pytest.mark.parametrize("name", ["mnrt", "w-choices"])
def test_in_micro_batches(
    spark: SparkSession, app: laneshift.Application, tmp_path: Path, name: str
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    source = tmp_path / "in"
    source.mkdir()
    stream = spark.readStream.schema("k LONG").parquet(str(source))
    table = f"planned_{registry.policy_class(name).__name__}"
    query = (
        _once(stream)
        .writeStream.format("memory")
        .queryName(table)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )

    def add(number: int) -> None:
        first = number * FILE_ROWS
        keys = [HOT if v % 10 < 6 else v % 911 + number for v in range(first, first + FILE_ROWS)]
        pq.write_table(pa.table({"k": keys}), source / f".{number}")
        (source / f".{number}").rename(source / f"{number}.parquet")
        query.processAllAvailable()

    trace = tmp_path / "trace"
    try:
        add(0)
        app.query(query).set_lanes(2)
        was_apart = False
        with app.query(query).autoscale(policy=name, interval=0.1, trace=trace) as autoscaler:
            for number in range(1, FILES):
                add(number)
                turns = autoscaler.turns
                until(lambda t=turns: autoscaler.turns > t + 1)  # type: ignore[misc]
                found = operator_of(app, query)
                was_apart |= found is not None and found.above == "apart"
        moved = sum(h.reason == "user" for h in app.query(query).handoffs(limit=100_000))
        check_done(name, autoscaler.decisions(), moved, was_apart)
        # The hash tells the shard: no other has as many rows.
        (part,) = [p for p in found.partitions if p.hot_keys and p.hot_keys[0].share > 0.4]  # type: ignore[union-attr]
        assert shard_of(part.hot_keys[0].key, 2, SHARDS) == part.shard_load.argmax()
        again = [each.plan for each in replay(read_trace(trace), registry.policy(name))]
        assert any(plan.key_splits for plan in again)
        assert any(plan.shard_moves for plan in again) == (name == "mnrt")
    finally:
        query.stop()
    stock = spark.newSession()
    stock.conf.set("spark.sql.laneshift.enabled", "false")
    expected = _once(stock.read.schema("k LONG").parquet(str(source))).collect()
    assert Counter(map(tuple, spark.table(table).collect())) == Counter(map(tuple, expected))


@pytest.mark.deep("policies")
@pytest.mark.parametrize("name", ["mnrt", "w-choices"])
def test_in_real_time_mode(
    spark: SparkSession, app: laneshift.Application, tmp_path: Path, name: str
) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    options: dict[str, Any] = {
        "keys": 200,
        "rowBytes": 0,
        "rowsPerSecond": 1500,
        "totalRows": ROWS,
        "seed": 5,
    }
    options |= {"zipf": 2.0, "numPartitions": 1}
    source = spark.readStream.format("laneshift-workload").options(**options).load()
    counted = source.groupBy("key").agg(F.count("*").alias("n"))
    answers = counted.withColumn("n", F.expr("laneshift_cost(n, 100, 'wait')"))
    query, tail = to_lines(answers, tmp_path, "4 seconds")

    def rows_out() -> int:
        tail.poll()
        assert query.exception() is None, query.exception()
        return tail.updates.rows

    try:
        until(lambda: rows_out() > 500)
        app.query(query).set_lanes(2)
        was_apart = False
        with app.query(query).autoscale(policy=name, interval=0.2, cores=6) as autoscaler:
            end = time.monotonic() + 120
            while rows_out() < ROWS:
                assert time.monotonic() < end, (rows_out(), autoscaler.decisions())
                found = operator_of(app, query)
                was_apart |= found is not None and found.above == "apart"
                time.sleep(0.1)
        moved = sum(h.reason == "user" for h in app.query(query).handoffs(limit=100_000))
        check_done(name, autoscaler.decisions(), moved, was_apart)
        assert tail.updates.disorder == 0
    finally:
        query.stop()
    rows = spark.read.format("laneshift-workload").options(**options).load()
    counts = rows.groupBy("key").agg(F.count("*").alias("n")).collect()
    stock = {str(row["key"]): row["n"] for row in counts}
    assert tail.updates.counts == stock


@pytest.mark.deep("policies")
def test_a_dry_run_says_what_it_would_do_and_does_nothing(
    spark: SparkSession, app: laneshift.Application, tmp_path: Path
) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    options = {"keys": 50, "rowBytes": 0, "rowsPerSecond": 1000, "zipf": 2.0, "numPartitions": 1}
    source = spark.readStream.format("laneshift-workload").options(**options).load()
    query, _ = to_lines(source.groupBy("key").agg(F.count("*").alias("n")), tmp_path, "1 minute")
    try:
        until(lambda: operator_of(app, query))
        app.query(query).set_lanes(2)
        with app.query(query).autoscale(policy="qmmp", interval=0.1, dry_run=True) as autoscaler:
            until(
                lambda: any("not carried out" in n for d in autoscaler.decisions() for n in d.notes)
            )
        assert not any(d.applied or d.error for d in autoscaler.decisions())
        assert [h for h in app.query(query).handoffs() if h.reason == "user"] == []
    finally:
        query.stop()


def test_what_is_wrong_is_said_before_anything_starts(app: laneshift.Application) -> None:
    wrong: list[tuple[str, dict[str, Any], str]] = [
        ("mntr", {}, "mnrt"),
        ("qmmp", {"tolerance": -0.1}, "tolerance"),
        ("mnrt", {"tie_break": "smallest"}, "fits-first"),
        ("readj", {"sizing": "pkg"}, "a policy that says how many lanes there are"),
        ("readj", {"sizing": "elasticator"}, "elasticutor"),
        ("pkg", {"hot_share": 0.5}, "hot_share"),
        ("bi6", {"groups": 0}, "groups"),
        ("dynamic", {"max_executors": 4}, "gives no lanes to other executors"),
        ("dynamic", {"target_latency": 50}, "no latency target"),
    ]
    for name, parameters, words in wrong:
        with pytest.raises(laneshift.InputError, match=words):
            app.autoscale(policy=name, **parameters)
