"""The exchange where executors are processes of their own, which have no sink that can be read."""

from __future__ import annotations

import math
import os
import re
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyspark
from pyspark.sql import DataFrame

from laneshift_bench.exchange_case import CORES
from laneshift_bench.measure import SLOT_MS, Latency, Measurement, Meter
from laneshift_bench.query import BenchmarkError

FORM = re.compile(r"local-cluster\[(\d+),(\d+),(\d+)\]")
EXAMPLE = "local-cluster[2,16,2048]"


@dataclass(frozen=True)
class Workers:
    """Executor processes on this machine.

    Attributes:
        count: how many.
        slots: task slots of each.
        memory_mb: of each.
    """

    count: int
    slots: int
    memory_mb: int

    @classmethod
    def of(cls, master: str) -> Workers:
        """Of a master's name. Errors: BenchmarkError if it is none of a cluster in processes."""
        found = FORM.fullmatch(master)
        if found is None:
            raise BenchmarkError(f"The master is {master}, expected one such as {EXAMPLE}.")
        count, slots, memory_mb = map(int, found.groups())
        if not count or CORES % count or slots < CORES // count:
            raise BenchmarkError(
                f"{master} has {count} executors with {slots} slots each, expected a divisor of "
                f"{CORES} with {CORES} slots in all at least, such as {EXAMPLE}."
            )
        return cls(count, slots, memory_mb)

    @property
    def cores(self) -> int:
        """Emulated cores of each."""
        return CORES // self.count

    @property
    def settings(self) -> dict[str, str]:
        """Of the session."""
        os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
        return {
            "spark.master": f"local-cluster[{self.count},{self.slots},{self.memory_mb}]",
            "spark.executor.memory": f"{max(512, self.memory_mb - 48)}m",
        }


class DriverMeter(Meter):
    """Takes a batch's answers in the driver: an order is answered as its batch ends."""

    def __init__(self, due: str, line: str) -> None:
        self._due, self._line = due, line
        self._lock = threading.Lock()
        self._rows = 0
        self._slots: Counter[int] = Counter()
        self._latencies: Counter[int] = Counter()
        self._lines: list[str] = []

    def take(self, batch: DataFrame, _: int) -> None:
        """For ``foreachBatch``."""
        found = batch.collect()
        now = time.time()
        with self._lock:
            self._rows += len(found)
            self._slots[math.floor(1000 * now / SLOT_MS) * SLOT_MS] += len(found)
            for row in found:
                self._latencies[max(round(1e6 * (now - row[self._due].timestamp())), 0)] += 1
                self._lines.append(row[self._line])

    def read(self) -> Measurement:
        """How many rows came; nothing else is known here."""
        none = Latency.merged(())
        return Measurement(self._rows, 0.0, 0.0, none, none)

    def lap(self) -> tuple[list[tuple[int, int]], Latency]:
        """As of the measuring sink."""
        with self._lock:
            slots = sorted(self._slots.items())
            counts = tuple(sorted(self._latencies.items()))
            self._slots.clear()
            self._latencies.clear()
        rows = sum(n for _, n in counts)
        every = Latency.merged([Latency(rows, 0.0, 0.0, 0.0, 0.0, counts)])
        return slots, Latency(rows, every.p50_ms, every.p99_ms, every.p999_ms, every.max_ms, counts)

    def lines(self) -> list[str]:
        """As of the measuring sink."""
        with self._lock:
            found, self._lines = self._lines, []
        return found

    def drop(self) -> None:
        """There is nothing in the JVM."""
