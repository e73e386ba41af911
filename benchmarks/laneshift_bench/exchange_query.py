"""The exchange as a running query: recorded orders, two stateful operators, checked answers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from laneshift.api.application import Application
from laneshift_bench.driven import LAP_S, LEAD_S, Driven, scheduled
from laneshift_bench.exchange_answers import Answer, answers, difference
from laneshift_bench.exchange_cluster import DriverMeter, Workers
from laneshift_bench.exchange_orders import SCHEMA, Orders
from laneshift_bench.measure import Meter
from laneshift_bench.query import BenchmarkError, Running, as_side, await_rows, measured
from laneshift_bench.setting import RESOURCE_CENTRIC, STOCK, Setting
from laneshift_bench.sides import Side

LINE, DUE = "line", "event_time"
DRAIN_S = 240.0
MOST_LATE_S = 20.0
"""A first micro-batch has its interval, its work and the start of a JVM in it."""
_numbers = count()


@dataclass(frozen=True)
class Recorded:
    """Orders in a file, and what they have to be answered."""

    orders: Orders
    file: Path

    @classmethod
    def of(cls, orders: Orders, file: Path) -> Recorded:
        """Write them to ``file``."""
        orders.write(file)
        return cls(orders, file)

    @cached_property
    def expected(self) -> list[Answer]:
        """Of each order, by its number."""
        return answers(self.orders)


@dataclass(frozen=True)
class Traded:
    """A run in which every order was answered, and right.

    Attributes:
        driven: what was measured.
        answered_s: when the last order was answered (s after the first was due).
        moves: shards that moved between lanes.
        rescales: how often another number of partitions was asked for.
        elsewhere_bytes: what went to lanes on other executors and came back (bytes).
    """

    driven: Driven
    answered_s: float
    moves: int
    rescales: int
    elsewhere_bytes: int

    @property
    def changes(self) -> int:
        """Lane counts that the policy has changed."""
        return self.driven.run.changes(0.0, self.driven.start_s)

    @property
    def turn_ms(self) -> float:
        """CPU time of the autoscaler's thread for a turn: measuring, deciding, carrying out."""
        run = self.driven.run
        return 1000 * run.thread_s[-1] / run.turns if run.turns and run.thread_s else float("nan")


def side_of(setting: Setting, name: str) -> Side:
    """How a query of that side is started.

    Only state is elastic: lanes of stages without it would be cores beyond those that are counted.
    """
    if name == STOCK:
        return setting.side(name)
    if name == RESOURCE_CENTRIC:  # executors of a core each
        whole = replace(setting, partitions=setting.stock_partitions, lanes=1)
        side = whole.side(name)
    else:
        side = setting.side(name)
    return replace(side, options=side.options | {"stateless": "false"})


def parameters(setting: Setting, name: str) -> dict[str, Any]:
    """Of the side's policy: what is not its default."""
    if name != RESOURCE_CENTRIC:
        return {}
    # A run lasts a minute or two: what is not earned back by then is not worth it.
    return {
        "rescale": True, "max_partitions": setting.stock_partitions,
        "rescale_payback_s": setting.seconds,
    }  # fmt: skip


def incoming(spark: SparkSession, setting: Setting, file: Path, start_s: float) -> DataFrame:
    """The recorded orders, as they become due from ``start_s`` on (s since 1970)."""
    reader = spark.readStream.format("laneshift-replay").schema(SCHEMA)
    options = setting.source(start_s)
    chosen = {name: options[name] for name in ("rate", "rateStages", "startTime", "numPartitions")}
    for name, value in (chosen | {"path": str(file), "sentColumn": "due"}).items():
        reader = reader.option(name, str(value))
    return reader.load()


def answered(orders: DataFrame, cost_us: int) -> DataFrame:
    """Each order's answer as a line, and when it was due."""
    spark = orders.sparkSession
    workload: Any = spark._jvm
    exchange = workload.org.apache.spark.sql.laneshift.workload.exchange.Exchange
    given: Any = orders
    found = ClassicDataFrame(exchange.answered(given._jdf, cost_us, cost_us), spark)
    shown = [name for name in found.columns if name != "due"]
    return found.select(
        sf.to_json(sf.struct(*shown)).alias(LINE), sf.timestamp_micros("due").alias(DUE)
    )


@contextmanager
def trading(
    spark: SparkSession, work: Path, setting: Setting, side: Side, file: Path, start_s: float,
    cluster: bool = False,
) -> Iterator[Running]:  # fmt: skip
    """The exchange on a side, from its first answer on, until the end of the block.

    Args:
        cluster: whether executors are processes of their own.
    """
    name = f"exchange{next(_numbers)}"
    trigger: dict[str, Any] = {"realTime": setting.batch}
    if setting.batch is None:
        trigger = {"processingTime": f"{round(1000 * setting.every_s)} milliseconds"}
    with as_side(spark, side):
        lines = answered(incoming(spark, setting, file, start_s), setting.cost_us)
        written, meter = _to_sink(lines, name, cluster)
        written = written.option("checkpointLocation", str(work / name)).outputMode("update")
        found = Running(written.trigger(**trigger).start(), meter)
        try:
            await_rows(found)
            yield found
        finally:
            found.query.stop()
            found.meter.drop()


def _to_sink(lines: DataFrame, name: str, cluster: bool) -> tuple[DataStreamWriter, Meter]:
    if cluster:
        meter = DriverMeter(DUE, LINE)
        return lines.writeStream.foreachBatch(meter.take), meter
    written = measured(lines, name).option("timeColumn", DUE).option("lineColumn", LINE)
    return written, Meter(lines.sparkSession, name)


def trade(
    spark: SparkSession, work: Path, setting: Setting, side: str, recorded: Recorded,
    most_late_s: float = MOST_LATE_S, workers: Workers | None = None,
) -> Traded:  # fmt: skip
    """Run a side until it has answered all orders.

    Args:
        most_late_s: how much later than due the first answer may come.
        workers: executors, if they are processes of their own.

    Errors: BenchmarkError if an answer is missing, comes twice or is not what it has to be.
    """
    # Micro-batches begin at whole multiples of their interval.
    whole = setting.every_s if setting.batch is None else 0.001
    start_s = round((time.time() + LEAD_S) // whole * whole + whole, 3)
    with (
        trading(
            spark, work, setting, side_of(setting, side), recorded.file, start_s,
            workers is not None,
        ) as query,
        scheduled(
            spark, setting, side, query, start_s, most_late_s=most_late_s,
            cores=workers.cores if workers else setting.cores, **parameters(setting, side),
        ) as driven,
    ):  # fmt: skip
        before = elsewhere_bytes(driven)
        lines = _watch(driven, len(recorded.orders))
        # While it runs: a query that has ended tells nothing.
        elsewhere = elsewhere_bytes(driven) - before
        moved = moves(driven.app, str(query.query.runId)) if driven.app is not None else 0
        driven.finish()
    if wrong := difference(recorded.expected, lines):
        raise BenchmarkError(f"{setting.name}, {side}: {wrong}")
    last = max(driven.run.counts, default=0.0)
    rescales = sum(len(d.rescales) for d in driven.run.decisions if d.applied)
    return Traded(driven, last, moved, rescales, elsewhere)


def _watch(driven: Driven, orders: int) -> Sequence[str]:
    """Laps until the stages are over and all orders are answered: the answers."""
    lines: list[str] = []
    seconds, due = driven.setting.seconds, time.time()
    while (at := time.time() - driven.start_s) < seconds or len(lines) < orders:
        if at > seconds + DRAIN_S:
            # What is missing is told by who compares.
            return lines
        due = max(due + LAP_S, time.time())
        time.sleep(max(due - time.time(), 0.0))
        driven.running.check()
        driven.lap()
        lines += driven.running.meter.lines()
    return lines + driven.running.meter.lines()


def moves(app: Application, run_id: str) -> int:
    """Shards of a run that have moved between lanes since it began."""
    mine = [query for query in app.snapshot().queries if query.run_id == run_id]
    return sum(p.handoffs for query in mine for o in query.operators for p in o.partitions)


def elsewhere_bytes(driven: Driven) -> int:
    """What executors have sent to lanes elsewhere, and what came back, since they started."""
    executors = driven.app.snapshot().executors if driven.app is not None else ()
    return sum(each.remote_bytes_sent + each.remote_bytes_received for each in executors)
