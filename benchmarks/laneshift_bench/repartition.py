"""What Spark offers without laneshift for a change of parallelism: stop, repartition, start again.

The engine's own resource-centric way: the query stands still while Spark rewrites all of its state
for another number of partitions (``StreamingCheckpointManager.repartition``, Spark 4.2 and later).
To compare laneshift's lanes with. A checkpoint that was written under
laneshift may be repartitioned, and a query with laneshift may go on from the new one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from laneshift.api.lookup import whole_numbers
from laneshift.durations import Duration, seconds
from laneshift.errors import error

__all__ = ["RepartitionedQuery", "Rescaling"]

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

PARTITIONS = "spark.sql.shuffle.partitions"
UNFINISHED = "LAST_BATCH_FAILED"
"""Spark's name for a checkpoint whose last batch was started and not committed."""

POLL_S = 0.005


@dataclass(frozen=True, slots=True)
class Rescaling:
    """How long each step of a rescaling took (s).

    Attributes:
        before, after: state partitions.
        stop_s: until the query had stopped.
        finish_s: until the batch in which it was stopped was done again; 0 if there was none.
        repartition_s: until Spark had rewritten the state.
        start_s: from the start of the query until its first batch had ended, or until it waited for
            data. In Real-time Mode a batch lasts as long as its trigger says.
    """

    before: int
    after: int
    stop_s: float
    finish_s: float
    repartition_s: float
    start_s: float

    @property
    def total_s(self) -> float:
        """All of it: for so long no new row was answered."""
        return self.stop_s + self.finish_s + self.repartition_s + self.start_s


class RepartitionedQuery:
    """A stateful query whose number of state partitions changes the engine's own way.

        query = RepartitionedQuery(spark, orders, "/checkpoints/orders", {"processingTime": "1 s"})
        query.start()
        print(query.rescale(16))

    Args:
        spark: a classic session. The first start takes ``spark.sql.shuffle.partitions`` from it,
            later ones go by the checkpoint.
        writer: makes the query on that session, up to ``writeStream`` with its sink, output mode
            and options; checkpoint and trigger are set here.
        checkpoint: its checkpoint's folder. Spark repartitions state of its RocksDB provider only.
        trigger: arguments of ``DataStreamWriter.trigger``; none for one batch after the other.
        timeout: longest wait for a batch (> 0).
    """

    def __init__(
        self,
        spark: SparkSession,
        writer: Callable[[SparkSession], DataStreamWriter],
        checkpoint: str,
        trigger: dict[str, Any] | None = None,
        timeout: Duration = "10min",
    ) -> None:
        self._spark = spark
        self._writer = writer
        self._checkpoint = str(checkpoint)
        self._trigger = dict(trigger or {})
        self._timeout_s = seconds("timeout", timeout, low_open=True)
        self._query: StreamingQuery | None = None
        self._partitions: int | None = None

    @property
    def query(self) -> StreamingQuery:
        """The running query, or the one that ran last. Errors: RuntimeError before the start."""
        if self._query is None:
            raise RuntimeError(
                f"The query of {self._checkpoint} has not been started: call start()."
            )
        return self._query

    def start(self) -> StreamingQuery:
        """Start the query, or go on from its checkpoint; a query that runs is returned as it is."""
        if self._query is None or not self._query.isActive:
            self._query = self._started(self._trigger)
        return self._query

    def stop(self) -> None:
        """Stop the query; a later :meth:`start` goes on."""
        self.query.stop()

    def rescale(self, partitions: int) -> Rescaling:
        """Give the running query another number of state partitions (>= 1).

        A batch that the stop has cut short is done again first, with the old partitions: sinks that
        know a batch by its number would get its rows twice otherwise.

        Errors: ArgumentError for anything but another number than now, RuntimeError before the
        start, if Spark refuses (the query has stopped then; :meth:`start` goes on), or if no batch
        ends in time. What the query fails with comes out as it is.
        """
        before = self.partitions
        (partitions,) = whole_numbers(
            "Give the number of state partitions to go on with.", partitions=partitions
        )
        if partitions < 1 or partitions == before:
            raise error(
                "LANESHIFT_OUT_OF_RANGE",
                argument="partitions",
                value=partitions,
                range=f"1 or more, and another number than the {before} of now",
                remedy="The query runs on as it was.",
            )
        began = time.monotonic()
        self.query.stop()
        stopped = time.monotonic()
        finish_s = self._finish(partitions)
        self._partitions = partitions
        repartitioned = time.monotonic()
        self._query = self._started(self._trigger)
        self._first_batch(self._query)
        return Rescaling(
            before,
            partitions,
            stop_s=stopped - began,
            finish_s=finish_s,
            repartition_s=repartitioned - stopped - finish_s,
            start_s=time.monotonic() - repartitioned,
        )

    @property
    def partitions(self) -> int:
        """State partitions of the query, once a batch has ended; waits for that.

        Errors: RuntimeError before the start, if no batch ends in time, or without a stateful
        operator.
        """
        query = self.query
        if self._partitions is None:
            done = self._first_batch(query, idle_is_enough=False)
            if done is None or not done.stateOperators:
                raise self._refused("another number of", "the query has no stateful operator")
            self._partitions = int(done.stateOperators[0].numShufflePartitions)
        return self._partitions

    def _started(self, trigger: dict[str, Any]) -> StreamingQuery:
        made = self._writer(self._spark).option("checkpointLocation", self._checkpoint)
        return (made.trigger(**trigger) if trigger else made).start()

    def _finish(self, partitions: int) -> float:
        """Repartition, an unfinished batch first; the seconds that the batch took, 0 without."""
        refusal = self._repartition(partitions)
        if UNFINISHED not in str(refusal):
            if refusal is not None:
                raise self._refused(partitions, refusal) from refusal
            return 0.0
        began = time.monotonic()
        last = self._started({"once": True})
        if not last.awaitTermination(math.ceil(self._timeout_s)):
            last.stop()
            raise self._no_batch(last)
        finish_s = time.monotonic() - began
        refusal = self._repartition(partitions)
        if refusal is not None:
            raise self._refused(partitions, refusal) from refusal
        return finish_s

    def _repartition(self, partitions: int) -> Exception | None:
        """Why Spark refuses, None if it does not."""
        try:
            self._spark._streamingCheckpointManager.repartition(self._checkpoint, partitions)
        except Exception as refusal:  # of many classes, by the kind of checkpoint
            return refusal
        return None

    def _first_batch(
        self, query: StreamingQuery, *, idle_is_enough: bool = True
    ) -> StreamingQueryProgress | None:
        """A batch that has ended, once there is one; None if the query rests or ends without."""
        end = time.monotonic() + self._timeout_s
        while True:
            done = [p for p in query.recentProgress if "addBatch" in p.durationMs]
            if done:
                return done[-1]
            failure = query.exception()
            if failure is not None:
                raise failure
            rests = str(query.status["message"]).startswith("Waiting for")
            if not query.isActive or (idle_is_enough and rests):
                return None
            if time.monotonic() > end:
                raise self._no_batch(query)
            time.sleep(POLL_S)

    def _no_batch(self, query: StreamingQuery) -> Exception:
        return RuntimeError(
            f"No batch of the query of {self._checkpoint} has ended within {self._timeout_s:g} s "
            f"(it says: {query.status['message']}): give it more with timeout."
        )

    def _refused(self, partitions: object, cause: object) -> Exception:
        said = str(cause).partition("\n")[0]
        return RuntimeError(
            f"State in {self._checkpoint} was not rewritten for {partitions} partitions: {said}. "
            "If the query has stopped, start() goes on from its checkpoint."
        )
