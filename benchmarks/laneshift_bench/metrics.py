"""What it costs to watch a query: metrics read once a second against nobody looking."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from threading import Event, Thread
from urllib.request import urlopen

import numpy as np
from pyspark.sql import SparkSession

import laneshift
from laneshift_bench.idle import SOURCE, micro_batch_rate, real_time_rate
from laneshift_bench.pairs import Ratio, spread
from laneshift_bench.progress import Progress
from laneshift_bench.query import BenchmarkError, counting, running
from laneshift_bench.report import Goal, Report
from laneshift_bench.session import jvm_pid, session
from laneshift_bench.sides import elastic

EVERY_S = 1.0
OFTEN_S = 0.1
QUIET_ROWS_PER_S = 100
SERVLET = "spark.metrics.conf.driver.sink.prometheusServlet"
WATCHABLE = {
    "spark.ui.enabled": "true",
    "spark.ui.port": "0",
    f"{SERVLET}.class": "org.apache.spark.metrics.sink.PrometheusServlet",
    f"{SERVLET}.path": "/metrics/prometheus",
}
METHOD = f"""\
Counts per key, 2 source and 2 state partitions with 4 lanes each, 64 shards a partition, in one
JVM. By turns nobody looks, and a thread reads all there is once a second: the snapshot as a
autoscaler does, the metrics servlet as Prometheus does, the tab as a person does who lets it load
again. A ratio compares a watched run with the unwatched one of the same round. What the executor
counts for itself it counts on both sides; the idle benchmark has that in it.

Throughput of this machine varies by more than a look costs. *CPU of a look* is the CPU time of the
JVM and of Python for one, with the query at {QUIET_ROWS_PER_S} rows/s, for each of the three
readings: in a span with a look every {OFTEN_S:g} s, less that of a span as long without, by turns.
The whole look is the sum of the three."""
SNAPSHOT, SERVLET_PAGE, TAB = "snapshot", "metrics servlet", "tab"
READINGS = (SNAPSHOT, SERVLET_PAGE, TAB)
PAGES = {SERVLET_PAGE: "metrics/prometheus/", TAB: "laneshift/"}


def run(quick: bool) -> Report:
    """The whole benchmark."""
    rounds, span_s = (1, 5.0) if quick else (5, 15.0)
    figures = {"micro-batch, rows/s": micro_batch_rate, "real-time, rows/s": real_time_rate}
    progress = Progress("metrics", (rounds + 1) * 2 * len(figures) + 1)
    report = Report(
        "metrics",
        "Cost of metrics",
        METHOD,
        ("figure", "unwatched", "watched", "watched / unwatched"),
    )
    with session(slots=8, settings=WATCHABLE) as (spark, work):
        looks = []
        for name, one in figures.items():
            rates: dict[bool, list[float]] = {False: [], True: []}
            for number in range(rounds + 1):
                for watched in rates:
                    what = "watched" if watched else "unwatched"
                    progress.step(f"{name}, {what}, {f'round {number}' if number else 'warm-up'}")
                    with _watching(spark) if watched else nullcontext([]) as counted:
                        rate = one(spark, work, elastic(4), quick)
                    progress.note(f"{rate:,.0f} rows/s")
                    if number:
                        rates[watched].append(rate)
                        looks += counted
            ratio = Ratio.of(rates[True], rates[False])
            report.rows.append([name, spread(rates[False]), spread(rates[True]), str(ratio)])
            report.goals.append(Goal(f"{name}: watched / unwatched", ratio.median, ">=", 0.98))
            report.data[name] = {"unwatched": rates[False], "watched": rates[True]} | ratio.data()
        progress.step("CPU of a look")
        costs = _costs_ms(spark, work, rounds, span_s)
    whole = [sum(each) for each in zip(*costs.values(), strict=True)]
    for reading, each in (costs | {"whole look": whole}).items():
        report.rows.append([f"CPU of a look, ms: {reading}", "", spread(each), ""])
    share = float(np.median(whole)) / 1000 / EVERY_S / (os.cpu_count() or 1)
    report.goals.append(Goal("a look a second, share of the machine's cores", share, "<=", 0.01))
    report.data["cpu_ms_of_a_look"] = costs
    report.data["looks"] = sum(looks)
    report.notes.append(f"{sum(looks)} looks in all watched runs.")
    return report


def _costs_ms(
    spark: SparkSession, work: Path, rounds: int, span_s: float
) -> dict[str, list[float]]:
    """CPU time (ms) of each reading, one figure a round; a round before them warms up."""
    source = SOURCE | {"rowsPerSecond": QUIET_ROWS_PER_S}
    costs: dict[str, list[float]] = {reading: [] for reading in READINGS}
    with running(spark, work, elastic(4), source, counting, trigger="30 minutes") as run:
        used = _cpu_clock(spark)
        for number in range(rounds + 1):
            before = used()
            time.sleep(span_s)
            unwatched = used() - before
            for reading, each in costs.items():
                with _watching(spark, OFTEN_S, (reading,)) as looks:
                    before = used()
                    time.sleep(span_s)
                    spent = used() - before
                if number:
                    each.append(1000 * (spent - unwatched) / sum(looks))
        run.check()
    return costs


def _cpu_clock(spark: SparkSession) -> Callable[[], float]:
    """CPU time (s) that the JVM and this process have used; Linux only."""
    jvm = (~jvm_pid(spark) << 3) | 2  # what clock_getcpuclockid(3) gives for a process
    return lambda: time.clock_gettime(jvm) + time.process_time()


@contextmanager
def _watching(
    spark: SparkSession, every_s: float = EVERY_S, readings: Sequence[str] = READINGS
) -> Iterator[list[int]]:
    """Looks every so often in a thread; the list has the number of looks at the end."""
    app = laneshift.attach(spark)
    over = Event()
    looks: list[int] = []
    failed: list[Exception] = []
    ui = str(spark.sparkContext.uiWebUrl)

    def watch() -> None:
        number = 0
        try:
            while not over.wait(every_s):
                for reading in readings:
                    if reading == SNAPSHOT:
                        app.snapshot()
                    else:
                        with urlopen(f"{ui}/{PAGES[reading]}", timeout=30) as answer:
                            answer.read()
                number += 1
        except Exception as error:
            failed.append(error)
        looks.append(number)

    thread = Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield looks
    finally:
        over.set()
        thread.join()
    if failed:
        raise BenchmarkError(f"Nobody watched any more: {failed[0]}")
