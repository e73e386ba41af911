"""The rates of one partition of a running query, from two looks at it.

Measured so (ours): a partition's offered rate is what its input took in, told from chance
(:class:`Arrivals`) and from pauses between batches (:class:`Rest`), and "at least that" while the
input had to wait for room. The service rate of a core is rows over the time that lanes worked,
waits for rows and for room left out. It is not CPU time: a lane that waits inside the user's code
is held by that row all the same. What a lane on another executor works on is not seen from home,
only how long its rows take to be answered for: the rate is that of the lanes at home.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from laneshift.autoscale.cores import placed, placement
from laneshift.autoscale.pictures import Lanes, Seen, Window
from laneshift.contract.ids import LaneId, NodeId
from laneshift.contract.partition_load import LaneLoad, NodeCores, PartitionLoad
from laneshift.contract.shard_table import ShardTable
from laneshift.plugin.partition import FloatArray, LoadMetric, PartitionSnapshot
from laneshift.plugin.snapshot import Mode

KEPT_S = 5.0
"""So much of the past is looked at (ours)."""

SURE = 4.5
"""By so many standard deviations of a Poisson count two parts must differ (ours): constant load
differs so in one window of about 100,000."""


class Arrivals:
    """What arrived at one partition in the last windows. Not safe for several threads.

    A window's count says a rate only to within its square root: at 400 rows/s, half a second shows
    anything from 340 to 460. A policy that takes each window at its word changes lanes for nothing.
    So the rate is that of the last seconds together, for as long as no later part of them differs
    from the earlier one by more than chance explains; from then on it is that of the later part
    alone (ours).
    """

    def __init__(self) -> None:
        self._windows: deque[tuple[float, float]] = deque()

    def add(self, rows: float, seconds: float) -> float:
        """The rate (rows/s) once ``rows`` more have arrived within ``seconds`` (s, > 0) more."""
        self._windows.append((rows, seconds))
        while len(self._windows) > 1 and sum(s for _, s in self._windows) > KEPT_S:
            self._windows.popleft()
        for _ in range(self._changed()):
            self._windows.popleft()
        return sum(r for r, _ in self._windows) / sum(s for _, s in self._windows)

    def _changed(self) -> int:
        """How many of the oldest windows were before a change; 0 without one."""
        rows = sum(r for r, _ in self._windows)
        seconds = sum(s for _, s in self._windows)
        surest, first = SURE, 0
        late_rows = late_seconds = 0.0
        for index in range(len(self._windows) - 1, 0, -1):
            late_rows += self._windows[index][0]
            late_seconds += self._windows[index][1]
            # If the rate was the same all the time, what came late is binomial among all rows.
            share = late_seconds / seconds
            spread = math.sqrt(rows * share * (1.0 - share))
            apart = abs(late_rows - rows * share) / spread if spread > 0 else 0.0
            if apart > surest:
                surest, first = apart, index
        return first


HIDDEN_S = 5.0
"""Catching up that should take no longer is not shown (ours)."""

LONGEST_S = 10.0
"""After so long without having caught up, the load may have changed: it is measured (ours)."""

CAUGHT_UP = 0.9
"""Share of the rows that should have come, of which this many have (ours)."""

WAITING_S = 0.1
"""Rows that arrive in so long may wait when a partition has caught up (ours)."""


@dataclass(slots=True)
class Rest:
    """Of one partition, from the last look before a pause between batches of Real-time Mode on.

    Then no lane runs for a second or so, and after it lanes work off what has waited. Neither says
    anything of the load (ours): the partition is shown as it was measured before, until what came
    since then is what should have come. Then it is measured again, over the whole time: pause and
    catching up together have the rate at which rows arrive. A pause that the lanes would need long
    to make up for is not hidden: from its end on the partition is shown as saturated, with what
    waits in its queues, and the policy may give it lanes.

    Attributes:
        was, began_ms: the partition at that look, and when that was (ms since 1970).
        before: how it was measured then.
        over_ms: the first look at which its lanes had run for a whole window, None before.
        hidden: whether catching up should then be short, with the lanes that it has.
    """

    was: PartitionSnapshot
    began_ms: int
    before: PartitionLoad
    over_ms: int | None = None
    hidden: bool = True

    def is_over(self, part: PartitionSnapshot, ran: bool, now_ms: int, saturated: bool) -> bool:
        """Whether to measure again. ``ran``: lanes have run since the last look without a pause."""
        if not ran:
            return False
        if self.over_ms is None:
            self.over_ms = now_ms
            self.hidden = self._catching_up_s(part, now_ms) <= HIDDEN_S
        expected = self.before.offered_rate * (now_ms - self.began_ms) / 1000
        caught_up = (
            not saturated
            and part.rows_in - self.was.rows_in >= CAUGHT_UP * expected
            and part.queue_rows.sum() <= max(1.0, WAITING_S * self.before.offered_rate)
        )
        return caught_up or now_ms - self.over_ms > 1000 * LONGEST_S

    def shown(self, part: PartitionSnapshot) -> PartitionLoad:
        """What a policy sees meanwhile."""
        seen = placed(self.before, placement(Lanes.of(part), part.executor))
        if self.hidden:
            return seen
        waiting = float(part.queue_rows.sum())
        most = math.inf if seen.queue_capacity_rows is None else seen.queue_capacity_rows
        return replace(seen, queue_rows=min(waiting, most), saturated=True)

    def _catching_up_s(self, part: PartitionSnapshot, now_ms: int) -> float:
        """How long the lanes should need to work off what has waited, if the load is the same."""
        spare = part.lanes * self.before.service_rate_per_core - self.before.offered_rate
        waited = self.before.offered_rate * (now_ms - self.began_ms) / 1000
        return waited / spare if spare > 0 else math.inf


BLOCKED_SHARE = 0.05
"""The input waited for more than this share of the window: the partition is saturated (ours)."""

ONE_LANE_BUSY = 0.95
"""In Real-time Mode a single lane may have no queue: it is the input itself that works on rows, and
is saturated if it does so for more than this share of the window (ours)."""

MICRO_BATCH_BUSY = 0.7
"""Lanes that worked for more than this share are saturated (ours). In micro-batch lanes rest while
Spark plans, reads and commits, and a batch always fills the queues: waits say nothing there."""

SERVICE_HALF_LIFE_S = 3.0
"""For the service rate, rows and the time that lanes worked on them count half after so long
(ours): rows count when a lane takes a block of them, its time as it works on them, so that a short
window in which a block begins shows a rate far too high, and those after it one far too low."""

FEW_ROWS = 20

SHORT_S = 1.0
"""Fewer rows than this in less work than that leave the service rate as it was (ours)."""

UNKNOWN_RATE = 1e6
"""Rows per second of a core before the first measurement: no reason for a second one (ours)."""

UNKNOWN_ROW_BYTES = 128.0
"""Bytes of a queued row as long as none was seen in a queue (ours)."""


class PartitionMeter:
    """Remembers the rates of one partition that a quiet window does not show."""

    def __init__(self) -> None:
        self._worked = (0.0, 0.0)  # rows and seconds, the newest most
        self._service = UNKNOWN_RATE
        self._row_bytes = UNKNOWN_ROW_BYTES
        self._arrivals = Arrivals()
        self._pressed: tuple[float, float] | None = None  # rows and seconds under back-pressure
        self._blind = False  # whether back-pressure was there at the first look
        self._last: PartitionLoad | None = None
        self._rest: Rest | None = None

    def begin(self) -> None:
        """The partition has moved: what arrived elsewhere says nothing of it here."""
        self._arrivals = Arrivals()
        self._last = self._rest = self._pressed = None

    def shown(self, seen: Seen, window: Window, ran: bool) -> PartitionLoad | None:
        """What a policy sees of it; None if there was nothing to measure yet.

        ``ran``: its query's lanes have run in the window without a pause.
        """
        saturated = is_saturated(seen, window)
        rest = self._rest
        if not ran and (rest is None or rest.over_ms is not None):
            if rest is not None:  # the next pause, before it has caught up with the last one
                whole = Window(rest.was, rest.began_ms, window.since_ms)
                self._measure(replace(seen, part=window.was), whole, saturated)
            if self._last is None:
                return None
            rest = self._rest = Rest(window.was, window.since_ms, self._last)
        if rest is not None:
            if not rest.is_over(seen.part, ran, window.now_ms, saturated):
                return rest.shown(seen.part)
            self._rest = None
            window = Window(rest.was, rest.began_ms, window.now_ms)
        return self._measure(seen, window, saturated)

    def known(self, part: PartitionSnapshot) -> PartitionLoad | None:
        """What was shown of it last, with the lanes that it has now; None if nothing was."""
        if self._rest is not None:
            return self._rest.shown(part)
        if self._last is None:
            return None
        return placed(self._last, placement(Lanes.of(part), part.executor))

    def _measure(self, seen: Seen, window: Window, saturated: bool) -> PartitionLoad:
        part, was, seconds = seen.part, window.was, window.seconds
        rows_in = max(0, part.rows_in - was.rows_in)
        rows_out = max(0, part.rows_out - was.rows_out)
        offered_rate = rows_in / seconds
        if seen.query.mode is Mode.REAL_TIME:  # a micro-batch comes at once, which is no chance
            offered_rate = self._arrived(rows_in, seconds, saturated)
        service = self._service_rate(part, window)
        queued = int(part.queue_rows.sum())
        if queued:
            self._row_bytes = float(part.queue_bytes.sum()) / queued
        capacity = part.lanes * part.queue_bytes_limit / max(self._row_bytes, 1.0)
        held = placement(Lanes.of(part), part.executor)
        load = part.shard_load if part.load_metric is LoadMetric.CPU else part.shard_load / service
        lanes, shards = inside(seen, held, load)
        self._last = PartitionLoad(
            partition=seen.name,
            query=seen.query_id,
            operator=seen.operator_name,
            home=NodeId(part.executor),
            placement=held,
            offered_rate=offered_rate,
            service_rate_per_core=service,
            saturated=saturated,
            queue_rows=min(float(queued), capacity),
            queue_capacity_rows=capacity,
            selectivity=rows_out / rows_in if rows_in else 1.0,
            output_rate=rows_out / seconds,
            state_bytes=float(part.state_memory_bytes + part.state_file_bytes),
            input_bytes_per_s=max(0, part.bytes_in - was.bytes_in) / seconds,
            output_bytes_per_s=max(0, part.bytes_out - was.bytes_out) / seconds,
            latency_p99_s=part.latency_ms.p99 / 1000 if part.latency_ms.count else None,
            max_cores=part.max_lanes,
            lanes=lanes,
            shards=shards,
        )
        return self._last

    def _arrived(self, rows: float, seconds: float, saturated: bool) -> float:
        """The rate (rows/s) at which rows arrive; under back-pressure, at which at least.

        What had to wait outside comes all at once when it may, and is no load that lasts: the time
        in which it waited is its own. So the rate under back-pressure is that of all of it, the
        first window after it included. If it was there before the first look, nobody knows for how
        long: that window is then left out.
        """
        if self._pressed is None:
            self._blind = saturated and self._last is None
        elif self._blind and not saturated:
            (rows, seconds), self._pressed = self._pressed, None
            return rows / seconds
        if self._pressed is not None:
            rows, seconds = rows + self._pressed[0], seconds + self._pressed[1]
        if saturated:
            self._pressed = rows, seconds
            return rows / seconds
        if self._pressed is not None:
            self._pressed, self._arrivals = None, Arrivals()
        return self._arrivals.add(rows, seconds)

    def _service_rate(self, part: PartitionSnapshot, window: Window) -> float:
        rows, worked = self._worked
        keep = 0.5 ** (window.seconds / SERVICE_HALF_LIFE_S)
        (now_rows, now_busy), (was_rows, was_busy) = _at_home(part), _at_home(window.was)
        rows = keep * rows + max(0, now_rows - was_rows)
        worked = keep * worked + max(0.0, now_busy - was_busy)
        self._worked = rows, worked
        if rows > 0 and worked > 0 and (rows >= FEW_ROWS or worked >= SHORT_S):
            self._service = rows / worked
        return self._service


def is_saturated(seen: Seen, window: Window) -> bool:
    """Whether more may have been offered in the window than was taken."""
    part, was = seen.part, window.was
    blocked = part.blocked_s - was.blocked_s > BLOCKED_SHARE * window.seconds
    busy = (part.busy_s - was.busy_s) / window.seconds
    share = busy / part.lanes
    if seen.query.mode is Mode.MICRO_BATCH:
        return share > MICRO_BATCH_BUSY
    # More lanes are wanted a moment before they are there: then all shards are still on the first.
    works_alone = part.lanes == 1 or (part.shards > 1 and not bool(part.lane_of_shard.any()))
    return blocked or (works_alone and busy > ONE_LANE_BUSY)


def _at_home(part: PartitionSnapshot) -> tuple[int, float]:
    """Rows that lanes at home took, and how long they worked on them (s)."""
    return part.rows_taken - part.rows_taken_elsewhere, part.busy_s - part.busy_elsewhere_s


def inside(
    seen: Seen, held: Sequence[NodeCores], load: FloatArray
) -> tuple[tuple[LaneLoad, ...], ShardTable | None]:
    """Lanes that shards may come to, where they run and how busy they are; and the shards, which
    have so much ``load`` each (cores). Neither while some come or go.
    """
    part = seen.part
    there = {lane.lane: lane.executor for lane in part.elsewhere}
    lanes = tuple(
        LaneLoad(
            LaneId(lane),
            NodeId(there.get(lane, part.executor)),
            float(part.lane_busy[lane]),
            float(part.queue_rows[lane]),
        )
        for lane in range(part.lanes)
    )
    if Counter(lane.node for lane in lanes) != {cell.node: cell.cores for cell in held}:
        return (), None
    if seen.operator.is_dealt or part.lane_of_shard.max(initial=-1) >= part.lanes:
        return lanes, None  # they have none, or are to leave a lane that goes
    shards = np.arange(part.shards)
    return lanes, ShardTable(shards, part.lane_of_shard, load, np.zeros(part.shards))
