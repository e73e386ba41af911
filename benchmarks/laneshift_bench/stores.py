"""More and fewer state partitions for a running query: how long it stands still, by its state."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from laneshift import attach
from laneshift_bench.measure import Meter
from laneshift_bench.pairs import spread
from laneshift_bench.progress import Progress
from laneshift_bench.query import (
    BenchmarkError,
    Running,
    as_side,
    batch_ms,
    counting_payloads,
    running,
    writer,
)
from laneshift_bench.repartition import RepartitionedQuery
from laneshift_bench.report import Goal, Report, kept
from laneshift_bench.rescale import SPARK, longest_gap_s, repartitioned
from laneshift_bench.session import session
from laneshift_bench.sides import Side, stock

CORES = 2
FEW, MANY = 4, 16
RATE = 5_000
EVERY_S = 2.0
PAYLOAD = 84
FILL_BATCH = 1_000_000
FILLED = 3
"""Rows for each key of the fill: of so many, uniform, 95 % of the keys have one or more."""
CALM_S, SETTLED_S = 15.0, 10.0
AT_MOST_S = 1800.0
LAP_S = 0.2
WIDE, NARROW, WIDE_ROWS = 200, 8, 24_000
METHOD = f"""\
*4 -> 16*, *16 -> 4*: counts per key and each key's greatest payload of {PAYLOAD} bytes (100 with
the key and its time). {FILLED} rows for each key fill the state; each run goes on from a copy of
that checkpoint, which is on the disk before it begins: a micro-batch of
{int(RATE * EVERY_S):,} rows every {EVERY_S:g} s, on {CORES} cores. After {CALM_S:g} s it
gets {MANY} state partitions, and {CALM_S:g} s after that is done, {FEW} again. *laneshift* is
`query.rescale` with a lane in each partition, *{SPARK}* stock Spark by
`RepartitionedQuery`: stop, finish the batch, Spark's offline repartition, start. *Stands still*:
the longest time without a row in the sink from the call until {CALM_S:g} s after it came back,
less that of normal batches: the longest of the {CALM_S:g} s before the call or the median of the
last {SETTLED_S:g} s, with the new number, whichever is longer. *Rate meanwhile*:
rows that came from the call until it came back, over those that were due. *{WIDE} -> {NARROW}*:
counts over 10,000 keys, batches of {WIDE_ROWS:,} rows back to back: the median batch's time before
and after, and that of stock Spark which has begun with as many partitions. Sides take turns.
Checkpoints are on a local disk."""
HEADER = ("state", "change", "figure", "laneshift", SPARK)


@dataclass(frozen=True)
class Change:
    """A change of the number of state partitions.

    Attributes:
        gap_s, before_s: longest time without a row from the call on, and in the time before.
        after_s: the median between two batches at the end, with the new number.
        took_s: until the call came back.
        rate: rows that came meanwhile, as a share of those that were due.
    """

    gap_s: float
    before_s: float
    after_s: float
    took_s: float
    rate: float

    @property
    def still_s(self) -> float:
        """How much longer than a normal batch the query stood still."""
        return max(0.0, self.gap_s - max(self.before_s, self.after_s))


def run(
    quick: bool, only: Sequence[str] = (), rounds: int | None = None, add: Path | None = None
) -> Report:
    """All cases, or those that ``only`` names: numbers of keys, 200.

    Args:
        add: results of an earlier run, whose other cases are kept.
    """
    turns = rounds or (1 if quick else 2)
    sizes = (20_000,) if quick else (1_000_000, 10_000_000)
    names = {f"{keys:,} keys": keys for keys in sizes}
    chosen = [keys for name, keys in names.items() if _wanted(name, only)]
    wide = _wanted(f"{WIDE} -> {NARROW}", only)
    progress = Progress("stores", len(chosen) * (1 + 2 * turns) + (3 * turns if wide else 0))
    report = Report("stores", "More and fewer state partitions", METHOD, HEADER)
    report.data.update(kept(add))
    with session(slots=CORES) as (spark, work):
        for keys in chosen:
            _rescales(spark, work, keys, turns, progress, report)
        if wide:
            _fewer(spark, work, turns, quick, progress, report)
    for name, found in report.data.items():
        if name.endswith("keys"):
            _add_rescales(report, name, found)
        else:
            _add_fewer(report, name, found)
    return report


def _wanted(name: str, only: Sequence[str]) -> bool:
    return not only or name.split()[0].replace(",", "") in {o.replace(",", "") for o in only}


# ---- 4 -> 16 -> 4


def _source(keys: int, rows_per_batch: int) -> dict[str, object]:
    return {
        "keys": keys, "zipf": 0, "rowBytes": PAYLOAD, "numPartitions": 2, "pacing": "none",
        "rowsPerBatch": rows_per_batch,
    }  # fmt: skip


def _rescales(
    spark: SparkSession, work: Path, keys: int, turns: int, progress: Progress, report: Report
) -> None:
    name = f"{keys:,} keys"
    progress.step(f"{name}, filling the state")
    filled = work / f"filled{keys}"
    state_rows = _fill(spark, filled, keys)
    progress.note(f"{state_rows:,} state rows")
    ways: dict[str, Callable[[SparkSession, Path, int], list[Change]]] = {
        "laneshift": _ours,
        SPARK: _sparks,
    }
    found: dict[str, list[list[Change]]] = {side: [] for side in ways}
    for number in range(turns):
        for side, way in ways.items():
            progress.step(f"{name}, {side}, round {number + 1}")
            folder = work / f"stores{progress.done}"
            shutil.copytree(filled, folder)
            os.sync()
            changes = way(spark, folder, keys)
            shutil.rmtree(folder, ignore_errors=True)
            for one in changes:
                progress.note(
                    f"stands still {one.still_s:.2f} s (a normal batch "
                    f"{one.before_s:.2f} s before, {one.after_s:.2f} s after), "
                    f"call {one.took_s:.1f} s, rate meanwhile {one.rate:.2f}"
                )
            found[side].append(changes)
    shutil.rmtree(filled, ignore_errors=True)
    report.data[name] = {
        "state_rows": state_rows,
        "sides": {
            side: [[asdict(one) for one in changes] for changes in rounds]
            for side, rounds in found.items()
        },
    }


def _add_rescales(report: Report, name: str, found: Mapping[str, Any]) -> None:
    report.notes.append(f"{name}: {found['state_rows']:,} state rows.")
    for at, change in enumerate((f"{FEW} -> {MANY}", f"{MANY} -> {FEW}")):
        each = {
            side: [Change(**changes[at]) for changes in rounds]
            for side, rounds in found["sides"].items()
        }
        _add(report, name, change, each)


def _add(report: Report, name: str, change: str, each: Mapping[str, list[Change]]) -> None:
    figures: dict[str, Callable[[Change], float]] = {
        "stands still, s": lambda one: one.still_s,
        "longest gap, s": lambda one: one.gap_s,
        "normal gap before, s": lambda one: one.before_s,
        "normal gap after, s": lambda one: one.after_s,
        "call, s": lambda one: one.took_s,
        "rate meanwhile": lambda one: one.rate,
    }
    for figure, of in figures.items():
        values = [spread([of(one) for one in ones]) for ones in each.values()]
        report.rows.append([name, change, figure, *values])
    ours = each["laneshift"]
    still = max(one.still_s for one in ours)
    report.goals.append(Goal(f"{name}, {change}: stands still at most, s", still, "<=", 1.0))
    rate = median(one.rate for one in ours)
    report.goals.append(Goal(f"{name}, {change}: rate meanwhile", rate, ">=", 0.8))


def _fill(spark: SparkSession, folder: Path, keys: int) -> int:
    """Leave a checkpoint with these keys' state; its state rows."""
    source = _source(keys, min(FILL_BATCH, keys)) | {"totalRows": FILLED * keys}
    with as_side(spark, stock(FEW)):
        made = writer(spark, folder.name, source, counting_payloads).outputMode("update")
        made = made.option("checkpointLocation", str(folder)).trigger(availableNow=True)
        query = made.start()
        if not query.awaitTermination(int(AT_MOST_S)):
            query.stop()
            raise BenchmarkError(f"The state was not there within {AT_MOST_S:g} s.")
    Meter(spark, folder.name).drop()
    last = query.lastProgress
    if last is None:
        raise BenchmarkError("The query that fills the state has had no batch.")
    return int(last.stateOperators[0].numRowsTotal)


def _going_on(keys: int) -> dict[str, object]:
    return _source(keys, int(RATE * EVERY_S)) | {"totalRows": 10**12}


def _ours(spark: SparkSession, folder: Path, keys: int) -> list[Change]:
    side = Side("laneshift", {"lanes": "1"}, FEW)
    app = attach(spark)
    with running(
        spark, folder.parent, side, _going_on(keys), counting_payloads, trigger=None,
        checkpoint=folder, every=f"{EVERY_S:g} seconds",
    ) as query:  # fmt: skip
        found = _both(query.meter, lambda n: app.query(query.query).rescale(n).wait(AT_MOST_S))
        query.check()
        return found


def _sparks(spark: SparkSession, folder: Path, keys: int) -> list[Change]:
    meter = Meter(spark, folder.name)

    def written(session: SparkSession) -> DataStreamWriter:
        made = writer(session, folder.name, _going_on(keys), counting_payloads)
        return made.outputMode("update")

    trigger = {"processingTime": f"{EVERY_S:g} seconds"}
    query = RepartitionedQuery(spark, written, str(folder), trigger, timeout=AT_MOST_S)
    with as_side(spark, stock(FEW)), repartitioned(query, meter):
        return _both(meter, query.rescale)


def _both(meter: Meter, to: Callable[[int], object]) -> list[Change]:
    """More partitions, then fewer, each after some calm."""
    return [_watched(meter, partial(to, partitions)) for partitions in (MANY, FEW)]


def _watched(meter: Meter, change: Callable[[], object]) -> Change:
    """What came to the sink before, in and after a change."""
    before = _came(meter, CALM_S)
    call_ms = time.time() * 1000
    with ThreadPoolExecutor(1) as pool:

        def timed() -> float:
            began = time.monotonic()
            change()
            return time.monotonic() - began

        called = pool.submit(timed)
        amid = _came(meter, 0.0, called.done)
        took_s = called.result()
    back_ms = call_ms + 1000 * took_s
    after = _came(meter, CALM_S)
    rows = before + amid + after
    slots = sorted({at for at, _ in rows})
    meanwhile = sum(n for at, n in rows if call_ms <= at < back_ms)
    # A batch's rows come at once: of a short change one more or less says nothing.
    due = max(RATE * took_s, RATE * EVERY_S)
    end_ms = time.time() * 1000
    return Change(
        gap_s=longest_gap_s(slots, call_ms, end_ms),
        before_s=longest_gap_s(slots, call_ms - 1000 * CALM_S, call_ms),
        after_s=_median_gap_s(slots, end_ms - 1000 * SETTLED_S),
        took_s=took_s,
        rate=min(1.0, meanwhile / due),
    )


def _median_gap_s(slots: Sequence[float], from_ms: float) -> float:
    """Between two batches (s), each of whose rows come within a few slots."""
    gaps = [b - a for a, b in pairwise(slots) if a >= from_ms and b - a > 500 * EVERY_S]
    return median(gaps) / 1000 if gaps else 0.0


def _came(
    meter: Meter, seconds: float, over: Callable[[], bool] = lambda: True
) -> list[tuple[float, int]]:
    """Slots (ms since 1970) and rows that came for so long, and until it is ``over``."""
    began = time.monotonic()
    found: list[tuple[float, int]] = []
    while (at := time.monotonic() - began) < seconds or not over():
        if at > AT_MOST_S:
            raise BenchmarkError(f"The change was not there within {AT_MOST_S:g} s.")
        time.sleep(LAP_S)
        found.extend((float(slot), rows) for slot, rows in meter.lap()[0])
    return found


# ---- 200 -> 8


def _fewer(
    spark: SparkSession, work: Path, turns: int, quick: bool, progress: Progress, report: Report
) -> None:
    name = f"{WIDE} -> {NARROW}"
    source: dict[str, object] = {
        "keys": 10_000, "zipf": 0, "rowBytes": 8, "numPartitions": 2, "pacing": "none",
        "rowsPerBatch": WIDE_ROWS,
    }  # fmt: skip
    count = 1 if quick else 3
    app = attach(spark)
    before: list[float] = []
    after: list[float] = []
    stocks: dict[int, list[float]] = {WIDE: [], NARROW: []}
    for number in range(turns):
        for partitions, times in stocks.items():
            progress.step(f"{name}, stock with {partitions}, round {number + 1}")
            with running(
                spark, work, stock(partitions), source, counting_payloads, trigger=None
            ) as query:
                times.append(median(batch_ms(query, 2, count)))
            progress.note(f"{times[-1]:,.0f} ms a batch")
        progress.step(f"{name}, laneshift, round {number + 1}")
        side = Side("laneshift", {"lanes": "1"}, WIDE)
        with running(spark, work, side, source, counting_payloads, trigger=None) as query:
            before.append(median(batch_ms(query, 2, count)))
            done = app.query(query.query).rescale(NARROW).wait(AT_MOST_S)
            if done.batch_id is None:
                raise BenchmarkError(f"The rescale has ended without a take-over: {done}")
            # The first batches load the new stores.
            after.append(_later_batch_ms(query, done.batch_id + 3, count))
        progress.note(f"{before[-1]:,.0f} ms a batch before, {after[-1]:,.0f} ms after")
    report.data[name] = {
        "before": before,
        "after": after,
        "stock": {str(k): v for k, v in stocks.items()},
    }


def _add_fewer(report: Report, name: str, found: Mapping[str, Any]) -> None:
    for when, partitions in (("before", WIDE), ("after", NARROW)):
        stocks = spread(found["stock"][str(partitions)])
        report.rows.append(["10,000 keys", name, f"batch {when}, ms", spread(found[when]), stocks])


def _later_batch_ms(query: Running, first: int, count: int) -> float:
    """The median time (ms) of so many batches from the one with this number on."""
    times: list[float] = []
    while len(times) < count:
        query.check()
        query.query.awaitTermination(1)
        progress = [p for p in query.query.recentProgress if p.numInputRows]
        times = [p.durationMs["triggerExecution"] for p in progress if p.batchId >= first]
    return median(times[:count])
