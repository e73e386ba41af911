"""What it costs to watch a query: metrics read once a second against nobody looking."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from threading import Event, Thread
from urllib.request import urlopen

from pyspark.sql import SparkSession

import laneshift
from laneshift_bench.idle import micro_batch_rate, real_time_rate
from laneshift_bench.pairs import Ratio, spread
from laneshift_bench.progress import Progress
from laneshift_bench.query import BenchmarkError
from laneshift_bench.report import Goal, Report
from laneshift_bench.session import session
from laneshift_bench.sides import elastic

EVERY_S = 1.0
SERVLET = "spark.metrics.conf.driver.sink.prometheusServlet"
WATCHABLE = {
    "spark.ui.enabled": "true",
    "spark.ui.port": "0",
    f"{SERVLET}.class": "org.apache.spark.metrics.sink.PrometheusServlet",
    f"{SERVLET}.path": "/metrics/prometheus",
}
METHOD = """\
Counts per key, 2 source and 2 state partitions with 4 lanes each, 64 shards a partition, in one
JVM. By turns nobody looks, and a thread reads all there is once a second: the snapshot as a
scheduler does, the metrics servlet as Prometheus does, the tab as a person does who lets it load
again. A ratio compares a watched run with the unwatched one of the same round. What the executor
counts for itself it counts on both sides; the idle benchmark has that in it."""


def run(quick: bool) -> Report:
    """The whole benchmark."""
    rounds = 1 if quick else 5
    figures = {"micro-batch, rows/s": micro_batch_rate, "real-time, rows/s": real_time_rate}
    progress = Progress("metrics", (rounds + 1) * 2 * len(figures))
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
    report.data["looks"] = sum(looks)
    report.notes.append(f"{sum(looks)} looks in all watched runs.")
    return report


@contextmanager
def _watching(spark: SparkSession) -> Iterator[list[int]]:
    """Looks once a second in a thread; the list has the number of looks at the end."""
    live = laneshift.attach(spark)
    over = Event()
    looks: list[int] = []
    failed: list[Exception] = []
    ui = str(spark.sparkContext.uiWebUrl)

    def watch() -> None:
        number = 0
        try:
            while not over.wait(EVERY_S):
                live.snapshot()
                for page in ("metrics/prometheus/", "laneshift/"):
                    with urlopen(f"{ui}/{page}", timeout=30) as answer:
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
