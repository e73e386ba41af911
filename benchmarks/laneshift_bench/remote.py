"""Lanes on other executors: against lanes at home, under moves, as executors come and go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from laneshift.plugin.partition import RemoteLane
from laneshift_bench import processes, remote_batches, remote_hosts, remote_idle, remote_moves
from laneshift_bench.progress import Progress
from laneshift_bench.query import ENDLESS, counting
from laneshift_bench.remote_case import (
    CORES,
    COST_US,
    EXECUTORS,
    HALF,
    KEYS,
    LANES,
    OVERLOAD,
    ROW_BYTES,
    Bench,
    Case,
    costly,
    side,
    source,
)
from laneshift_bench.report import Report
from laneshift_bench.there import Found, cluster, spread_query

WARM_S, SECONDS = 12.0, 20.0
COSTS_US = (10, 30, 100, 300)
PAYS = 1.5
"""Twice the lanes are worth having if they take so many times the rows (ours)."""
SPLITS: Mapping[str, tuple[int, tuple[int, ...]]] = {
    "8 at home": (8, ()),
    "1 at home, 4 + 3 elsewhere": (1, (4, 3)),
}
FORWARDS = ("laneshift remot", "laneshift-clien")
"""Threads at home that do nothing but send rows to other executors and take what comes back."""
METHOD = f"""\
Executor processes on this machine (`local-cluster`), {EXECUTORS} of {CORES} cores where nothing
else is said. One state partition, counts per key of {KEYS:,} keys, rows of {ROW_BYTES}
bytes, 256 shards. An answer's cost is waiting (`laneshift_cost`, mode `wait`, to an absolute
deadline), so that lanes need no cores; all processes share this machine's. Lanes are split by
`set_lanes(..., on=...)` while the query runs, each split for {WARM_S:g} s to settle and
{SECONDS:g} s that count, in turns.

*lanes*: Real-time Mode, {COST_US / 1000:g} ms a row. Rows/s at {OVERLOAD:,} rows/s offered, more
than {LANES} lanes take; ages of answers when they leave the operator (`latencyColumn`) at {HALF:,}.
*free*: rows that cost nothing, offered without pacing, one lane at home and one elsewhere; CPU at
home per forwarded row is that of the threads that send rows and take answers, by the kernel's
count. *price*: the same with rows that wait 10 to 300 microseconds: what a lane elsewhere adds to
one at home.
{remote_batches.METHOD}
{remote_moves.METHOD}
{remote_hosts.METHOD}
{remote_idle.METHOD}"""
HEADER = ("case", "side", "figure", "measured")


def run(quick: bool, only: Sequence[str] = (), rounds: int | None = None) -> Report:
    """All cases, or those whose names begin with one of ``only``."""
    chosen = [c for c in CASES if not only or c.name.startswith(tuple(only))]
    turns = rounds or (1 if quick else 3)
    progress = Progress("remote", sum(turns * c.steps + c.once for c in chosen))
    bench = Bench(quick, turns, Report("remote", "Lanes on other executors", METHOD, HEADER),
                  progress)  # fmt: skip
    for case in chosen:
        case.run(bench)
    return bench.report


def _times(quick: bool) -> tuple[float, float]:
    return (5.0, 8.0) if quick else (WARM_S, SECONDS)


def lanes(bench: Bench) -> None:
    """As many lanes at home and elsewhere: full load, and ages at half of it."""
    found: dict[tuple[str, str], list[Found]] = {}
    with cluster(EXECUTORS, CORES) as (spark, work):
        for load, rate in (("full", OVERLOAD), ("half", HALF)):
            offered = source(rowsPerSecond=rate)
            with spread_query(spark, work, side(), offered, costly()) as query:
                for turn in range(bench.rounds):
                    for name, (home, hosts) in SPLITS.items():
                        bench.progress.step(f"lanes, {load}, {name}, round {turn + 1}")
                        query.split(home, hosts)
                        one = query.measure(*_times(bench.quick))
                        bench.progress.note(str(one))
                        found.setdefault((load, name), []).append(one)
    for name in SPLITS:
        full, half = found["full", name], found["half", name]
        bench.add("lanes", name, "rows/s", [f.rows_per_s for f in full])
        bench.add("lanes", name, "rows/s elsewhere", [f.elsewhere_per_s for f in full])
        bench.add("lanes", name, "reads of state, 1/s", [f.reads_per_s for f in full])
        bench.add("lanes", name, "p50 at half load, ms", [f.p50_ms for f in half])
        bench.add("lanes", name, "p99 at half load, ms", [f.p99_ms for f in half])
    near_rates, far_rates = ([f.rows_per_s for f in found["full", name]] for name in SPLITS)
    bench.ratio("throughput, 1 + 7 elsewhere / 8 at home", far_rates, near_rates, ">=", 0.85)
    for of, most in (("p50_ms", 1.0), ("p99_ms", 5.0)):
        near, far = ([getattr(f, of) for f in found["half", name]] for name in SPLITS)
        more = [b - a for a, b in zip(near, far, strict=True)]
        bench.goal(f"{of.removesuffix('_ms')} more at half load, ms", more, "<=", most)


def free(bench: Bench) -> None:
    """Rows that cost nothing through one lane elsewhere, and home's CPU for each of them."""
    found: list[Found] = []
    cpu_us: list[float] = []
    offered = source(pacing="none", totalRows=ENDLESS, numPartitions=2)
    with (
        cluster(EXECUTORS, CORES) as (spark, work),
        spread_query(spark, work, side(), offered, counting) as query,
    ):
        query.split(1, (1,))
        home = processes.executors(str(spark.sparkContext.applicationId))[query.part().executor]
        for turn in range(bench.rounds):
            bench.progress.step(f"free, 1 at home, 1 elsewhere, round {turn + 1}")
            rows, cpu = _sent(query.part().elsewhere), processes.cpu_s(home, *FORWARDS)
            found.append(query.measure(*_times(bench.quick)))
            used = processes.cpu_s(home, *FORWARDS) - cpu
            cpu_us.append(used * 1e6 / max(1, _sent(query.part().elsewhere) - rows))
            bench.progress.note(f"{found[-1]}, {cpu_us[-1]:.2f} us a row at home")
    name = "1 at home, 1 elsewhere"
    elsewhere = [f.elsewhere_per_s for f in found]
    bench.add("free", name, "rows/s", [f.rows_per_s for f in found])
    bench.add("free", name, "rows/s elsewhere", elsewhere)
    bench.add("free", name, "CPU at home per forwarded row, us", cpu_us)
    bench.goal("rows/s without cost through one lane elsewhere", elsewhere, ">=", 100_000)
    bench.goal("CPU at home per forwarded row, us", cpu_us, "<=", 3.0)


def _sent(there: Sequence[RemoteLane]) -> int:
    return sum(lane.rows_sent for lane in there)


def price(bench: Bench) -> None:
    """From which cost of a row on a lane elsewhere is worth having."""
    gains: dict[int, list[float]] = {cost: [] for cost in COSTS_US}
    offered = source(pacing="none", totalRows=ENDLESS)
    with cluster(EXECUTORS, CORES) as (spark, work):
        for cost in COSTS_US:
            with spread_query(spark, work, side(), offered, costly(cost)) as query:
                for turn in range(bench.rounds):
                    bench.progress.step(f"price, {cost} us a row, round {turn + 1}")
                    rates = []
                    for hosts in ((), (1,)):
                        query.split(1, hosts)
                        rates.append(query.measure(*_times(bench.quick)).rows_per_s)
                    gains[cost].append(rates[1] / rates[0])
                    bench.progress.note(f"{rates[0]:,.0f} and {rates[1]:,.0f} rows/s")
    for cost, found in gains.items():
        bench.add("price", f"{cost} us a row", "1 + 1 elsewhere / 1 at home", found)
    pays = cheapest(gains)
    bench.report.notes.append(
        f"price: a lane elsewhere gives {PAYS:g} times the rows of one at home "
        + (f"from {pays} us a row on." if pays else f"at none of {COSTS_US} us a row.")
    )


def cheapest(gains: Mapping[int, Sequence[float]]) -> int | None:
    """The least cost (us) from which on the median gain is :data:`PAYS` or more, or None.

    >>> cheapest({10: [1.0], 30: [1.6], 100: [1.4], 300: [1.9]})
    300
    """
    found = None
    for cost in sorted(gains, reverse=True):
        each = sorted(gains[cost])
        if not each or each[len(each) // 2] < PAYS:
            break
        found = cost
    return found


CASES = (
    Case("lanes", "as many lanes at home and elsewhere", lanes, 2 * len(SPLITS)),
    Case("free", "rows that cost nothing", free, 1),
    Case("price", "from which cost of a row on it pays", price, len(COSTS_US)),
    *remote_batches.CASES,
    *remote_moves.CASES,
    *remote_hosts.CASES,
    *remote_idle.CASES,
)
