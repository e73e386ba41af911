"""Exactly so many micro-batches of a query, back to back: the time of each, and what came out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from laneshift_bench.query import Build, Running, Source, batch_ms, running
from laneshift_bench.recorded import Recording
from laneshift_bench.sides import Side

START = "2026-01-01T00:00:00Z"
"""When row 0 is due: fixed, so that all sides get the same rows with the same times."""
LINE = "line"
CHECKED = 6
"""Batches whose results are compared, at most: enough for lanes to have come and gone."""

Command = Callable[[Running], None]


@dataclass(frozen=True)
class Batches:
    """Times of a run's micro-batches.

    Attributes:
        ms: of each batch, the first one included.
        first: so many are left out of :attr:`settled_ms`: the JVM and lanes learn in them.
        digest: of all rows that came out, whatever their order; empty if not asked for.
    """

    ms: tuple[float, ...]
    first: int
    digest: str = ""

    @property
    def settled_ms(self) -> float:
        """The median of the later batches."""
        return float(median(self.ms[self.first :]))

    @property
    def all_ms(self) -> float:
        """The mean of all batches, so with those in which something is learnt."""
        return float(mean(self.ms))

    @property
    def learning_ms(self) -> float:
        """The mean of the first batches."""
        return float(mean(self.ms[: self.first]))

    def data(self) -> dict[str, object]:
        """For JSON."""
        return {"batch_ms": list(self.ms), "first": self.first}


@dataclass(frozen=True)
class Stream:
    """A stream that ends after so many micro-batches of so many rows each.

    Attributes:
        source: options of the workload source, beside those of length and time; or a recording.
        build: the query, whose output has a column ``event_time``.
        rows: that the source gives in a batch.
        batches: in all.
        first: of them not in the median.
        mode: output mode.
    """

    source: Mapping[str, object] | Recording
    build: Build
    rows: int
    batches: int
    first: int
    mode: str = "update"

    def run(
        self, spark: SparkSession, work: Path, side: Side, command: Command | None = None,
        check: bool = False,
    ) -> Batches:  # fmt: skip
        """Run it to its end.

        Args:
            command: called once the first rows have come out: lanes by hand.
            check: the first batches only, read by one source task, so that a key's rows have one
                order on all sides, with the digest of what comes out. Its times are not for tables.
        """
        batches = min(self.batches, CHECKED) if check else self.batches
        source = self._source(batches, check)
        build = with_line(self.build) if check else self.build
        line = LINE if check else None
        with running(spark, work, side, source, build, None, mode=self.mode, line=line) as run:
            if command is not None:
                command(run)
            times = batch_ms(run, 0, batches)
            if not check:
                return Batches(tuple(times), self.first)
            run.query.processAllAvailable()
            run.check()
            return Batches(tuple(times), min(self.first, batches - 1), digest(run.meter.lines()))

    def _source(self, batches: int, check: bool) -> Source:
        if isinstance(self.source, Recording):
            # A batch is one file, so that one task reads it.
            return self.source.stream(self.rows, batches)
        options = dict(self.source) | {
            "pacing": "none", "rowsPerBatch": self.rows, "totalRows": self.rows * batches,
            "startTime": START,
        }  # fmt: skip
        return options | {"numPartitions": 1} if check else options


def digest(lines: list[str]) -> str:
    """Of lines in any order; how many there are is before the colon."""
    text = "\n".join(sorted(lines)).encode()
    return f"{len(lines)}:{hashlib.sha256(text).hexdigest()[:16]}"


def with_line(build: Build) -> Build:
    """``build`` with a column that tells its rows apart."""

    def built(rows: DataFrame) -> DataFrame:
        found = build(rows)
        # A hash of the whole row: short, and payloads have line ends in them.
        return found.withColumn(LINE, sf.xxhash64(*found.columns).cast("string"))

    return built
