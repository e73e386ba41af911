"""The stock exchange of Elasticutor's Figures 16 to 19 as a running query, every answer checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession

from laneshift.policies.registry import policy
from laneshift_bench.bound import owners
from laneshift_bench.driven import Run
from laneshift_bench.exchange_answers import ALARM_PERCENT, DEPTH, WINDOW
from laneshift_bench.exchange_case import (
    CALM,
    CORES,
    COST_US,
    FILL_S,
    FULL,
    MICRO,
    OPERATORS,
    PARTITIONS,
    REAL_TIME,
    SHARDS,
    TRIGGER_S,
    Case,
)
from laneshift_bench.exchange_cluster import Workers
from laneshift_bench.exchange_orders import BURST_EVERY_S, BURST_S, STOCKS_A_CORE, generate
from laneshift_bench.exchange_query import Recorded, Traded, trade
from laneshift_bench.foreseen import METHOD as SIMULATED
from laneshift_bench.foreseen import Foreseen
from laneshift_bench.offered import Stages
from laneshift_bench.pairs import Ratio, spread
from laneshift_bench.pictures import Line, Panel, lanes, latency, over_time
from laneshift_bench.progress import Progress
from laneshift_bench.query import START_TIMEOUT_S, BenchmarkError
from laneshift_bench.report import Goal, Report
from laneshift_bench.session import FLIGHT, SEED, session
from laneshift_bench.setting import RESOURCE_CENTRIC, STOCK

MODES = (REAL_TIME, MICRO)
CASES = ("sides", "grain")
SIDES = (STOCK, "static", RESOURCE_CENTRIC, "naive-ec", "elasticutor", "laneshift")
SECONDS, QUICK_SECONDS = 70.0, 25.0
WARM_S = 8.0
HOTTEST = 5
GRAINS = ((1, 64), (2, 8), (2, 256), (4, 64), (8, 64))
"""Partitions of an operator and shards of each, beside those of the sides."""
QUICK_GRAINS = ((1, 64), (8, 64))
GRAIN_SIDE = "elasticutor"
METHOD = f"""\
The application of *Elasticutor* (2019): a stock exchange, with the questions of its Figures 16 to
19 and Table 3.

- *Stated* by the paper: a Transactor matches each limit order against the book and feeds six
  statistics operators (moving average, composite index, ...) and five of events (price alarms), all
  keyed by stock; rates and hot stocks change all the time; static, resource-centric, naive-ec and
  elasticutor are compared by throughput and 99th percentile of latency over time, and by the time
  of a scheduling decision; throughput over executors y and shards z (of another application).
- *Reconstructed*: the best price first, of one price the oldest order, as exchanges do.
- *Ours*, as in the simulated exchange: the orders, since the real ones are not to be had: Zipf 0.4
  and a random walk over {STOCKS_A_CORE} stocks a core, one of which has 5 times its orders for
  {BURST_S:g} s, about every {BURST_EVERY_S:g} s (there for 20 s, every 15 s, in longer runs; seed
  {SEED}). Latency is taken at {CALM:.0%} of what the cores can do, throughput above it.
- *Ours*: limits normal around a price that drifts; {DEPTH} orders at most wait on a side; a moving
  average over {WINDOW} trades, an alarm when a price leaves it by {ALARM_PERCENT} %, volume,
  turnover, high, low and spread. Statistics and events are one operator: in Structured Streaming a
  stream that goes two ways would run the Transactor twice. So two stateful operators
  (`transformWithState`, in Scala) stand one behind the other, and each order has one answer, with
  its trades. An index of all stocks would be one key, and is left out.

A row costs each operator {COST_US / 1000:g} ms, waited for inside the operator, so that emulated
cores need no real ones; its own work comes on top. {CORES} cores in all: *stock* has a state
partition a core, {CORES // len(OPERATORS)} of each operator, so hash partitioning: the paper's
*static*. The policies drive {PARTITIONS} partitions of {SHARDS} shards of each operator, with
{CORES} lanes in all, which begin evenly; *static* is the library's, and leaves them so.
*resource-centric* is the library's policy over partitions of one lane, whose number it may change
(`rescale=True`). Spark cannot choose which keys share a partition, and policies do not rescale in
Real-time Mode, where this side is left out; Spark's stop, repartition and start is in `rescale`. On
one machine *naive-ec* places as *elasticutor* does.

Real-time Mode, and micro-batches every {TRIGGER_S:g} s. Operators of a micro-batch take turns, so
that the same cores do half as much there, and the load is half as high. All sides replay the same
recorded orders to their end, in turn, after a warm-up. **Every answer of every run is compared with
plain Python's** for the same orders, reckoned another way: the benchmark fails if one is missing,
comes twice or differs.

*Orders/s*: answers a second while {FULL:.0%} of the bound is offered, without the first
{FILL_S:g} s of that. *p50*, *p99*, *p99.9*: over all orders answered while {CALM:.0%} is, from when
an order is due to its arrival in the sink; *whole run*: over all orders. *All answered*: seconds
from when the first order was due; the last was due at the end of the time in the case's name.
*Changes* are lane counts that the policy set (of resource-centric: numbers of partitions), *moves*
shards that went to another lane, and *turn* is the CPU time of its thread for one turn:
measuring, deciding and carrying out. The cases with y and z are {GRAIN_SIDE} with y partitions of
z shards of each operator.

{SIMULATED} Of micro-batches it knows nothing: there it has twice the load, since its operators do
not take turns, and half of its throughput is shown."""
CLUSTER = """

*On a cluster*: micro-batches, with executor processes of their own, between which the cores are
divided. Policies may place lanes on both. The driver takes a batch's answers as it ends, so that is
when its orders are answered."""
HEADER = (
    "case", "side", "orders/s", "/ stock", "of bound", "simulated, orders/s", "p50, ms", "p99, ms",
    "p99.9, ms", "simulated p99, ms", "whole run p99, s", "all answered, s", "changes", "moves",
    "turn, ms",
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """All runs of a case: by side, one a round; and what was simulated."""

    case: Case
    recorded: Recorded
    runs: Mapping[str, Sequence[Traded]]
    foreseen: Mapping[str, Foreseen]

    def rates(self, side: str) -> list[float]:
        """Orders/s above the bound, one a round."""
        return [one.driven.run.rate(*self.case.full) for one in self.runs[side]]

    def against_stock(self, side: str) -> Ratio | None:
        """Of throughput, by rounds; None where that says nothing."""
        if side == STOCK or STOCK not in self.runs:
            return None
        return Ratio.of(self.rates(side), self.rates(STOCK))

    def row(self, side: str) -> list[str]:
        """The side's line of the table."""
        case, runs, simulated = self.case, self.runs[side], self.foreseen[side]
        calm = [one.driven.run.latency(*case.calm) for one in runs]
        whole = [one.driven.run.latency(0.0, np.inf).p99_ms / 1000 for one in runs]
        ratio = self.against_stock(side)
        changes = [one.rescales if side == RESOURCE_CENTRIC else one.changes for one in runs]
        return [
            case.setting.name,
            side,
            spread(self.rates(side)),
            "" if ratio is None else str(ratio),
            f"{np.median(self.rates(side)) / case.bound:.1%}",
            f"{case.simulated_rate(simulated):,.0f}",
            spread([each.p50_ms for each in calm]),
            spread([each.p99_ms for each in calm]),
            spread([each.p999_ms for each in calm]),
            f"{simulated.p99_ms(*case.calm):,.1f}" if case.real_time else "-",
            spread(whole),
            spread([one.answered_s for one in runs]),
            f"{np.median(changes):.0f}",
            f"{np.median([one.moves for one in runs]):.0f}",
            "-" if side == STOCK else spread([one.turn_ms for one in runs]),
        ]

    def data(self) -> dict[str, object]:
        """For JSON."""
        return {
            "bound_orders_per_s": self.case.bound,
            "orders": len(self.recorded.orders),
            "trades": sum(len(answer["trades"]) for answer in self.recorded.expected),
            "alarms": sum(bool(answer["alarm"]) for answer in self.recorded.expected),
            "orders_per_s": {side: self.rates(side) for side in self.runs},
            "simulated_orders_per_s": {
                side: self.case.simulated_rate(found) for side, found in self.foreseen.items()
            },
            "runs": {
                side: [
                    one.driven.run.data()
                    | {
                        "answered_s": one.answered_s,
                        "moves": one.moves,
                        "turn_ms": one.turn_ms,
                        "elsewhere_bytes": one.elsewhere_bytes,
                    }
                    for one in runs
                ]
                for side, runs in self.runs.items()
            },
        }

    def add_to(self, report: Report) -> None:
        """Its lines of the table, and all that was measured."""
        report.rows += [self.row(side) for side in self.runs]
        report.data[self.case.setting.name] = self.data()


def run(
    quick: bool, modes: Sequence[str] = (), policies: Sequence[str] = (),
    seconds: float | None = None, cases: Sequence[str] = (), rounds: int | None = None,
    master: str | None = None,
) -> Report:  # fmt: skip
    """The whole benchmark, or what is chosen of it."""
    for name in policies:
        policy(name)
    seconds = seconds or (QUICK_SECONDS if quick else SECONDS)
    rounds = rounds or (1 if quick else 2)
    workers = None if master is None else Workers.of(master)
    if workers is not None:
        if REAL_TIME in modes or "grain" in cases:
            raise BenchmarkError("With a master there are micro-batches of the sides alone.")
        modes, cases = (MICRO,), ("sides",)
    chosen = plan(quick, seconds, modes or MODES, policies, cases or CASES)
    progress = Progress("exchange", rounds * sum(len(sides) for _, sides in chosen))
    takes_s = progress.steps * (1.5 * seconds + 15)
    progress.note(f"This takes about {takes_s / 60 + 2:.0f} minutes.")
    method = METHOD + (CLUSTER if workers is not None else "")
    report = Report("exchange", "The stock exchange of Elasticutor, live", method, HEADER)
    slots = max(case.setting.slots for case, _ in chosen)
    settings = FLIGHT | (workers.settings if workers is not None else {})
    with session(slots, settings) as (spark, work):
        kept: dict[Stages, Recorded] = {}
        for case, sides in chosen:
            stages = case.setting.stages
            if stages not in kept:
                kept[stages] = _recorded(work / f"orders{len(kept)}.parquet", case, stages)
            _warm_up(spark, work, case, workers)
            found = _compare(spark, work, case, kept[stages], sides, rounds, progress, workers)
            found.add_to(report)
            _judge(report, spark, found)
    return report


def plan(
    quick: bool, seconds: float, modes: Sequence[str], policies: Sequence[str],
    cases: Sequence[str],
) -> list[tuple[Case, tuple[str, ...]]]:  # fmt: skip
    """What runs, with its sides. Errors: BenchmarkError if that is nothing."""
    found: list[tuple[Case, tuple[str, ...]]] = []
    if "sides" in cases:
        found += [(Case.of(mode, seconds), sides_of(mode, policies)) for mode in modes]
    if "grain" in cases and REAL_TIME in modes:
        grains = QUICK_GRAINS if quick else GRAINS
        found += [(Case.of(REAL_TIME, seconds, y, z), (GRAIN_SIDE,)) for y, z in grains]
    if not found:
        raise BenchmarkError("The case grain is measured in Real-time Mode: choose that, or sides.")
    return found


def sides_of(mode: str, policies: Sequence[str]) -> tuple[str, ...]:
    """Stock, and the policies that are asked for, as far as the mode has them."""
    found = tuple(dict.fromkeys((STOCK, *policies))) if policies else SIDES
    return tuple(side for side in found if mode == MICRO or side != RESOURCE_CENTRIC)


def _recorded(file: Path, case: Case, stages: Stages) -> Recorded:
    return Recorded.of(generate(case.stocks, stages), file)


def _warm_up(spark: SparkSession, work: Path, case: Case, workers: Workers | None) -> None:
    """A few seconds of stock and of a driven query, so that a JVM that begins is on no side."""
    rate, _ = case.setting.stages[0]
    short = replace(case.setting, stages=((rate, WARM_S),))
    recorded = _recorded(work / "warm.parquet", case, short.stages)
    for side in (STOCK, "static"):
        trade(spark, work, short, side, recorded, START_TIMEOUT_S, workers)


def _compare(
    spark: SparkSession, work: Path, case: Case, recorded: Recorded, sides: Sequence[str],
    rounds: int, progress: Progress, workers: Workers | None,
) -> Outcome:  # fmt: skip
    """All sides of a case in turn, and what is simulated of them."""
    runs: dict[str, list[Traded]] = {side: [] for side in sides}
    for number in range(1, rounds + 1):
        for side in sides:
            progress.step(f"{case.setting.name}, {side}, round {number}")
            one = trade(spark, work, case.setting, side, recorded, workers=workers)
            runs[side].append(one)
            progress.note(_words(case, one))
    return Outcome(case, recorded, runs, {side: case.foresee(side) for side in sides})


def _words(case: Case, one: Traded) -> str:
    run, calm = one.driven.run, one.driven.run.latency(*case.calm)
    rate = run.rate(*case.full)
    return (
        f"{rate:,.0f} orders/s, {rate / case.bound:.0%} of the bound; p50 {calm.p50_ms:,.1f}, "
        f"p99 {calm.p99_ms:,.1f} ms; all answered, and right, after {one.answered_s:.1f} s; "
        f"{one.changes} lane changes, {one.moves} moves, {one.rescales} rescales, "
        f"{one.elsewhere_bytes / 1e6:.1f} MB to and from lanes elsewhere"
    )


def _judge(report: Report, spark: SparkSession, found: Outcome) -> None:
    """Goals, notes and the picture of a case with several sides."""
    case, setting = found.case, found.case.setting
    orders, expected = found.recorded.orders, found.recorded.expected
    if len(found.runs) == 1:
        return
    trades = sum(len(answer["trades"]) for answer in expected)
    alarms = sum(bool(answer["alarm"]) for answer in expected)
    report.notes.append(
        f"{setting.name}: {len(orders):,} orders, {trades:,} trades and {alarms:,} alarms of "
        f"{setting.keys} stocks, the same and right on all sides in all rounds. The bound is "
        f"{case.bound:,.0f} orders/s."
    )
    if case.real_time:
        owner = owners(spark, setting.stock_partitions, setting.keys)
        hashed = case.hashed(owner)
        report.notes.append(
            f"{setting.name}: arithmetic of the generated shares: {setting.stock_partitions} hash "
            f"partitions of a core each take {hashed:,.0f} orders/s above the bound, "
            f"{hashed / case.bound:.0%} of it, if none may wait on the way."
        )
    ratio = found.against_stock("laneshift") if "laneshift" in found.runs else None
    if ratio is not None:
        rates = {side: case.simulated_rate(found.foreseen[side]) for side in (STOCK, "laneshift")}
        least = round(0.9 * rates["laneshift"] / rates[STOCK], 2)
        what = f"{setting.name}: laneshift / stock, a tenth less than simulated"
        report.goals.append(Goal(what, ratio.median, ">=", least))
    mode = REAL_TIME if case.real_time else MICRO
    report.files[f"exchange-{mode}.png"] = partial(_draw, found)


def _draw(found: Outcome, file: Path) -> None:
    """The last round: rates, latency, lanes, and the stocks that were hot."""
    case, setting = found.case, found.case.setting
    last: dict[str, Run] = {side: runs[-1].driven.run for side, runs in found.runs.items()}
    step_s = 1.0 if case.real_time else setting.every_s
    held = {side: run.held() for side, run in last.items() if side != STOCK}
    panels = (
        Panel(
            "Orders answered per second",
            {side: run.series(step_s) for side, run in last.items()},
            {"offered": setting.offered},
        ),
        latency({side: run.p99s() for side, run in last.items()}),
        lanes(held, setting.cores, setting.seconds),
        Panel(
            f"Orders per second of the {HOTTEST} stocks that were hottest",
            {},
            {f"_{at}": line for at, line in enumerate(hottest(found.recorded))},
        ),
    )
    over_time(file, f"Stock exchange, {setting.name}", panels)


def hottest(recorded: Recorded) -> list[Line]:
    """(seconds, orders/s) of the stocks with the most orders in any second, the hottest first."""
    orders = recorded.orders
    edges = np.arange(0.0, np.ceil(orders.due_s[-1]) + 1)
    counts, _, _ = np.histogram2d(
        orders.stock, orders.due_s, bins=(np.arange(orders.stock.max() + 2), edges)
    )
    first = np.argsort(-counts.max(axis=1), kind="stable")[:HOTTEST]
    return [(edges[1:], counts[stock]) for stock in first]
