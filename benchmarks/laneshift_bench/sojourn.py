"""Predicted against measured: a row's time in k lanes, by the library's queueing models."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from laneshift import attach, inputcheck
from laneshift.api.application import Application
from laneshift.models.queueing import sojourn_time
from laneshift_bench.measure import Latency
from laneshift_bench.progress import Progress
from laneshift_bench.query import BenchmarkError, Running, counting, running
from laneshift_bench.report import Goal, Report
from laneshift_bench.session import SEED, session
from laneshift_bench.sides import elastic
from laneshift_lab.queueing import lanes_sojourn_time

FloatArray = NDArray[np.float64]
REAL_TIME, MICRO_BATCH = "real-time", "micro-batch"
MODES = (REAL_TIME, MICRO_BATCH)
LANES = (1, 2, 4, 8, 16)
LOADS = (0.5, 0.7, 0.9)
WAY_LOAD = 0.7
"""At whose rate rows without a cost are timed: what they take is their way through Spark."""
COST_S = 0.005
PERIOD_S, STEPS = 0.001, 100_000
"""Rows come at random in each period; so many of them before the source begins again."""
TRIGGER_S = 5.0
WARM_S = 10.0
WITHIN, MOST = 0.2, 99.0
"""Relative errors: the goal, and what stands for a prediction that rows pile up for ever."""
KEYS = {REAL_TIME: 10_000, MICRO_BATCH: 1_000_000}
"""In a micro-batch a key has one answer, so there are so many that a row seldom shares its key."""
METHOD = f"""\
One state partition with k lanes, counts per key, equally likely keys. Each answer waits for a time
that is distributed exponentially with mean {COST_S * 1000:g} ms (`laneshift_cost` in mode `wait`,
so that lanes need no cores), and rows come as a Poisson process, to the {PERIOD_S * 1000:g} ms, at
50, 70 and 90 % of what k lanes take. *Measured* is the mean time of a row from when it is due to
the sink, less its *way*: what rows take that cost nothing, with as many lanes, at {WAY_LOAD:.0%} of
that rate. *One queue* is M/M/k (`sojourn_time`), which the papers' policies use, *own queues* k
queues with a lane each and even shares of the rows (`lanes_sojourn_time`), *shares* the same with
the shares that lanes had in this run. All have the rate and the *cost* of a row that were measured
in the run, as an autoscaler has them: time that lanes worked over rows, so with the row's own work.
Relative errors are predicted / measured - 1.

*Real-time*: no pause between batches inside a run. *Micro-batch*, a trigger every {TRIGGER_S:g} s:
rows come to the lanes all at once, and wait for their trigger before. *Batch* is arithmetic for it,
half an interval and half of the batch's work on the busiest lane. Models of queues do not know of
either."""
HEADER = (
    "mode", "lanes", "load", "rows", "cost, ms", "measured, ms", "way, ms",
    "one queue, ms", "error", "own queues, ms", "error", "shares, ms", "error",
    "batch, ms", "error",
)  # fmt: skip


def batch_sojourn_s(
    rows_per_s: float, cost_s: float, trigger_s: float, shares: FloatArray
) -> float:
    """Mean time of a row in micro-batches (s): waiting for its trigger, then for its turn.

    A batch has the rows of one interval. Each lane has its share of them at once and answers them
    one after the other, so a row waits for half of its lane's work on average.

        E[T] = trigger/2 + sum_i p_i * (1 + p_i*n)/2 * cost,  n = rows_per_s * trigger

    It is inf if the busiest lane's work does not fit into the interval.

    >>> batch_sojourn_s(100, 0.01, 1.0, np.array([0.5, 0.5]))
    0.755
    """
    inputcheck.number("rows_per_s", rows_per_s, low=0.0)
    inputcheck.number("trigger_s", trigger_s, low=0.0, low_open=True)
    rows = shares * rows_per_s * trigger_s
    if float(rows.max()) * cost_s > trigger_s:
        return float("inf")
    return trigger_s / 2 + float((shares * (1 + rows)).sum()) / 2 * cost_s


def poisson_rates(rows_per_s: float, seed: int) -> FloatArray:
    """Rows/s of each period of a Poisson process, float64 (STEPS,)."""
    found: FloatArray = np.random.default_rng(seed).poisson(rows_per_s * PERIOD_S, STEPS) / PERIOD_S
    return found


def costly(rows: DataFrame) -> DataFrame:
    """Counts per key; an answer's cost is exponential, by a hash of what it is of."""
    dice = "(pmod(xxhash64(key, n, event_time), 1000000) + 0.5D) / 1000000"
    cost = f"laneshift_cost(n, -ln({dice}) * {COST_S * 1e6:g}, 'wait')"
    return counting(rows).select("key", sf.expr(cost).alias("n"), "event_time")


@dataclass(frozen=True)
class Found:
    """What a run gave.

    Attributes:
        latency: of its rows.
        shares: each lane's of the rows.
        cost_s: what a row took its lane, as autoscalers see it: time that lanes worked over rows.
        rows_per_s: that lanes took.
    """

    latency: Latency
    shares: tuple[float, ...]
    cost_s: float
    rows_per_s: float


@dataclass(frozen=True)
class Taken:
    """Counts since a query's start: rows of each lane, and how long all lanes have worked (s)."""

    lane_rows: NDArray[np.int64]
    busy_s: float

    def since(self, before: Taken, latency: Latency, seconds: float) -> Found:
        """What came between two looks."""
        rows = self.lane_rows - before.lane_rows
        total = float(rows.sum())
        if not latency.count or not total:
            raise BenchmarkError(f"No row came in {seconds:g} s.")
        cost_s = (self.busy_s - before.busy_s) / total
        return Found(latency, tuple((rows / total).tolist()), cost_s, total / seconds)


@dataclass(frozen=True)
class Case:
    """A number of lanes under a load."""

    mode: str
    lanes: int
    load: float
    free: bool = False
    """Whether rows cost nothing, at the same rate."""

    @property
    def rate(self) -> float:
        """Rows/s."""
        return self.load * self.lanes / COST_S

    def source(self, folder: Path) -> dict[str, object]:
        """Options of the workload source: the trace is a file of this folder."""
        trace = folder / f"poisson-{self.rate:g}.txt"
        trace.write_text("\n".join(f"{rate:g}" for rate in poisson_rates(self.rate, SEED)))
        return {
            "keys": KEYS[self.mode], "zipf": 0, "rowBytes": 0, "numPartitions": 1,
            "rate": "trace", "rateTrace": str(trace), "ratePeriod": f"{PERIOD_S * 1000:g}ms",
        }  # fmt: skip

    def run(self, spark: SparkSession, work: Path, seconds: float) -> Found:
        """Measure it for so long."""
        side = elastic(self.lanes, 1)
        side.options["shardsPerPartition"] = "256"
        mode = "30 minutes" if self.mode == REAL_TIME else None
        every = f"{round(1000 * TRIGGER_S)} milliseconds"
        app = attach(spark)
        build = counting if self.free else costly
        with running(spark, work, side, self.source(work), build, mode, every=every) as run:
            time.sleep(WARM_S if self.mode == REAL_TIME else 2 * TRIGGER_S)
            run.meter.lap()
            before = _taken(app, run, self.lanes)
            began = time.monotonic()
            time.sleep(seconds)
            _, latency = run.meter.lap()
            taken = _taken(app, run, self.lanes)
            run.check()
            return taken.since(before, latency, time.monotonic() - began)

    def predictions(self, seen: Found) -> dict[str, float]:
        """Mean times (ms) by model, for the rate and the cost that were measured."""
        rate, mu = seen.rows_per_s, 1 / seen.cost_s
        each = np.array(seen.shares)
        found = {
            "one queue": sojourn_time(self.lanes, rate, mu),
            "own queues": lanes_sojourn_time(self.lanes, rate, mu),
            "shares": lanes_sojourn_time(self.lanes, rate, mu, each),
        }
        if self.mode == MICRO_BATCH:
            found["batch"] = batch_sojourn_s(rate, seen.cost_s, TRIGGER_S, each)
        return {name: 1000 * value for name, value in found.items()}


def way_ms(mode: str, mean_ms: float) -> float:
    """What a row takes beyond waiting for its trigger, of a run in which rows cost nothing."""
    return max(0.0, mean_ms - (500 * TRIGGER_S if mode == MICRO_BATCH else 0.0))


def error(predicted: float, measured: float) -> float:
    """Relative error of a prediction."""
    return predicted / measured - 1


def _taken(app: Application, run: Running, lanes: int) -> Taken:
    """What the plugin has counted. Errors: BenchmarkError if it has not so many lanes."""
    for query in app.snapshot().queries:
        if query.run_id == run.query.runId and query.operators:
            part = query.operators[0].partitions[0]
            if part.lanes == lanes == len(part.lane_rows):
                return Taken(part.lane_rows, part.busy_s)
    raise BenchmarkError(f"The query has not the {lanes} lanes that it was started with.")


def run(
    quick: bool, modes: Sequence[str] = (), lanes: Sequence[int] = (), seconds: float | None = None
) -> Report:
    """The whole benchmark, or some modes and lanes of it."""
    chosen = tuple(modes) or MODES
    counts = tuple(lanes) or ((1, 4) if quick else LANES)
    loads = (0.5, 0.9) if quick else LOADS
    length: Callable[[str], float] = lambda mode: (  # noqa: E731
        seconds or ((20.0 if quick else 120.0) if mode == REAL_TIME else 8 * TRIGGER_S)
    )
    progress = Progress("sojourn", len(chosen) * len(counts) * (1 + len(loads)))
    report = Report("sojourn", "Predicted and measured time of a row", METHOD, HEADER)
    with session(slots=4) as (spark, work):
        # A JVM that begins belongs to no case.
        Case(chosen[0], max(counts), WAY_LOAD).run(spark, work, 5.0 if quick else 30.0)
        for mode in chosen:
            for k in counts:
                progress.step(f"{mode}, {k} lanes: the way of a row")
                free = Case(mode, k, WAY_LOAD, free=True).run(spark, work, length(mode) / 2)
                way = way_ms(mode, free.latency.mean_ms)
                progress.note(f"{way:.2f} ms, of {free.latency.count:,} rows")
                for load in loads:
                    case = Case(mode, k, load)
                    progress.step(f"{mode}, {k} lanes, {load:.0%}")
                    found = case.run(spark, work, length(mode))
                    progress.note(_add(report, case, found, way))
    return report


def _add(report: Report, case: Case, found: Found, way: float) -> str:
    """A line of the table, and its figures; in words what was found."""
    measured = found.latency.mean_ms - way
    predicted = case.predictions(found)
    errors = {name: error(value, measured) for name, value in predicted.items()}
    cells = [
        cell
        for name in ("one queue", "own queues", "shares", "batch")
        for cell in (
            (f"{predicted[name]:.2f}", f"{errors[name]:+.0%}") if name in predicted else ("", "")
        )
    ]
    report.rows.append(
        [
            case.mode,
            str(case.lanes),
            f"{case.load:.0%}",
            f"{found.latency.count:,}",
            f"{1000 * found.cost_s:.2f}",
            f"{measured:.2f}",
            f"{way:.2f}",
            *cells,
        ]
    )
    best = "batch" if case.mode == MICRO_BATCH else "own queues"
    what = f"{case.mode}, {case.lanes} lanes, {case.load:.0%}: error of {best}"
    report.goals.append(Goal(what, min(abs(errors[best]), MOST), "<=", WITHIN))
    known = {name: ms if ms < math.inf else None for name, ms in predicted.items()}
    data: dict[str, Any] = asdict(found.latency)
    del data["counts"]
    report.data[f"{case.mode}, {case.lanes}, {case.load:g}"] = {
        "latency": data, "way_ms": way, "measured_ms": measured, "predicted_ms": known,
        "shares": list(found.shares), "cost_s": found.cost_s, "rows_per_s": found.rows_per_s,
    }  # fmt: skip
    return f"{measured:.2f} ms; " + ", ".join(f"{n} {e:+.0%}" for n, e in errors.items())
