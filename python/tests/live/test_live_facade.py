"""The same calls of the app object over py4j, gRPC and a Spark Connect session, on a real query.

The control service runs in this process and reaches the session's plugin; a driver's own control
process and a real Connect server are in test_live_control.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

import laneshift
from live.conftest import until
from session.transports import TRANSPORTS, over_grpc

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.live, pytest.mark.versions]


@pytest.fixture(scope="module")
def query(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    rows = spark.readStream.format("laneshift-workload").option("rowsPerSecond", 2000).load()
    started = (
        rows.groupBy("key")
        .count()
        .writeStream.format("noop")
        .queryName("facade")
        .outputMode("update")
        .trigger(processingTime="300 milliseconds")
        .option("checkpointLocation", str(tmp_path_factory.mktemp("facade")))
        .start()
    )
    yield "facade"
    started.stop()


@pytest.fixture(
    params=[
        pytest.param(name, marks=() if name == "py4j" else pytest.mark.deep("surface"))
        for name in TRANSPORTS
    ]
)
def anyhow(
    spark: SparkSession, query: str, request: pytest.FixtureRequest
) -> Iterator[laneshift.Application]:
    app = laneshift.attach(spark)
    until(lambda: operators(app))
    if request.param == "py4j":
        yield app
    else:
        with over_grpc(request.param, app._gateway) as other:
            yield other


def operators(app: laneshift.Application) -> list[Any]:
    return [o for q in app.snapshot().queries if q.name == "facade" for o in q.operators]


def partitions(app: laneshift.Application) -> list[Any]:
    return [p for operator in operators(app) for p in operator.partitions]


def test_lanes_and_shards(anyhow: laneshift.Application, query: str) -> None:
    for lanes in (1, 3):
        anyhow.query(query).set_lanes(lanes)
        until(lambda: [p.lanes for p in partitions(anyhow)] == [lanes] * 2)  # noqa: B023
    lane = (int(partitions(anyhow)[1].lane_of_shard[5]) + 1) % 3
    before = anyhow.snapshot().time_ms
    anyhow.query(query).move(shard=5, to_lane=lane, partition=1)
    until(lambda: int(partitions(anyhow)[1].lane_of_shard[5]) == lane)
    moves = [h for h in anyhow.query(query).handoffs(limit=1000) if h.time_ms >= before]
    assert any((h.partition, h.shard, h.reason) == (1, 5, "user") for h in moves)


def test_no_answer_waits_for_an_acknowledgement(spark: SparkSession) -> None:
    from py4j.java_gateway import JavaObject

    def sent_at_once() -> bool | None:
        """Whether the JVM's end of this thread's connection sends what it has, if it knows it."""
        server = JavaObject("GATEWAY_SERVER", spark.sparkContext._gateway._gateway_client)  # type: ignore[union-attr]
        connection = server.getCallbackClient().getPerThreadConnection()
        return connection and bool(connection.getSocket().getTcpNoDelay())

    app = laneshift.attach(spark)

    def ask() -> tuple[bool | None, bool | None]:
        before = sent_at_once()
        app.snapshot()
        return before, sent_at_once()

    # Of a thread under which the JVM has called Python (foreachBatch) it may not know.
    assert ask()[1] is not False
    with ThreadPoolExecutor(1) as other:  # has a connection of its own
        assert other.submit(ask).result() == (False, True)


def test_tasks(anyhow: laneshift.Application, query: str) -> None:
    anyhow.query(query).set_tasks(1)
    until(lambda: [o.tasks for o in operators(anyhow)] == [1])
    anyhow.query(query).set_tasks("stock")
    until(lambda: [o.tasks for o in operators(anyhow)] == [2])


def test_snapshots_as_a_stream(anyhow: laneshift.Application, query: str) -> None:
    seen = []
    for snapshot in anyhow.watch(0.2):
        seen.append(sum(p.rows_in for q in snapshot.queries if q.name == query
                        for o in q.operators for p in o.partitions))  # fmt: skip
        # A busy machine may be between two batches for a while.
        if (len(seen) >= 8 and seen[-1] > seen[0]) or len(seen) == 200:
            break
    assert seen == sorted(seen) and seen[-1] > seen[0]


def test_a_source_is_held_back(anyhow: laneshift.Application, query: str) -> None:
    # A batch that has begun has its rows already.
    assert anyhow.query(query).limit_source(1000, duration=1) == "next-batch"


def test_a_policy(anyhow: laneshift.Application, query: str) -> None:
    with anyhow.query(query).autoscale(policy="elasticutor", interval=0.2) as autoscaler:
        with pytest.raises(laneshift.SessionError, match="elasticutor"):
            anyhow.query(query).autoscale(policy="static")
        until(lambda: autoscaler.turns >= 3)
        assert autoscaler.is_running
    assert not autoscaler.is_running


@pytest.mark.parametrize(
    ("call", "kind", "condition"),
    [
        (
            lambda app: app.query("nobody").set_lanes(2, partition=0),
            laneshift.NotFoundError,
            "NO_SUCH_QUERY",
        ),
        (
            lambda app: app.query("facade").set_lanes(2, partition=0, operator=7),
            laneshift.NotFoundError,
            "OPERATOR",
        ),
        (
            lambda app: app.query("facade").set_lanes(2, partition=9),
            laneshift.NotFoundError,
            "PARTITION",
        ),
        (
            lambda app: app.query("facade").set_lanes(99, partition=0),
            laneshift.ArgumentError,
            "LANES",
        ),
        (
            lambda app: app.query("facade").set_tasks(3),
            laneshift.ArgumentError,
            "TASKS_OUT_OF_RANGE",
        ),
        (
            lambda app: app.query("facade").move(shard=99, to_lane=0, partition=0),
            laneshift.LaneshiftError,
            "SHARD",
        ),
        (lambda app: app.query("nobody").handoffs(), laneshift.NotFoundError, "NO_SUCH_QUERY"),
        (lambda app: app.autoscale(policy="elastic"), laneshift.LaneshiftError, "INVALID_INPUT"),
    ],
)
def test_errors(
    anyhow: laneshift.Application,
    call: Callable[[laneshift.Application], Any],
    kind: type[laneshift.LaneshiftError],
    condition: str,
) -> None:
    with pytest.raises(kind) as caught:
        call(anyhow)
    assert condition in caught.value.condition
