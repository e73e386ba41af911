"""The control service: what clients that watch cost, and how soon a call is answered."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

import laneshift
from laneshift.control.address import Address
from laneshift.control.client import ControlClient
from laneshift.control.feed import SnapshotFeed
from laneshift.control.replies import Replies
from laneshift.plugin.gateway import Py4jGateway, the_one
from laneshift.plugin.snapshot import Snapshot
from laneshift.plugin.v1 import control_pb2 as pb
from laneshift.plugin.wire import filled
from laneshift_bench.idle import SOURCE
from laneshift_bench.pairs import spread
from laneshift_bench.progress import Progress
from laneshift_bench.query import BenchmarkError, Running, counting, running
from laneshift_bench.report import Goal, Report
from laneshift_bench.session import jvm_pid, session
from laneshift_bench.sides import elastic
from laneshift_bench.watchers import watching

SIZES, LANES = (8, 200), 2
"""State partitions of the query: of most, and of a large one."""
WATCHERS, EVERY_S = 50, 1.0
CHANGE_S = 0.5
"""Between two of the changes that undo each other: a watcher's next look finds other ones."""
SPAN_S = 20.0
"""Executors report to the driver every 10 s: as often in one span as in the next."""
START_S = 120.0
NEXT = "30000 days"
"""Spark counts intervals from 1970 on: a batch of each hour would fall into a span, too."""
QUIET = {"spark.sql.streaming.stateStore.maintenanceInterval": "1h"}
"""Or a span has the maintenance of all stores, and the next one has not."""
METHOD = f"""\
Counts per key in micro-batches: {SIZES[0]}, then {SIZES[1]} state partitions with {LANES} lanes and
64 shards each, in one JVM, with its control process; the query has done a batch and waits for its
next one.
Calls come from this process over loopback, one after the other. {WATCHERS} clients in a process of
their own watch with one snapshot each {EVERY_S:g} s. Times are wall clock, from the call to its
answer as Python objects.

*CPU* is the time that control process and driver's JVM take while {WATCHERS} watch, less that of
a span as long in which nobody does, by turns, in percent of a core; the clients' own is not in it.
Who watches a query *at rest* is told that all is the same; *while it changes*, one of two
partitions' lanes are set to another number every {CHANGE_S:g} s, with and without watchers, and
each watcher gets the whole snapshot each time. Stores have no maintenance meanwhile.
Under *parts* stands what one snapshot takes, measured one by one in this process, the call of the
plugin by py4j as the control process makes it."""


def run(quick: bool) -> Report:
    """The whole benchmark."""
    rounds, span_s, calls = (1, 5.0, 100) if quick else (5, SPAN_S, 1000)
    progress = Progress("control", len(SIZES) * (7 + 2 * rounds))
    report = Report("control", "Control service", METHOD, ("partitions", "figure", "measured"))
    for partitions in SIZES:
        _measure_with(partitions, report, progress, rounds, span_s, calls)
    return report


def _measure_with(
    partitions: int, report: Report, progress: Progress, rounds: int, span_s: float, calls: int
) -> None:
    with TemporaryDirectory(prefix="laneshift-bench-") as folder:
        token_file = Path(folder) / "token"
        settings = QUIET | {
            "spark.sql.laneshift.control.port": "0",
            "spark.sql.laneshift.control.tokenFile": str(token_file),
        }
        source = SOURCE | {"pacing": "none", "rowsPerBatch": 200_000}
        progress.step(f"a batch of {partitions} partitions")
        with (
            session(slots=os.cpu_count() or 1, settings=settings) as (spark, work),
            running(
                spark, work, elastic(LANES, partitions), source, counting,
                trigger=None, every=NEXT,
            ) as query,
        ):  # fmt: skip
            address, token = _listening(token_file)
            with ControlClient(Address.of(address), token) as client:
                place = _Place(spark, query, client, address, token, partitions)
                _await_partitions(place)
                _measure(place, report, progress, rounds, span_s, calls)
                query.check()


@dataclass(frozen=True, slots=True)
class _Place:
    """Where it is measured."""

    spark: SparkSession
    query: Running
    client: ControlClient
    address: str
    token: str
    partitions: int

    @property
    def clocks(self) -> dict[str, Callable[[], float]]:
        """CPU time (s) of each process; Linux only."""
        jvm = jvm_pid(self.spark)
        return {"control process": _cpu(_control_pid(jvm)), "driver's JVM": _cpu(jvm)}


def _measure(
    place: _Place, report: Report, progress: Progress, rounds: int, span_s: float, calls: int
) -> None:
    set_lanes = partial(_set_lanes, place, 0, LANES)
    for _ in range(calls // 5):
        set_lanes()
        place.client.snapshot()
    progress.step("commands")
    _add_times(place, report, "command round trip", _times_ms(set_lanes, calls), 20)
    progress.step("snapshots")
    took = _times_ms(place.client.snapshot, calls // 2)
    _add_times(place, report, "snapshot", took, 50)
    progress.step("parts of a snapshot")
    _add_parts(place, report, calls // 5)
    for changing in (False, True):
        _add_shares(place, report, progress, rounds, span_s, changing)
    with watching(place.address, place.token, WATCHERS, EVERY_S):
        progress.step("commands while they watch")
        watched = _times_ms(set_lanes, calls)
    _add_times(place, report, f"command round trip while {WATCHERS} watch", watched, 20)


def _add_shares(
    place: _Place, report: Report, progress: Progress, rounds: int, span_s: float, changing: bool
) -> None:
    when = "while it changes" if changing else "at rest"
    sizes = list[float]()
    shares: dict[str, list[float]] = {}
    for number in range(rounds + 1):
        progress.step(f"watchers {when}, " + (f"round {number}" if number else "warm-up"))
        found, size = _shares(place, span_s, changing)
        sizes.append(size)
        whole = _data(place, report)["bytes"]["message"]
        if changing != (size > 0.8 * whole):
            raise BenchmarkError(f"Watchers {when} get {size:.0f} bytes of {whole} each time.")
        progress.note(", ".join(f"{what} {share:.2f} %" for what, share in found.items()))
        if number:
            for what, share in found.items():
                shares.setdefault(what, []).append(share)
    name = f"CPU of {WATCHERS} watchers {when}"
    for what, each in shares.items():
        _add_row(place, report, f"{name}, % of a core: {what}", spread(each))
    goal = f"{name}, {place.partitions} partitions, % of a core"
    report.goals.append(Goal(goal, median(shares["together"]), "<=", 2))
    _data(place, report)[f"cpu_percent {when}"] = shares
    _add_row(place, report, f"bytes of a watcher's snapshot {when}", f"{median(sizes):,.0f}")
    _data(place, report)[f"bytes {when}"] = sizes


def _data(place: _Place, report: Report) -> dict[str, Any]:
    found: dict[str, Any] = report.data.setdefault(f"{place.partitions} partitions", {})
    return found


def _add_row(place: _Place, report: Report, what: str, measured: str) -> None:
    report.rows.append([str(place.partitions), what, measured])


def _set_lanes(place: _Place, partition: int | None, lanes: int) -> None:
    query = place.query.query.id
    wish = pb.LanesWish(query=query, operator=0, partition=partition, lanes=lanes)
    the_one(place.client.set_lanes([wish]))


def _add_times(
    place: _Place, report: Report, what: str, took_ms: Sequence[float], bound: float
) -> None:
    p50, p99, most = (float(np.percentile(took_ms, q)) for q in (50, 99, 100))
    _add_row(place, report, f"{what}, ms", f"p50 {p50:.1f}, p99 {p99:.1f}, max {most:.1f}")
    report.goals.append(Goal(f"{what}, {place.partitions} partitions: p99, ms", p99, "<=", bound))
    _data(place, report)[what] = {"ms": [round(ms, 3) for ms in took_ms]}


def _add_parts(place: _Place, report: Report, times: int) -> None:
    """What a snapshot goes through, and its size."""
    gateway = Py4jGateway(place.spark)

    def asked(known: int = 0) -> pb.SnapshotReply:
        return gateway.ask("Snapshot", pb.SnapshotRequest(known=known), pb.SnapshotReply)

    said = asked()
    packed = Replies(SnapshotFeed(lambda _: said)).newest(None).whole
    parts: dict[str, Callable[[], object]] = {
        "plugin and py4j": asked,
        "plugin and py4j, if nothing has changed": lambda: asked(said.number),
        "its answer read": lambda: filled(Snapshot, pb.SnapshotReply.FromString(packed)),
        "reply": lambda: Replies(SnapshotFeed(lambda _: said)).newest(None),
    }
    for what, part in parts.items():
        took = _times_ms(part, times)
        _add_row(place, report, f"part of a snapshot, ms: {what}", f"p50 {median(took):.2f}")
        _data(place, report).setdefault("parts_ms", {})[what] = [round(ms, 3) for ms in took]
    _add_row(place, report, "bytes of a snapshot", f"{len(packed):,}")
    report.goals.append(
        Goal(f"a snapshot of {place.partitions} partitions, kB", len(packed) / 1000, "<=", 200)
    )
    _data(place, report)["bytes"] = {"message": len(packed)}


def _shares(place: _Place, span_s: float, changing: bool) -> tuple[dict[str, float], float]:
    """Percent of a core that watchers cost each process, and together; bytes of each snapshot."""
    clocks = place.clocks
    with _changed(place) if changing else nullcontext():
        quiet = _spent(clocks, span_s)
        with watching(place.address, place.token, WATCHERS, EVERY_S) as watchers:
            before = watchers.seen()
            busy = _spent(clocks, span_s)
            after = watchers.seen()
    came = [b - a for a, b in zip(before["seen"], after["seen"], strict=True)]
    if min(came) < span_s / EVERY_S - 2:
        raise BenchmarkError(f"A watcher got {min(came)} snapshots in {span_s:.0f} s.")
    found = {what: 100 * (busy[what] - quiet[what]) for what in clocks}
    size = (sum(after["bytes"]) - sum(before["bytes"])) / sum(came)
    return found | {"together": sum(found.values())}, size


@contextmanager
def _changed(place: _Place) -> Iterator[None]:
    """Something in the snapshot is another in each that a watcher gets."""
    over = threading.Event()

    def change() -> None:
        for partition, lanes in cycle(((0, 1), (1, 1), (0, LANES), (1, LANES))):
            if over.wait(CHANGE_S):
                return
            _set_lanes(place, partition, lanes)

    thread = threading.Thread(target=change, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        _set_lanes(place, None, LANES)


def _spent(clocks: Mapping[str, Callable[[], float]], span_s: float) -> dict[str, float]:
    """Cores that each has used in a span."""
    began, before = time.monotonic(), {what: clock() for what, clock in clocks.items()}
    time.sleep(span_s)
    took = time.monotonic() - began
    return {what: (clock() - before[what]) / took for what, clock in clocks.items()}


def _times_ms(call: Callable[[], object], times: int) -> list[float]:
    took = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        took.append(1000 * (time.perf_counter() - began))
    return took


def _cpu(pid: int) -> Callable[[], float]:
    clock = (~pid << 3) | 2  # what clock_getcpuclockid(3) gives for a process
    return lambda: time.clock_gettime(clock)


def _control_pid(jvm: int) -> int:
    """The control process of a driver. Errors: BenchmarkError if there is none."""
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            said = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if parent == jvm and b"laneshift.control.process" in said:
            return int(folder.name)
    raise BenchmarkError("The driver has no control process.")


def _listening(token_file: Path) -> tuple[str, str]:
    """Where it listens, and the token."""
    file = token_file.with_name(token_file.name + ".address")
    end = time.monotonic() + START_S
    while not file.exists():
        if time.monotonic() > end:
            raise BenchmarkError(f"Nobody listens after {START_S:.0f} s.")
        time.sleep(0.1)
    return file.read_text("utf-8").strip(), token_file.read_text("utf-8").strip()


def _await_partitions(place: _Place) -> None:
    """Until the first batch is over and all partitions are in the snapshot."""
    app = laneshift.attach(place.spark)
    end = time.monotonic() + START_S
    while True:
        place.query.check()
        there = [len(o.partitions) for q in app.snapshot().queries for o in q.operators]
        if place.query.query.recentProgress and there == [place.partitions]:
            return
        if time.monotonic() > end:
            raise BenchmarkError(
                f"No batch of {place.partitions} partitions in {START_S:.0f} s: {there}"
            )
        time.sleep(0.5)
