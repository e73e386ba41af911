"""Move pause: how long a shard of 32 KB stands still while it changes lanes under load."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from laneshift import attach
from laneshift.plugin.handoff import Handoff
from laneshift_bench.mover import Mover
from laneshift_bench.progress import Progress
from laneshift_bench.query import ENDLESS, BenchmarkError, counting_payloads, running
from laneshift_bench.report import Goal, Report
from laneshift_bench.session import SEED, session
from laneshift_bench.sides import elastic

MOVES_PER_S = 100.0
KEEPS_UP = 0.97
"""Less of the rows that are due means that the query falls behind (ours)."""
# One lane for each core of the machine that the goals are for.
SHARDS, PARTITIONS, LANES, STATE_BYTES = 64, 1, 2, 32 << 10
PAYLOAD = 400
# A group's state: its payload, the key, the count, the time, and Spark's row headers.
ROW_BYTES = PAYLOAD + 56
KEYS = SHARDS * PARTITIONS * STATE_BYTES // ROW_BYTES
PARTS = ("pause_us", "flush_us", "switch_us", "drain_us", "whole_us")
METHOD = f"""\
Real-time Mode, {PARTITIONS} state partition of {SHARDS} shards and {LANES} lanes;
{KEYS:,} groups of about {ROW_BYTES} bytes, so {STATE_BYTES >> 10} KB of state a shard, at 60 %
of the rate at which the same query's rows come out without pacing, pauses between batches
included. A thread asks for {MOVES_PER_S:.0f} moves
a second through `laneshift.attach(spark).query(...).move(...)`, of random shards to random other
lanes; the times are those of `handoffs()`. Balancing is off, so that every move is one that was
asked for. *pause* is how long rows of the shard waited for nothing but the move: *flush* until
the source lane's outputs are on their way, *switch* until the rows that it has not worked on are
in the other lane's queue and the routing is changed. Before that, *drain*: until the source lane
has noticed, between two rows; the shard's rows go on meanwhile. *whole* is from the request to
the end."""


def run(quick: bool) -> Report:
    """The whole benchmark."""
    wanted = 500 if quick else 10_000
    progress = Progress("pause", 3)
    side = elastic(LANES, PARTITIONS)
    side.options.update({"balance.enabled": "false", "shardsPerPartition": str(SHARDS)})
    source = {"keys": KEYS, "zipf": 0, "rowBytes": PAYLOAD}
    with session(slots=8) as (spark, work):
        app = attach(spark)
        progress.step("the rate that the query takes at most")
        full = source | {"pacing": "none", "totalRows": ENDLESS}
        with running(spark, work, side, full, counting_payloads) as run:
            limit = run.measure(*((5, 10) if quick else (20, 20))).rows_per_s
        rate = round(limit * 0.6)
        progress.note(f"{limit:,.0f} rows/s, so {rate:,} rows/s")
        progress.step(f"{wanted:,} moves, about {wanted / MOVES_PER_S:.0f} s")
        with (
            running(spark, work, side, source | {"rowsPerSecond": rate}, counting_payloads) as run,
            Mover(app, run.query, MOVES_PER_S, SEED) as mover,
        ):
            time.sleep(5 if quick else 40)
            run.meter.begin()
            mover.on.set()
            begun = shown = time.monotonic()
            while len(moves := mover.done()) < wanted:
                run.check()
                if time.monotonic() - shown > 10:
                    shown = time.monotonic()
                    progress.note(f"{len(moves):,} of {wanted:,} moves, {shown - begun:.0f} s")
                time.sleep(1)
            latency = run.meter.read()
            sent, refused = mover.sent, dict(mover.refused)
        if latency.rows_per_s < KEEPS_UP * rate:
            raise BenchmarkError(
                f"{latency.rows_per_s:,.0f} rows/s came, of {rate:,} that were due: the query fell "
                "behind, and its pauses are those of another load."
            )
        moves = moves[:wanted]
    progress.step("done")
    return _report(
        moves,
        rate,
        {"limit_rows_per_s": limit, "sent": sent, "refused": refused, "latency": asdict(latency)},
    )


def _time_us(move: Handoff, part: str) -> float:
    if part == "whole_us":
        return move.drain_us + move.pause_us
    return float(getattr(move, part))


def _report(moves: Sequence[Handoff], rate: int, data: dict[str, Any]) -> Report:
    report = Report(
        "pause", "Pause of a move", METHOD, ("part, ms", "p50", "p90", "p99", "p99.9", "max")
    )
    percentiles = (50, 90, 99, 99.9, 100)
    for part in PARTS:
        values = np.array([_time_us(m, part) for m in moves]) / 1000
        found = [float(v) for v in np.percentile(values, percentiles)]
        report.data[part] = {f"p{p}": round(v, 4) for p, v in zip(percentiles, found, strict=True)}
        report.rows.append([part.removesuffix("_us"), *(f"{v:.3f}" for v in found)])
        if part == "pause_us":
            report.goals = [
                Goal("pause p99, ms", found[2], "<=", 5),
                Goal("pause max, ms", found[4], "<=", 25),
            ]
    moved = np.array([m.moved_rows for m in moves])
    latency = data["latency"]["all"]
    report.data |= {
        "moves": len(moves),
        "rows_per_s": rate,
        "moved_rows_mean": float(moved.mean()),
    } | data
    report.notes = [
        f"{len(moves):,} moves at {rate:,} rows/s, whose latency was {latency['p50_ms']:,.0f} ms "
        f"in the median and {latency['p99_ms']:,.0f} ms at p99; {moved.mean():.1f} rows went along "
        f"with their shard on average, {moved.max()} at most.",
        f"Requests turned down: {data['refused'] or 'none'}, of {data['sent']} that were taken; "
        "those that fell between two batches stop nothing and are not counted.",
    ]
    return report
