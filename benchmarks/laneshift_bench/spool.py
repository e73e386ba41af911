"""What measuring sinks found in processes of their own, by the files that their tasks write."""

from __future__ import annotations

import math
import shutil
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession

from laneshift_bench.measure import SLOT_MS, Latency, Measurement, Meter


@dataclass(slots=True)
class Slots:
    """Rows by slot (ms since 1970), and rows by latency (us), of as many lines as were added."""

    rows: Counter[int] = field(default_factory=Counter)
    counts: Counter[int] = field(default_factory=Counter)

    def add(self, line: str) -> None:
        """Add one line of a sink task: ``1700000000000 3 1200:2 5400:1``."""
        at, rows, *latencies = line.split()
        self.rows[int(at)] += int(rows)
        for pair in latencies:
            us, times = pair.split(":")
            self.counts[int(us)] += int(times)

    @property
    def latency(self) -> Latency:
        """Of all rows, with :attr:`~laneshift_bench.measure.Latency.counts`."""
        return latency_of(self.counts)


def latency_of(counts: Mapping[int, int]) -> Latency:
    """Latency of rows by microseconds; NaN without rows."""
    pairs = tuple(sorted(counts.items()))
    rows = sum(counts.values())
    nothing = Latency(rows, math.nan, math.nan, math.nan, math.nan, pairs)
    mean = sum(us * n for us, n in pairs) / rows / 1e3 if rows else math.nan
    return replace(Latency.merged([nothing]), counts=pairs, mean_ms=mean)


class SpoolMeter(Meter):
    """A :class:`~laneshift_bench.measure.Meter` of a sink whose tasks write to ``folder``.

    What a task found in a slot of 100 ms is seen once that is over and another row has come. It
    does not tell steady rows from others, and keeps no lines.
    """

    def __init__(self, spark: SparkSession, name: str, folder: Path) -> None:
        super().__init__(spark, name)
        self._folder = folder
        self._read: dict[Path, int] = {}
        self._slots = Slots()
        self._begun = time.monotonic()

    def begin(self) -> None:
        """Forget what came so far."""
        self._look()
        self._forget()

    def read(self) -> Measurement:
        """What came since :meth:`begin`."""
        self._look()
        found = self._slots
        counts = [found.rows[at] for at in sorted(found.rows)][1:-1]
        return Measurement(
            found.rows.total(),
            time.monotonic() - self._begun,
            float(np.median(counts)) * 1000 / SLOT_MS if counts else 0.0,
            found.latency,
            latency_of({}),
        )

    def lap(self) -> tuple[list[tuple[int, int]], Latency]:
        """Slots (ms since 1970, rows) and latency of all rows since the last call, or the start."""
        self._look()
        found = self._slots
        self._forget()
        return sorted(found.rows.items()), found.latency

    def drop(self) -> None:
        """Remove the files."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _forget(self) -> None:
        self._slots = Slots()
        self._begun = time.monotonic()

    def _look(self) -> None:
        """Whole lines that tasks have written since the last look."""
        for file in sorted(self._folder.glob("*.slots")):
            with file.open("rb") as lines:
                lines.seek(self._read.get(file, 0))
                new = lines.read()
            whole = new.rfind(b"\n") + 1
            self._read[file] = self._read.get(file, 0) + whole
            for line in new[:whole].decode().splitlines():
                self._slots.add(line)
