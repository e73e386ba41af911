"""What the live benchmarks of the autoscaler run: a load, emulated cores, and who divides them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from laneshift import inputcheck
from laneshift.errors import InputError
from laneshift.policies import registry
from laneshift.session.options import OPTIONS
from laneshift_bench.sides import Side, elastic, stock

FloatArray = NDArray[np.float64]
KEYS = 10_000
SHARDS = 64
INTERVAL_S = 0.5
"""Time from one turn of the autoscaler to the next where load changes fast: half the default."""
QUEUE_BYTES = 1 << 20
"""The plugin's default for a lane."""
ROW_BYTES = 48
"""Of a row in a lane's queue without payload, about: key, count, time."""
STOCK = "stock"
HOME = "laneshift, at home"
"""The policy laneshift, whose lanes stay on the executors of their partitions."""
RESOURCE_CENTRIC = "resource-centric"
POLICIES = ("static", "naive-ec", "elasticutor", "laneshift")
SIDES = (STOCK, *POLICIES)
TAIL_S = 120.0
"""The last stage goes on for so long: a source begins with the first again."""


MAX_LANES: int = OPTIONS["max_lanes"].values["high"]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One load on one number of emulated cores.

    Attributes:
        name: in tables and pictures.
        cores: what all partitions' lanes may have together.
        partitions: state partitions of laneshift.
        cost_us: what a row costs its lane (us), beside its own work.
        stages: (rows/s, s) of the source, one after the other.
        zipf: skew of the keys.
        omega: key shuffles a minute of event time.
        row_bytes: payload of a row; each key's state keeps its greatest.
        lanes: of each partition at the start; None: all cores, divided evenly.
        stock: state partitions of stock Spark, a core each; None: one for each core of an operator.
        sources: tasks that make the rows, one a task slot.
        queued_s: work that a lane's queue holds (s), about; None: the plugin's default, 1 MB.
        interval_s: time from one turn of the autoscaler to the next (s).
        batch: of Real-time Mode, a duration in Spark's words. By default Spark's own: no run of a
            minute or two has a pause between two batches in it. None: micro-batches.
        every_s: time from one micro-batch to the next (s).
        keys: distinct keys.
        shards: of each partition.
        nodes: executor processes that the cores are divided among; 1: everything in one process.
        state_bytes: of each key; 0: what its rows carry.
        operators: stateful operators of the query, one behind the other. At the start each has the
            same part of the cores, since Spark gives all the same number of partitions.
    """

    name: str
    cores: int
    partitions: int
    cost_us: int
    stages: tuple[tuple[float, float], ...]
    zipf: float
    omega: float = 0.0
    row_bytes: int = 0
    lanes: int | None = None
    stock: int | None = None
    sources: int = 2
    queued_s: float | None = None
    interval_s: float = INTERVAL_S
    batch: str | None = "5 minutes"
    every_s: float = 0.0
    keys: int = KEYS
    shards: int = SHARDS
    nodes: int = 1
    state_bytes: int = 0
    operators: int = 1

    def __post_init__(self) -> None:
        of = f"of {self.name}"
        inputcheck.whole(f"cores {of}", self.cores, "At least one.", low=1, high=1024)
        inputcheck.whole(f"operators {of}", self.operators, "A core each.", low=1, high=self.cores)
        inputcheck.whole(
            f"partitions {of}", self.partitions, "A core each.", low=1, high=self.operator_cores
        )
        inputcheck.whole(f"cost_us {of}", self.cost_us, "In microseconds.", low=1, high=10**6)
        inputcheck.number(f"zipf {of}", self.zipf, "0 is uniform.", low=0.0, high=10.0)
        inputcheck.number(f"omega {of}", self.omega, "Shuffles a minute.", low=0.0, high=60_000.0)
        inputcheck.whole(f"row_bytes {of}", self.row_bytes, "Bytes.", low=0, high=1 << 20)
        inputcheck.whole(f"sources {of}", self.sources, "Tasks.", low=1, high=1024)
        inputcheck.whole(f"nodes {of}", self.nodes, "Executors.", low=1, high=64)
        inputcheck.whole(f"state_bytes {of}", self.state_bytes, "Of a key.", low=0, high=1 << 20)
        if self.cores % self.nodes:
            raise InputError(
                f"nodes {of}", self.nodes, f"a divisor of {self.cores} cores",
                "Each has as many cores.",
            )  # fmt: skip
        if self.operator_cores % self.partitions:
            raise InputError(
                f"partitions {of}", self.partitions, f"a divisor of {self.operator_cores} cores",
                "Static lanes are divided evenly.",
            )  # fmt: skip
        if not 1 <= self.first_lanes <= self.even_lanes:
            raise InputError(
                f"lanes {of}", self.lanes, f"1 to {self.even_lanes}",
                "All partitions have them at the start, within the cores.",
            )  # fmt: skip
        if self.queued_s is not None:
            inputcheck.number(
                f"queued_s {of}", self.queued_s, "Seconds.", low=self.cost_us / 1e6, high=3600.0
            )
        if not self.stages:
            raise InputError(f"stages {of}", 0, "at least one (rows/s, s)", "Add one.")
        for rate, seconds in self.stages:
            inputcheck.number(f"rate {of}", rate, "Rows/s.", low=0.0)
            inputcheck.number(f"seconds {of}", seconds, "Of a stage.", low=0.0, low_open=True)

    @property
    def operator_cores(self) -> int:
        """Cores of an operator at the start."""
        return self.cores // self.operators

    @property
    def even_lanes(self) -> int:
        """Lanes of each partition if all cores are divided evenly."""
        return self.operator_cores // self.partitions

    @property
    def first_lanes(self) -> int:
        """Lanes of each partition at the start."""
        return self.even_lanes if self.lanes is None else self.lanes

    @property
    def stock_partitions(self) -> int:
        """State partitions of stock Spark, of each operator."""
        return self.operator_cores if self.stock is None else self.stock

    @property
    def seconds(self) -> float:
        """Length of all stages."""
        return sum(seconds for _, seconds in self.stages)

    @property
    def endless(self) -> tuple[tuple[float, float], ...]:
        """The stages, the last one much longer."""
        *first, (rate, seconds) = self.stages
        return (*first, (rate, seconds + TAIL_S))

    @property
    def offered(self) -> tuple[FloatArray, FloatArray]:
        """(times, rows/s): a line that steps from stage to stage."""
        edges = np.cumsum([0.0] + [seconds for _, seconds in self.stages])
        rates = np.array([rate for rate, _ in self.stages], dtype=np.float64)
        return np.repeat(edges, 2)[1:-1], np.repeat(rates, 2)

    @property
    def slots(self) -> int:
        """Spark's task slots that the larger side needs."""
        return max(self.cores, self.operators * self.stock_partitions) + self.sources

    @property
    def full_rate(self) -> float:
        """Rows/s of all cores, were they always busy."""
        return self.cores * 1e6 / self.cost_us

    @property
    def queued_rows(self) -> float:
        """Rows that a lane's queue holds, about."""
        if self.queued_s is None:
            return QUEUE_BYTES / (ROW_BYTES + self.row_bytes)
        return self.queued_s * 1e6 / self.cost_us

    @property
    def cores_each(self) -> int:
        """Cores of an executor that lanes may use."""
        return self.cores // self.nodes

    @property
    def key_bytes(self) -> int:
        """What a key's state has, beside its count and time."""
        return self.state_bytes or self.row_bytes

    @staticmethod
    def policy(side: str) -> str:
        """The policy of a side that is not stock."""
        return "laneshift" if side == HOME else side

    def side(self, name: str) -> Side:
        """How a query of that side is started: stock, or the policy that drives its lanes."""
        sides = (STOCK, HOME, *registry.names())
        inputcheck.choice("side", name, sides, "Stock or a policy.")
        if name == STOCK:
            return stock(self.stock_partitions)
        lanes = elastic(self.first_lanes, self.partitions)
        most = min(MAX_LANES, self.cores - self.partitions * self.operators + 1)
        options = lanes.options | {"maxLanes": str(most), "shardsPerPartition": str(self.shards)}
        if self.queued_s is not None:
            queue = round(self.queued_rows * (ROW_BYTES + self.row_bytes))
            options["queueBytes"] = str(max(1024, queue))
        if self.nodes > 1:
            options["remote.maxLanes"] = "0" if name == HOME else str(self.cores)
        return Side(name, options, self.partitions)

    def source(self, start_s: float) -> dict[str, object]:
        """Options of the workload source whose first row is due at ``start_s`` (s since 1970)."""
        return {
            "keys": self.keys,
            "zipf": self.zipf,
            "omega": self.omega,
            "rowBytes": self.row_bytes,
            "numPartitions": self.sources,
            "rate": "stage",
            "rateStages": ",".join(f"{r:.3f}:{round(1000 * s)}ms" for r, s in self.endless),
            "startTime": datetime.fromtimestamp(start_s, UTC).isoformat(timespec="milliseconds"),
        }

    def build(self, rows: DataFrame) -> DataFrame:
        """Counts per key, each answer paid for by waiting."""
        found = [sf.count("*").alias("n"), sf.max("event_time").alias("event_time")]
        if self.state_bytes:
            padded = sf.expr(f"rpad(CAST(value AS STRING), {self.state_bytes}, 'x')")
            found.append(sf.max(padded).alias("kept"))
        elif self.row_bytes:
            found.append(sf.max("payload").alias("payload"))
        cost = sf.expr(f"laneshift_cost(n, {self.cost_us}, 'wait')").alias("n")
        kept = [sf.col("payload")] if self.row_bytes and not self.state_bytes else []
        if self.state_bytes:
            kept = [sf.length("kept").alias("kept")]  # else it would not be kept
        return rows.groupBy("key").agg(*found).select("key", cost, "event_time", *kept)

    def due(self, at_s: float) -> float:
        """Rows due until ``at_s`` seconds after the start."""
        rows, left = 0.0, at_s
        for rate, seconds in self.stages:
            rows += rate * min(max(left, 0.0), seconds)
            left -= seconds
        return rows + self.stages[-1][0] * max(left, 0.0)
