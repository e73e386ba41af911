"""What operators, auditors and dashboards read of a query and of its checkpoint."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf
from pyspark.sql.streaming.listener import StreamingQueryListener

from usage.harness import ROCKS, STATE, Side, case, in_order

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame


# ---- the state


def left(side: Side) -> DataFrame:
    key = sf.when(sf.col("id") % 31 != 0, sf.concat(sf.lit("k"), sf.col("k"))).alias("k")
    return side.late().select("id", key, "ts")


def right(side: Side) -> DataFrame:
    return left(side).selectExpr("id AS rid", "k AS rk", "ts AS rt")


def whole_state(side: Side, answers: DataFrame, **options: str) -> Any:
    """The rows, the newest state and an older one, its metadata and the settings of batch 0."""
    # The feed of changes is made of changelogs.
    side.spark.conf.set(ROCKS + "changelogCheckpointing.enabled", "true")
    side.spark.conf.set(STATE + "minDeltasForSnapshot", "2")
    checkpoint = side.fresh("checkpoint")
    rows = side.collect(answers, "append", None, checkpoint)

    def state(**more: str) -> Any:
        read = side.spark.read.format("statestore").options(**options, **more)
        rows = read.load(str(checkpoint))
        # As text: a row of a join's state has a field more than its schema, which to_json trips on.
        return in_order(rows.select(*(sf.col(c).cast("string") for c in rows.columns)).collect())

    found = [rows, state(), state(batchId="1")]
    if not options:
        found.append(state(readChangeFeed="true", changeStartBatchId="0"))
    metadata = side.spark.read.format("state-metadata").load(str(checkpoint))
    names = ("operatorId", "operatorName", "stateStoreName", "numPartitions", "minBatchId")
    found.append(in_order(metadata.select(*names, "maxBatchId").collect()))
    return [*found, settings_of(checkpoint)]


def settings_of(checkpoint: Path) -> Any:
    lines = (checkpoint / "offsets" / "0").read_text().splitlines()
    return next(json.loads(line)["conf"] for line in lines if '"conf"' in line)


@case()
def state_of_windows(side: Side) -> Any:
    grouped = left(side).groupBy(sf.window("ts", "10 seconds"), "k")
    counted = grouped.agg(sf.count("*").alias("n"), sf.max("id").alias("most"))
    return whole_state(side, counted.selectExpr("string(window.start)", "k", "n", "most"))


@case()
def state_of_what_is_distinct(side: Side) -> Any:
    distinct = left(side).dropDuplicatesWithinWatermark(["id"])
    return whole_state(side, distinct.select("id"))


@case()
def state_of_sessions(side: Side) -> Any:
    sessions = left(side).groupBy(sf.session_window("ts", "1 second"), "k").count()
    return whole_state(side, sessions.select("k", "count"))


@case()
def state_of_a_join(side: Side) -> Any:
    near = "k = rk AND id = rid AND rt BETWEEN ts - INTERVAL 2 SECONDS AND ts + INTERVAL 4 SECONDS"
    joined = left(side).join(right(side), sf.expr(near), "leftOuter").select("id", "rid")
    return whole_state(side, joined, joinSide="left")


# ---- progress


class Listening(StreamingQueryListener):
    """All that an event says and that hangs on no clock."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        self.events.append(["started", event.name])

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        said = json.loads(event.progress.json)
        self.events.append([
            "progress", said["batchId"], said["numInputRows"], sorted(said),
            sorted(said["durationMs"]), said.get("eventTime", {}).get("watermark"),
            sorted((said.get("observedMetrics") or {}).items(), key=str),
            said["sink"].get("numOutputRows"), [self.operator(o) for o in said["stateOperators"]],
        ])  # fmt: skip

    def operator(self, said: dict[str, Any]) -> Any:
        counts = ("numRowsTotal", "numRowsUpdated", "numRowsRemoved", "numRowsDroppedByWatermark",
                  "numShufflePartitions", "numStateStoreInstances")  # fmt: skip
        custom = sorted(said["customMetrics"])
        return [said["operatorName"], sorted(said), custom, [said[name] for name in counts]]

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        self.events.append(["terminated", event.exception is None])


def told(side: Side, write: Callable[[], Any]) -> Any:
    listener = Listening()
    side.spark.streams.addListener(listener)
    try:
        write()
        side.spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    finally:
        side.spark.streams.removeListener(listener)
    return listener.events


def to_files(side: Side, answers: DataFrame) -> Any:
    into = str(side.fresh("files"))
    writer = answers.writeStream.format("parquet").option("path", into)
    return told(side, lambda: side.end(writer))


@case()
def progress_of_windows(side: Side) -> Any:
    twice = sf.udf(lambda n: 2 * n, "long")
    below = side.late().observe("below", sf.count(sf.lit(1)).alias("n"), sf.max("id").alias("m"))
    counted = below.groupBy(sf.window("ts", "10 seconds"), "k").count()
    doubled = counted.withColumn("t", twice("count"))
    flat = doubled.selectExpr("string(window.start) AS w", "k", "count", "t")
    return to_files(side, flat.observe("above", sf.sum("count").alias("x")))


@case()
def progress_of_what_is_distinct(side: Side) -> Any:
    return to_files(side, side.late().dropDuplicatesWithinWatermark(["id"]).select("id"))


@case()
def progress_of_a_join(side: Side) -> Any:
    other = side.late().selectExpr("id AS rid", "ts AS rt")
    near = sf.expr("id = rid AND rt BETWEEN ts AND ts + INTERVAL 1 SECOND")
    return to_files(side, side.late().join(other, near, "leftOuter").select("id", "rid"))


@case()
def progress_of_a_sink_without_files(side: Side) -> Any:
    counted = side.rows().groupBy("k").count()
    writer = counted.writeStream.outputMode("update").format("noop")
    return told(side, lambda: side.end(writer))


# ---- tasks


def of_tasks(side: Side, write: Callable[[], Any]) -> Any:
    """What the UI and sparkMeasure add up, of what the work makes."""
    context = side.spark.sparkContext
    scala, jvm = context._jsc.sc(), side.spark._jvm
    assert jvm is not None

    def stages() -> Any:
        scala.listenerBus().waitUntilEmpty()
        no_quantiles = context._gateway.new_array(jvm.double, 0)
        found = scala.statusStore().stageList(None, False, False, no_quantiles, None)
        return {s.stageId(): s for s in (found.apply(i) for i in range(found.size()))}

    before = set(stages())
    write()
    mine = [stage for number, stage in stages().items() if number not in before]
    metrics = ("numTasks", "numCompleteTasks", "numFailedTasks", "inputRecords", "outputRecords",
               "shuffleReadRecords", "shuffleWriteRecords", "outputBytes")  # fmt: skip
    sums = {name: sum(int(getattr(stage, name)()) for stage in mine) for name in metrics}
    sums["outputBytes"] = int(sums["outputBytes"] > 0)  # how rows are ordered makes other files
    return sums, len(mine)


@case(gate=True)
def task_metrics_of_an_aggregate(side: Side) -> Any:
    counted = side.late().groupBy(sf.window("ts", "10 seconds"), "k").count()
    writer = (
        counted.select("k", "count")
        .writeStream.format("parquet")
        .option("path", str(side.fresh("files")))
    )
    return of_tasks(side, lambda: side.end(writer))


@case()
def task_metrics_of_what_is_distinct_and_joined(side: Side) -> Any:
    distinct = side.late().dropDuplicatesWithinWatermark(["id"]).select("id", "ts")
    other = side.late().selectExpr("id AS rid", "ts AS rt")
    near = sf.expr("id = rid AND rt BETWEEN ts AND ts + INTERVAL 1 SECOND")
    twice = sf.udf(lambda n: 2 * n, "long")
    joined = distinct.join(other, near).select("id", twice("rid").alias("rid"))
    writer = joined.writeStream.format("parquet").option("path", str(side.fresh("files")))
    return of_tasks(side, lambda: side.end(writer))
