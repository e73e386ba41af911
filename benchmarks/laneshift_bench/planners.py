"""Planners of key distribution drive running queries: EQ5, B_NCI and TOPK of their paper."""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from laneshift import inputcheck
from laneshift.api.application import Application, attach
from laneshift.api.autoscaler import Autoscaler
from laneshift_bench.batches import CHECKED, LINE, START, digest, with_line
from laneshift_bench.pairs import Ratio, spread
from laneshift_bench.planner_queries import CASES, COUNT_US, MATCH_US, Case
from laneshift_bench.progress import Progress
from laneshift_bench.query import ENDLESS, BenchmarkError, Build, Running, batch_rate, running
from laneshift_bench.report import Report
from laneshift_bench.session import FLIGHT, SEED, session
from laneshift_bench.sides import Side, elastic, stock
from laneshift_lab.partitioning import PARTITIONERS

LANES = 12
BALANCER = f"{LANES} lanes, own balancer"
STOCK = "stock"
SKEWS = (0.8, 1.5)
TOLERANCE = 0.2
CHECKED_ROWS = 6_000
CHECK_TIMEOUT_S = 180
PAPERS = Path(__file__).parents[1] / "papers" / "key-distribution"
METHOD = f"""\
The queries of Data Distribution, 2017, on one state partition; `key` is drawn by Zipf's law with
exponent z. *EQ5*: the stage of Lineitem (skewed) and Supplier, in micro-batches. *B_NCI*: the band
join, as an equi-join of three keys for each row of its second stream, in micro-batches. *TOPK*:
posts counted by topic in Real-time Mode, where every post gives an answer. Each match waits
{MATCH_US / 1000:g} ms and each count {COUNT_US / 1000:g} ms above the state (`laneshift_cost`), so
that lanes need no cores. Sides take turns in one JVM, each run a new query: *stock*; {LANES} lanes
with laneshift's own balancer and measurements; {LANES} lanes that a planner drives, at a tolerance
of {TOLERANCE:g}, from the first answers on. Input rows a second: of the median later micro-batch,
and in Real-time Mode of a stretch after a warm-up of several batches of 5 s. *moved*: shards that
the planner moved; *work*: where row-wise work above the state was in the end. *answers*: of a run
of its own, whether they are stock Spark's (TOPK: a batch run's counts, and so the ten highest)."""
HEADER = ("query", "z", "side", "rows/s", "x stock", "x own balancer", "moved", "work", "answers")


@dataclass
class Outcome:
    """Of one side of one query at one skew: rates by round, and what it did in the last one."""

    rates: list[float]
    moved: int = 0
    work: str = ""
    said: str = ""


def run(
    quick: bool,
    planners: Sequence[str] = (),
    queries: Sequence[str] = (),
    rounds: int | None = None,
) -> Report:
    """The paper's planners on each of its queries, or those chosen.

    Args:
        planners: names, on all queries that are chosen; none for those of the paper.
        queries: names; none for all.
    """
    for name in planners:
        inputcheck.choice(
            "planner", name, sorted(set(PARTITIONERS) - {"balancer"}), "One of these."
        )
    chosen = [case for case in CASES if not queries or case.name in queries]
    skews = SKEWS[-1:] if quick else SKEWS
    turns = rounds or (1 if quick else 3)
    report = Report("planners", "Planners of key distribution live", METHOD, HEADER)
    steps = sum(len(_sides(case, planners)) for case in chosen) * len(skews)
    progress = Progress("planners", steps * (turns + 1))
    with session(2 * LANES + 2, FLIGHT) as (spark, work):
        bench = _Bench(spark, work, attach(spark), quick, progress)
        for case in chosen:
            for skew in skews:
                _compare(bench, case, skew, _sides(case, planners), turns, report)
    report.notes += [*_stated(chosen), *_simulated(chosen, skews)]
    return report


def _sides(case: Case, planners: Sequence[str]) -> list[str]:
    return [STOCK, BALANCER, *(planners or case.systems)]


def _side(name: str) -> Side:
    return stock(1) if name == STOCK else elastic(LANES, 1)


@dataclass
class _Bench:
    spark: SparkSession
    work: Path
    app: Application
    quick: bool
    progress: Progress

    @contextmanager
    def driven(self, name: str, query: Running) -> Iterator[Autoscaler | None]:
        """With the planner, if the side has one."""
        if name in (STOCK, BALANCER):
            yield None
            return
        made = self.app.query(query.query).autoscale(
            policy=name, interval=0.25, tolerance=TOLERANCE, cores=2 * LANES
        )
        try:
            yield made
        finally:
            made.stop()
            wrong = [d.error for d in made.decisions(limit=10_000) if d.error]
            if wrong:
                raise BenchmarkError(f"{name} failed: {wrong[0]}")

    def rate(self, case: Case, skew: float, name: str, found: Outcome) -> None:
        """One run; adds its rate, and what the side has done."""
        if case.real_time:
            source = _source(case, skew) | {"totalRows": ENDLESS}
            with (
                running(self.spark, self.work, _side(name), source, case.build) as made,
                self.driven(name, made) as autoscaler,
            ):
                warm_s, seconds = (22, 6) if self.quick else (40, 15)
                found.rates.append(made.measure(warm_s, seconds).rows_per_s)
                self._look(made, autoscaler, found)
            return
        first, batches = (4, 3) if self.quick else (6, 6)
        with self._streamed(case, skew, name, first + batches, found) as made:
            found.rates.append(batch_rate(made, case.rows, first, batches))

    @contextmanager
    def _streamed(
        self, case: Case, skew: float, name: str, batches: int, found: Outcome | None = None
    ) -> Iterator[Running]:
        """A run in so many micro-batches; of one that ``found`` is for, no answers are kept."""
        source = _source(case, skew) | {
            "rowsPerBatch": case.rows, "totalRows": case.rows * batches, "startTime": START,
        }  # fmt: skip
        build = case.build if found is not None else with_line(case.build)
        line = LINE if found is None else None
        side = _side(name)
        with (
            running(
                self.spark, self.work, side, source, build, None, mode="append", line=line
            ) as made,
            self.driven(name, made) as autoscaler,
        ):
            yield made
            if found is not None:
                self._look(made, autoscaler, found)

    def _look(self, made: Running, autoscaler: Autoscaler | None, found: Outcome) -> None:
        mine = [q for q in self.app.snapshot().queries if q.run_id == str(made.query.runId)]
        states = [o for q in mine for o in q.operators if not o.is_dealt]
        found.work = ", ".join(o.above for o in states)
        if autoscaler is not None:
            moves = self.app.query(made.query).handoffs(limit=100_000)
            found.moved = sum(move.reason == "user" for move in moves)
            notes = [note for d in autoscaler.decisions(limit=10_000) for note in d.notes]
            found.said = next((n for n in notes if n.startswith(("hot-key", "unfit"))), "")

    def answers(self, case: Case, skew: float, name: str) -> object:
        """What comes out of a run of its own, to be compared."""
        if not case.real_time:
            with self._streamed(case, skew, name, CHECKED) as made:
                made.query.processAllAvailable()
                made.check()
                return digest(made.meter.lines())
        source = _source(case, skew) | {"totalRows": CHECKED_ROWS}
        if name == STOCK:
            rows = self.spark.read.format("laneshift-workload").option("seed", SEED)
            loaded = rows.options(**{k: str(v) for k, v in source.items()}).load()
            counts = loaded.groupBy("key").agg(sf.count("*").alias("n")).collect()
            return _top({str(row["key"]): row["n"] for row in counts})
        build = _with_counts(case.build)
        with (
            running(self.spark, self.work, _side(name), source, build, line=LINE) as streamed,
            self.driven(name, streamed),
        ):
            deadline = time.monotonic() + CHECK_TIMEOUT_S
            lines: list[str] = []
            while len(lines) < CHECKED_ROWS:
                if time.monotonic() > deadline:
                    raise BenchmarkError(f"{name} gave {len(lines)} of {CHECKED_ROWS} answers.")
                streamed.check()
                time.sleep(0.5)
                lines += streamed.meter.lines()
        newest: dict[str, int] = {}
        for line in lines:
            key, _, n = line.partition(",")
            newest[key] = int(n)
        return _top(newest)


def _source(case: Case, skew: float) -> dict[str, object]:
    return {"keys": case.keys, "zipf": skew, "rowBytes": 8, "numPartitions": 1, "pacing": "none"}


def _with_counts(build: Build) -> Build:
    return lambda rows: build(rows).withColumn(LINE, sf.concat_ws(",", "key", "n"))


def _top(counts: Mapping[str, int]) -> tuple[list[tuple[str, int]], int, int]:
    """The ten highest counts, ties by key, how many topics there are, and how many posts."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ranked[:10], len(counts), sum(counts.values())


def _compare(
    bench: _Bench, case: Case, skew: float, sides: Sequence[str], turns: int, report: Report
) -> None:
    found = {name: Outcome([]) for name in sides}
    for _ in range(turns):
        for name, outcome in found.items():
            bench.progress.step(f"{case.name}, z {skew:g}, {name}")
            bench.rate(case, skew, name, outcome)
            bench.progress.note(f"{outcome.rates[-1]:,.0f} rows/s")
    expected: object = None
    for name, outcome in found.items():
        bench.progress.step(f"{case.name}, z {skew:g}, {name}, answers")
        said = bench.answers(case, skew, name)
        expected = said if name == STOCK else expected
        if said != expected:
            raise BenchmarkError(
                f"{case.name}, z {skew:g}: answers of {name} are not stock Spark's: {said} instead"
                f" of {expected}."
            )
        report.rows.append([
            case.name, f"{skew:g}", name, spread(outcome.rates),
            str(Ratio.of(outcome.rates, found[STOCK].rates)),
            str(Ratio.of(outcome.rates, found[BALANCER].rates)),
            str(outcome.moved) if name not in (STOCK, BALANCER) else "",
            outcome.work if name != STOCK else "", "equal",
        ])  # fmt: skip
        if outcome.said:
            report.notes.append(f"{case.name}, z {skew:g}, {name}: {outcome.said}")
    report.data[f"{case.name}, {skew:g}"] = {
        name: {"rows_per_s": o.rates, "moved": o.moved, "work": o.work, "said": o.said}
        for name, o in found.items()
    }


def _stated(cases: Sequence[Case]) -> Iterator[str]:
    for case in cases:
        for words in case.stated:
            yield f"{case.name}, stated by the paper (its plotted values are not known): {words}."
    yield (
        "Reconstructed: TPC-H's selectivities (trucks 1 of 7, the others 1 of 100) and columns,"
        " where the printed query has typos. Ours: sizes, costs, one window for TOPK, the band as"
        " three equal keys, and what live planners make of splits and replication (decision 20):"
        " the paper's broadcast, merge delay and memory do not exist here."
    )


def _simulated(cases: Sequence[Case], skews: Sequence[float]) -> Iterator[str]:
    """The simulator's figures of the same systems, as they are published."""
    joins = [case.name for case in cases if not case.real_time]
    if joins:
        rows = _table("keys-execution.csv")
        for name in joins:
            for skew in skews:
                mine = [r for r in rows if r["query"] == name and float(r["z"]) == skew]
                told = ", ".join(f"{r['system']} {float(r['time_s']):,.0f} s" for r in mine)
                yield f"{name}, z {skew:g}, simulated, to load and join 12 GB (papers): {told}."
    if any(case.real_time for case in cases):
        mine = [r for r in _table("keys-topk.csv") if float(r["tolerance"]) == TOLERANCE]
        told = ", ".join(f"{r['system']} {float(r['posts_per_s']):,.0f}" for r in mine)
        setting = f"z 1, tolerance {TOLERANCE:g}"
        yield f"TOPK, {setting}, simulated, posts/s of ten counters (papers): {told}."


def _table(name: str) -> list[dict[str, str]]:
    with (PAPERS / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))
