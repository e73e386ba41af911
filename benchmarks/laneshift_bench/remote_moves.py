"""Shards that move to another executor and back: the cases of `remote` for them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from laneshift.plugin.handoff import Handoff
from laneshift_bench import processes
from laneshift_bench.measure import Latency
from laneshift_bench.query import counting_payloads
from laneshift_bench.remote_case import CORES, EXECUTORS, Bench, Case, full_rate_s, side, source
from laneshift_bench.there import Spread, cluster, spread_query, until

PAYLOAD = 400
STATE_BYTES = PAYLOAD + 56
"""Of a group: its payload, the key, the count, the time, and Spark's row headers."""
RATE, FILL_RATE = 20_000, 150_000
FILLS = 3
"""Rows a key before it is measured: of uniform keys one in twenty has had none."""
CALM_S = 10.0
HISTORY = 1_000_000
CACHE_MB = 32.0 * 1.048576
METHOD = f"""\
*moves*: Real-time Mode, groups of about {STATE_BYTES} bytes, {RATE:,} rows/s that cost nothing; the
partition goes from two lanes at home to one there and one elsewhere, and back, so that half of its
shards move each time. Pauses of the moves to and from the other executor, by state of a shard:
64 shards of 32 KB, 64 of 1 MB, 32 of 32 MB, which are 1 GiB. With the last, the first change is
watched: the 99th percentile of the latency of all rows in the {CALM_S:g} s before and after it, how
long until rows come at full rate, and how much more memory both processes have at its end than
before, beyond the cache of {CACHE_MB:.0f} MB."""


@dataclass(frozen=True, slots=True)
class Size:
    """State of a shard (bytes), shards of the partition, and the most keys of a trial."""

    name: str
    shard_bytes: int
    shards: int

    def keys(self, quick: bool) -> int:
        """Groups of the partition; a quick trial has an eighth of 1 GiB at most."""
        most = (1 << 27) // STATE_BYTES if quick else 1 << 30
        return min(self.shard_bytes * self.shards // STATE_BYTES, most)


SIZES = (
    Size("32 KB", 32 << 10, 64),
    Size("1 MB", 1 << 20, 64),
    Size("32 MB", 32 << 20, 32),
)


@dataclass(frozen=True, slots=True)
class Change:
    """What half of the state's leaving did to the query.

    Attributes:
        before_ms, after_ms: 99th percentiles of latency over all rows of the 10 s before and after.
        full_s: until rows came at full rate.
        more_mb: memory of home and host together, beyond what they had (MB).
    """

    before_ms: float
    after_ms: float
    full_s: float
    more_mb: float


def moves(bench: Bench) -> None:
    """Pauses by state of a shard; and what 1 GiB of which half moves does to the query."""
    p99s: dict[str, float] = {}
    for size in SIZES:
        keys = size.keys(bench.quick)
        fill_s = FILLS * keys / FILL_RATE
        stages = f"{FILL_RATE}:{round(1000 * fill_s) + 1}ms,{RATE}:10000s"
        offered = source(keys=keys, rowBytes=PAYLOAD, rate="stage", rateStages=stages)
        with (
            cluster(EXECUTORS, CORES, memory_mb=2000) as (spark, work),
            spread_query(
                spark, work, side(size.shards, balance_enabled="false"), offered, counting_payloads,
                trigger="60 minutes",
            ) as query,
        ):  # fmt: skip
            bench.progress.step(f"moves, {size.name}: {keys:,} groups")
            query.split(2, ())
            filled = FILLS * keys
            until("a full state", lambda: query.part().rows_in >= filled or None, 900)  # noqa: B023
            time.sleep(CALM_S)
            if size is SIZES[-1]:
                home = processes.executors(str(spark.sparkContext.applicationId))
                _show(bench, size, _change(query, home))
            begun_ms = query.app.snapshot().time_ms
            for turn in range(2 if bench.quick else 8 * bench.rounds):
                query.split(2, ()) if turn % 2 else query.split(1, (1,))
                time.sleep(1.0)
            found = query.app.query(query.query).handoffs(limit=HISTORY)
        p99s[size.name] = _pauses(bench, size, [h for h in found if h.time_ms >= begun_ms])
    small, large = (p99s[size.name] for size in (SIZES[0], SIZES[-1]))
    bench.goal("pause p99, shards of 32 MB / of 32 KB", [large / small], "<=", 2.0)


def away(found: Sequence[Handoff]) -> tuple[list[float], list[float]]:
    """Pauses (ms) of the moves to other executors, and of those from them, that stopped rows."""
    to = [h.pause_us / 1e3 for h in found if h.target_executor and h.pause_us > 0]
    back = [h.pause_us / 1e3 for h in found if h.source_executor and h.pause_us > 0]
    return to, back


def _pauses(bench: Bench, size: Size, found: Sequence[Handoff]) -> float:
    """Adds what the moves of a size took; the 99th percentile of all (ms)."""
    to, back = away(found)
    for way, pauses in (("to another executor", to), ("from another executor", back)):
        for figure, percent in (("p50", 50), ("p99", 99), ("max", 100)):
            values = [float(np.percentile(pauses, percent))] if pauses else []
            bench.add(f"moves, {size.name}", way, f"pause {figure}, ms", values)
    bench.report.notes.append(
        f"moves, {size.name}: {len(to)} to another executor, {len(back)} back."
    )
    p99 = float(np.percentile(to + back, 99)) if to or back else float("nan")
    bench.goal(f"pause p99 of shards of {size.name}, ms", [p99], "<=", 10.0)
    return p99


def _change(query: Spread, home: dict[str, int]) -> Change:
    """One lane of two leaves for another executor."""
    host = query.others()[0]
    pids = [home[query.part().executor], home[host]]
    query.meter.lap()
    time.sleep(CALM_S)
    slots, before = query.meter.lap()
    was = sum(processes.resident_mb(pid) for pid in pids)
    since_s = time.time()
    query.split(1, (1,))
    time.sleep(CALM_S)
    after_slots, after = query.meter.lap()
    more = sum(processes.resident_mb(pid) for pid in pids) - was
    every = [(at / 1000, rows) for at, rows in slots + after_slots]
    full = full_rate_s(every, since_s, RATE)
    return Change(_p99(before), _p99(after), full, more - CACHE_MB)


def _p99(latency: Latency) -> float:
    return Latency.merged([latency]).p99_ms


def _show(bench: Bench, size: Size, change: Change) -> None:
    case, name = f"moves, {size.name}", "half of the state leaves"
    bench.add(case, name, "p99 before, ms", [change.before_ms])
    bench.add(case, name, "p99 after, ms", [change.after_ms])
    bench.add(case, name, "until full rate, s", [change.full_s])
    bench.add(case, name, "memory beyond the cache, MB", [change.more_mb])
    ratio = change.after_ms / change.before_ms
    bench.goal("1 GiB, half of it leaves: p99 after / before", [ratio], "<=", 1.5)
    bench.goal("1 GiB, half of it leaves: until full rate, s", [change.full_s], "<=", 2.0)
    bench.goal("1 GiB, half of it leaves: memory beyond the cache, MB", [change.more_mb], "<=",
               96 * 1.048576)  # fmt: skip


CASES = (
    Case("moves", "shards of 32 KB, 1 MB and 32 MB that move there and back", moves, 0, len(SIZES)),
)
