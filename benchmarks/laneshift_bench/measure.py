"""What the measuring sink found, as data."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

SLOT_MS = 100


@dataclass(frozen=True, slots=True)
class Latency:
    """Latency of ``count`` rows, from the time they were due to their arrival in the sink (ms).

    ``counts`` has (latency in us, rows) of all of them, to a percent: of laps it gives percentiles
    over all rows.
    """

    count: int
    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    counts: tuple[tuple[int, int], ...] = field(default=(), repr=False, compare=False)
    mean_ms: float = field(default=math.nan, compare=False)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Latency:
        """Read the sink's answer, which is in microseconds."""
        p50, p99, p999, most = (round(data[k] / 1e3, 3) for k in ("p50", "p99", "p999", "max"))
        counts = tuple((int(us), int(rows)) for us, rows in data.get("counts", ()))
        mean = round(float(data["mean"]) / 1e3, 3)
        return Latency(int(data["count"]), p50, p99, p999, most, counts, mean)

    @staticmethod
    def merged(laps: Iterable[Latency]) -> Latency:
        """Of all rows of these laps together, each with the same weight; NaN without rows."""
        rows: Counter[int] = Counter()
        for lap in laps:
            for us, n in lap.counts:
                rows[us] += n
        if not rows:
            return Latency(0, math.nan, math.nan, math.nan, math.nan)
        values = np.array(sorted(rows), dtype=np.float64)
        upto = np.cumsum([rows[int(value)] for value in values])

        def at_most(share: float) -> float:
            """The lowest value that so many rows do not exceed, as the sink's percentiles are."""
            return round(float(values[np.searchsorted(upto, share * upto[-1])]) / 1e3, 3)

        return Latency(int(upto[-1]), at_most(0.5), at_most(0.99), at_most(0.999), at_most(1.0))


@dataclass(frozen=True, slots=True)
class Measurement:
    """What came to a sink since it began to measure.

    Attributes:
        rows, seconds: rows that came, in how long.
        running_rows_per_s: median of the rates of 100 ms slots, so without the pauses between
            batches; slots before the first and after the last row are not counted.
        all: latency of all rows.
        steady: latency of the rows that were due at least a second after their batch's start,
            so without what waited for the pause between two batches.
    """

    rows: int
    seconds: float
    running_rows_per_s: float
    all: Latency
    steady: Latency

    @property
    def line(self) -> str:
        """Latencies in a few words."""
        steady, every = self.steady, self.all
        return f"p50 {steady.p50_ms} p99 {steady.p99_ms} ms, with pauses p99 {every.p99_ms} ms"

    @property
    def rows_per_s(self) -> float:
        """Rate over the whole time, pauses between batches included."""
        return self.rows / self.seconds


class Meter:
    """The measuring sink of one query, read from Python."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._jvm: Any = spark._jvm.org.apache.spark.sql.laneshift.workload.MeasureRegistry  # type: ignore[union-attr]
        self._name = name

    def begin(self) -> None:
        """Forget what came so far."""
        self._jvm.begin(self._name)

    def read(self) -> Measurement:
        """What came since :meth:`begin`."""
        data = json.loads(self._jvm.read(self._name))
        counts = [rows for _, rows in data["slots"]][1:-1]
        latency = data["latency_us"]
        return Measurement(
            int(data["rows"]),
            float(data["seconds"]),
            float(np.median(counts)) * 1000 / SLOT_MS if counts else 0.0,
            Latency.from_json(latency["all"]),
            Latency.from_json(latency["steady"]),
        )

    def lap(self) -> tuple[list[tuple[int, int]], Latency]:
        """Slots (ms since 1970, rows) and latency of all rows since the last call, or the start."""
        data = json.loads(self._jvm.take(self._name))
        slots = [(int(at), int(rows)) for at, rows in data["slots"]]
        return slots, Latency.from_json(data["latency_us"]["all"])

    def lines(self) -> list[str]:
        """Texts of the sink's `lineColumn` since the last call."""
        return [each.split(",", 1)[1] for each in str(self._jvm.lines(self._name)).splitlines()]

    def drop(self) -> None:
        """Let the JVM forget this sink."""
        self._jvm.drop(self._name)
