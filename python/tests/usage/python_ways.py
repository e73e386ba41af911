"""What stands around and in Python functions: profilers, writers, sources, sinks, failures."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    SimpleDataSourceStreamReader,
    WriterCommitMessage,
)

from usage.harness import Side, case, comes, in_order

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame


def counts(side: Side) -> DataFrame:
    return side.rows().groupBy("k").agg(sf.count("*").alias("n"), sf.sum("id").alias("x"))


def stateful(side: Side, fails: Any = lambda key: False) -> DataFrame:
    def count(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        n = (state.get[0] if state.exists else 0) + sum(map(len, frames))
        state.update((n,))
        if fails(key[0]):
            raise KeyError("once")
        yield pd.DataFrame({"k": [int(key[0])], "n": [n]})

    return side.rows().groupBy("k").applyInPandasWithState(
        count, "k LONG, n LONG", "n LONG", "update", "NoTimeout"
    )  # fmt: skip


# ---- profiler


@case()
def profiler(side: Side) -> Any:
    """What it says of functions below, in and above a state: each of them, with all its calls."""
    below = sf.udf(lambda x: x + 1, "long")
    above = sf.udf(lambda n: 2 * n, "long")
    side.spark.conf.set("spark.sql.pyspark.udf.profiler", "perf")
    try:
        rows = side.rows().withColumn("w", below("id"))
        counted = rows.groupBy("k").agg(sf.sum("w").alias("n"))
        answers = side.collect(counted.withColumn("u", above("n")), "update")
        answers += side.collect(stateful(side), "update")
    finally:
        side.spark.conf.unset("spark.sql.pyspark.udf.profiler")
    profiles = side.spark._profiler_collector._perf_profile_results
    calls = []
    for stats in profiles.values():
        own = [n for (f, _, name), (_, n, *_) in stats.stats.items() if "python_ways" in f]
        calls.append(sorted(own, reverse=True)[:1])
    side.spark.profile.clear()
    return sorted(calls), answers


# ---- writers, sources, sinks


class Lines:
    """A foreach writer that says all that it is told."""

    def __init__(self, into: Path) -> None:
        self.into = into

    def open(self, partition: int, epoch: int) -> bool:
        self.where = f"{epoch}-{partition}"
        self.lines = [f"open {self.where}"]
        return True

    def process(self, row: Any) -> None:
        self.lines.append(json.dumps(list(row)))

    def close(self, error: Exception | None) -> None:
        self.lines.append(f"close {error}")
        text = "\n".join([self.lines[0], *sorted(self.lines[1:])])
        (self.into / self.where).write_text(text)


def texts(folder: Path) -> list[Any]:
    return sorted(file.read_text().splitlines() for file in folder.iterdir())


@case(gate=True)
def foreach_writer(side: Side) -> Any:
    into = side.fresh("lines")
    side.end(counts(side).writeStream.outputMode("update").foreach(Lines(into)))
    return texts(into)


@case()
def foreach_writer_behind_a_function(side: Side) -> Any:
    into = side.fresh("lines")
    twice = sf.udf(lambda n: 2 * n, "long")
    distinct = side.rows().dropDuplicates(["id"]).select(twice("id"))
    side.end(distinct.writeStream.foreach(Lines(into)))
    return texts(into)


@case()
def foreach_function(side: Side) -> Any:
    into = side.fresh("rows")

    def write(row: Any) -> None:
        (into / f"{row['k']}-{row['n']}").write_text(str(row["x"]))

    side.end(counts(side).writeStream.outputMode("update").foreach(write))
    return sorted([file.name, file.read_text()] for file in into.iterdir())


SCHEMA = "id LONG, k LONG, t STRING"
ROWS, STEP = 600, 200


class Simple(SimpleDataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"at": 0}

    def read(self, start: dict[str, int]) -> Any:
        end = min(start["at"] + STEP, ROWS)
        return self.readBetweenOffsets(start, {"at": end}), {"at": end}

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Any:  # noqa: N802
        return iter([(i, i * i % 37, f"t{i}") for i in range(start["at"], end["at"])])

    def commit(self, end: dict[str, int]) -> None:
        pass


class Parts(DataSourceStreamReader):
    def __init__(self) -> None:
        self.at = 0

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"at": 0}

    def latestOffset(self) -> dict[str, int]:  # noqa: N802
        self.at = min(self.at + STEP, ROWS)
        return {"at": self.at}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        middle = (start["at"] + end["at"]) // 2
        bounds = [(start["at"], middle), (middle, end["at"])]
        return [InputPartition(b) for b in bounds]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, int, str]]:
        first, end = partition.value
        for i in range(first, end):
            yield i, i * i % 37, f"t{i}"


class Sink(DataSourceStreamWriter):
    def __init__(self, into: str) -> None:
        self.into = into

    def write(self, rows: Iterator[Any]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        lines = sorted(json.dumps(list(row)) for row in rows)
        with open(f"{self.into}/part-{context.taskAttemptId()}", "w") as file:
            file.write("\n".join(lines))
        return WriterCommitMessage()

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        lines: list[str] = []
        for name in sorted(os.listdir(self.into)):
            if name.startswith("part-"):
                with open(f"{self.into}/{name}") as file:
                    lines += file.read().splitlines()
                os.remove(f"{self.into}/{name}")
        with open(f"{self.into}/batch-{batchId}", "w") as file:
            file.write("\n".join([f"{len(messages)} parts", *sorted(lines)]))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        with open(f"{self.into}/aborted-{batchId}", "w") as file:
            file.write("aborted")


class Numbers(DataSource):
    @classmethod
    def name(cls) -> str:
        return "usage-numbers"

    def schema(self) -> str:
        return SCHEMA

    def simpleStreamReader(self, schema: Any) -> SimpleDataSourceStreamReader:  # noqa: N802
        return Simple()

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        return Sink(self.options["into"])


class NumbersInParts(Numbers):
    @classmethod
    def name(cls) -> str:
        return "usage-numbers-in-parts"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        return Parts()


def of_python(side: Side, source: type[Numbers]) -> DataFrame:
    side.spark.dataSource.register(source)
    return side.spark.readStream.format(source.name()).load()


def steps(side: Side, answers: DataFrame, mode: str) -> Any:
    """A Python source has no end that Spark knows of: until it has given all."""
    got: list[Any] = []

    def keep(batch: DataFrame, number: int) -> None:
        got.extend((number, *row) for row in batch.collect())

    query = (
        answers.writeStream.outputMode(mode)
        .foreachBatch(keep)
        .option("checkpointLocation", str(side.fresh("checkpoint")))
        .start()
    )
    side.until(query, lambda: sum(p["numInputRows"] for p in query.recentProgress) == ROWS)
    return in_order(got)


@case()
def simple_source(side: Side) -> Any:
    return steps(side, of_python(side, Numbers).groupBy("k").count(), "update")


@case()
def source_in_parts(side: Side) -> Any:
    tripled = sf.udf(lambda i: 3 * i, "long")
    rows = of_python(side, NumbersInParts).dropDuplicates(["k"])
    return steps(side, rows.select("k", tripled("k")), "append")


@case()
def sink(side: Side) -> Any:
    into = side.fresh("sink")
    # Spark looks for a sink in the session that is active, whosever the query is.
    for session in (side.spark, SparkSession.active()):
        session.dataSource.register(Numbers)
    distinct = side.rows().dropDuplicates(["id"]).select("id", "k")
    writer = distinct.writeStream.format("usage-numbers")
    side.end(writer.option("into", str(into)))
    return [[file.name, file.read_text().splitlines()] for file in sorted(into.iterdir())]


# ---- what fails once


def first_try(partition: int) -> bool:
    context = TaskContext.get()
    assert context is not None
    return context.attemptNumber() == 0 and context.partitionId() == partition


def with_state(side: Side, answers: DataFrame) -> Any:
    """The answers of a query in update mode, and the state that it leaves."""
    checkpoint = side.fresh("checkpoint")
    found = side.collect(answers, "update", None, checkpoint)
    rows = side.spark.read.format("statestore").load(str(checkpoint))
    return found, in_order(rows.selectExpr("to_json(struct(key, value))").collect())


@case()
def function_above_a_state_raises_once(side: Side) -> Any:
    def raises(n: int) -> int:
        if first_try(1) and n % 5 == 0:
            raise RuntimeError("once")
        return n + 1

    return with_state(side, counts(side).withColumn("u", sf.udf(raises, "long")("n")))


@case()
def function_of_a_state_raises_once(side: Side) -> Any:
    return with_state(side, stateful(side, lambda key: first_try(1) and key % 11 == 4))


@case()
def worker_is_killed_once(side: Side) -> Any:
    """As the kernel does it, out of memory."""

    def dies(x: int) -> int:
        if first_try(0) and x % 7 == 3:
            os.kill(os.getpid(), 9)
        return x + 2

    return with_state(side, counts(side).withColumn("u", sf.udf(dies, "long")("x")))


@case()
def worker_of_a_state_is_killed_once(side: Side) -> Any:
    def dies(key: int) -> bool:
        if first_try(0) and key % 11 == 4:
            os.kill(os.getpid(), 9)
        return False

    return with_state(side, stateful(side, dies))


def raises_once(partition: int, remainder: int) -> Any:
    def raises(x: int) -> int:
        if first_try(partition) and x % 100 == remainder:
            raise ValueError("once")
        return x + 3

    return sf.udf(raises, "long")


@case(still=True)
def stateless_function_raises_once(side: Side) -> Any:
    return side.collect(side.rows().select("id", raises_once(0, 77)("id")), "append")


@case()
def function_above_a_join_raises_once(side: Side) -> Any:
    other = side.late().selectExpr("id AS other", "k AS l", "ts AS t")
    near = "id = other AND t BETWEEN ts - INTERVAL 1 SECOND AND ts + INTERVAL 1 SECOND"
    joined = side.late().join(other, sf.expr(near), "leftOuter")
    return side.collect(joined.select("id", raises_once(1, 0)("id"), "l"), "append")


@case(refused=True)
def function_that_always_raises(side: Side) -> Any:
    def raises(n: int) -> int:
        raise RuntimeError("always")

    return side.collect(counts(side).withColumn("u", sf.udf(raises, "long")("n")), "update")


@case()
def function_that_hangs_when_the_query_stops(side: Side) -> Any:
    """The slots are free again, and the checkpoint goes on."""
    mark, checkpoint = side.folder / "go", side.fresh("checkpoint")
    hanging = side.folder / "hanging"

    def hangs(n: int) -> int:
        import threading

        if not mark.exists():
            hanging.touch()
            threading.Event().wait()
        return n + 1

    answers = counts(side).withColumn("u", sf.udf(hangs, "long")("n"))
    writer = answers.writeStream.outputMode("update").format("noop")
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    tracker = side.spark.sparkContext._jsc.sc().statusTracker()

    def running() -> int:
        return sum(executor.numRunningTasks() for executor in tracker.getExecutorInfos())

    hung = comes(hanging.exists)
    query.stop()
    free = comes(lambda: running() == 0)
    mark.touch()
    return hung, free, side.collect(answers, "update", None, checkpoint)


# ---- workers


@case()
def small_batches_for_workers(side: Side) -> Any:
    def half(n: pd.Series) -> pd.Series:
        return n // 2

    conf = side.spark.conf
    conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "7")
    conf.set("spark.sql.execution.pandas.udf.buffer.size", "4096")
    try:
        halved = sf.pandas_udf(half, "long")
        rows = side.collect(counts(side).withColumn("h", halved("n")), "update")
        return rows, side.collect(stateful(side), "update")
    finally:
        conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
        conf.unset("spark.sql.execution.pandas.udf.buffer.size")
