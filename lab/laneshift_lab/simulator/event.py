"""Exact event simulation of one elastic partition: every row, queue, label and split key.

For small cases: it validates the fluid engine and checks the handoff's guarantees (Elasticutor,
2019, 3.4): per-key order, no row lost, a key never in process on two lanes at once.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from laneshift import inputcheck
from laneshift.errors import InputError
from laneshift.inputcheck import FloatArray
from laneshift_lab.simulator.spec import Split


@dataclass(frozen=True)
class Case:
    """One partition with ``lanes`` lanes.

    rate: rows/s, Poisson arrivals. share: (S,) share of the rows per shard. lane: (S,) owners.
    cost_s: mean service time; cv2: 0 fixed, 1 exponential, between: gamma. moves: (time, shard,
    target lane), in time order. move_s: state transfer time per move. queue_rows: bound per lane;
    inf: unbounded. When a lane is full the receiver waits, and everything behind it (head of line).
    splits: (time, shard, lanes of its further parts), in time order, () merges it; rows of a split
    shard draw one of its parts, the first is with the shard. split: what that costs.
    """

    rate: float
    share: Sequence[float]
    lane: Sequence[int]
    lanes: int
    cost_s: float
    duration_s: float
    cv2: float = 1.0
    moves: tuple[tuple[float, int, int], ...] = ()
    move_s: float = 0.0
    queue_rows: float = math.inf
    seed: int = 1
    splits: tuple[tuple[float, int, tuple[int, ...]], ...] = ()
    split: Split = field(default_factory=Split)

    def __post_init__(self) -> None:
        inputcheck.number("rate", self.rate, "Rows per second.", low=0.0, low_open=True)
        inputcheck.number("cost_s", self.cost_s, "Seconds per row.", low=0.0, low_open=True)
        inputcheck.number("cv2", self.cv2, "0 to 1 is usual.", low=0.0)
        inputcheck.whole("lanes", self.lanes, "At least one.", low=1)
        share = inputcheck.vector("share", self.share, "Shares per shard.")
        inputcheck.indices("lane", self.lane, "Owners.", below=self.lanes, size=share.size)
        if abs(share.sum() - 1) > 1e-6:
            raise InputError("share", float(share.sum()), "shares that sum to 1", "Normalise.")
        for i, (_, shard, target) in enumerate(self.moves):
            inputcheck.whole(f"moves[{i}] shard", shard, "Known.", low=0, high=share.size - 1)
            inputcheck.whole(f"moves[{i}] target", target, "Known.", low=0, high=self.lanes - 1)
        for i, (_, shard, parts) in enumerate(self.splits):
            inputcheck.whole(f"splits[{i}] shard", shard, "Known.", low=0, high=share.size - 1)
            inputcheck.indices(f"splits[{i}] lanes", parts, "Known lanes.", below=self.lanes)


@dataclass
class Outcome:
    """sojourn_s: per finished row, in order of finishing; order: (part, number) per finished row.

    A shard's first part has its number, part j of S shards is shard + S * j; only within a part is
    there an order. sync_s, pause_s: per finished move, label to acknowledgement and to release.
    busy_s: (lanes,) CPU time, copies and merges included; merges: partial results merged.
    """

    sojourn_s: list[float] = field(default_factory=list)
    order: list[tuple[int, int]] = field(default_factory=list)
    arrived: int = 0
    sync_s: list[float] = field(default_factory=list)
    pause_s: list[float] = field(default_factory=list)
    busy_s: list[float] = field(default_factory=list)
    merges: int = 0

    def order_violations(self) -> int:
        """Rows that finished before an earlier row of their part."""
        last: dict[int, int] = {}
        wrong = 0
        for part, number in self.order:
            wrong += number < last.get(part, -1)
            last[part] = max(number, last.get(part, -1))
        return wrong


@dataclass(eq=False)
class _Row:
    shard: int
    number: int
    arrived_s: float
    draw: float  # in [0, 1), which part of a split shard keeps it
    left: int = 1  # copies that are not processed yet


@dataclass(frozen=True)
class _Work:
    """What a lane does for ``seconds``: a row (part: which one keeps it), a copy, or a merge."""

    seconds: float
    row: _Row | None = None
    part: int | None = None


@dataclass(frozen=True)
class _Label:
    shard: int
    target: int
    begun_s: float


class _Partition:
    """Receiver, lanes and routing table; events are (time, sequence, kind, data)."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.rng = np.random.default_rng(case.seed)
        self.table = list(case.lane)
        self.queues: list[deque[_Work | _Label]] = [deque() for _ in range(case.lanes)]
        self.working: list[_Work | None] = [None] * case.lanes
        self.parts: dict[int, tuple[int, ...]] = {}  # split shards: lanes of the further parts
        self.held: dict[int, deque[_Work]] = {}
        self.ticking: set[int] = set()
        self.waiting: deque[_Row] = deque()
        self.events: list[tuple[float, int, str, object]] = []
        self.sequence = 0
        self.out = Outcome(busy_s=[0.0] * case.lanes)

    def push(self, time_s: float, kind: str, data: object) -> None:
        self.sequence += 1
        heapq.heappush(self.events, (time_s, self.sequence, kind, data))

    def cost(self) -> float:
        cv2, mean = self.case.cv2, self.case.cost_s
        if cv2 == 0:
            return mean
        return float(self.rng.gamma(1.0 / cv2, mean * cv2))

    def receive(self, now: float) -> None:
        """Route waiting rows until a full lane stops the receiver."""
        while self.waiting:
            row = self.waiting[0]
            lanes = (self.table[row.shard], *self.parts.get(row.shard, ()))
            keep = int(row.draw * len(lanes))
            broadcast = self.case.split.how == "broadcast"
            parts = range(len(lanes)) if broadcast else [keep]
            held = [part == 0 and row.shard in self.held for part in parts]
            if any(
                len(self.queues[lanes[part]]) >= self.case.queue_rows and not waits
                for part, waits in zip(parts, held, strict=True)
            ):
                return
            row.left, cost = len(parts), self.cost() / len(parts)
            for part, waits in zip(parts, held, strict=True):
                extra = 0.0 if part == keep else self.case.split.copy_s
                work = _Work(cost + extra, row, part if part == keep else None)
                if waits:
                    self.held[row.shard].append(work)
                else:
                    self.queue(lanes[part], work, now)
            self.waiting.popleft()

    def queue(self, lane: int, work: _Work, now: float) -> None:
        self.queues[lane].append(work)
        self.start(lane, now)

    def start(self, lane: int, now: float) -> None:
        """Take the next row off a lane's queue; labels are acknowledged at once."""
        queue = self.queues[lane]
        while self.working[lane] is None and queue:
            head = queue.popleft()
            if isinstance(head, _Label):
                self.out.sync_s.append(now - head.begun_s)
                self.push(now + self.case.move_s, "installed", head)
            else:
                self.working[lane] = head
                self.out.busy_s[lane] += head.seconds
                self.push(now + head.seconds, "finished", lane)

    def handle(self, now: float, kind: str, data: object) -> None:
        """One event."""
        if kind == "row":
            assert isinstance(data, _Row)
            self.waiting.append(data)
        elif kind == "finished":
            assert isinstance(data, int)
            work = self.working[data]
            assert work is not None
            self.working[data] = None
            self.finish(work, now)
            self.start(data, now)
        elif kind == "split":
            assert isinstance(data, tuple)
            shard, lanes = data
            self.parts[shard] = lanes
            if self.case.split.how == "merge" and shard not in self.ticking:
                self.ticking.add(shard)
                self.push(now + self.case.split.tick_s, "tick", shard)
        elif kind == "tick":
            assert isinstance(data, int)
            if len(self.out.sojourn_s) < self.out.arrived:
                for _ in self.parts[data]:
                    self.queue(self.table[data], _Work(self.case.split.merge_s), now)
                self.push(now + self.case.split.tick_s, "tick", data)
        elif kind == "move":
            assert isinstance(data, _Label)
            if data.shard not in self.held and self.table[data.shard] != data.target:
                self.held[data.shard] = deque()
                lane = self.table[data.shard]
                self.queues[lane].append(_Label(data.shard, data.target, now))
                self.start(lane, now)
        else:
            assert isinstance(data, _Label)
            self.table[data.shard] = data.target
            self.out.pause_s.append(now - data.begun_s)
            self.queues[data.target].extend(self.held.pop(data.shard))
            self.start(data.target, now)
        self.receive(now)

    def finish(self, work: _Work, now: float) -> None:
        if work.row is None:
            self.out.merges += 1
            return
        row = work.row
        if work.part is not None:
            self.out.order.append((row.shard + len(self.case.share) * work.part, row.number))
        row.left -= 1
        if row.left == 0:
            self.out.sojourn_s.append(now - row.arrived_s)


def run_events(case: Case) -> Outcome:
    """Run until every row that arrived in ``duration_s`` has finished.

    >>> out = run_events(Case(500, [0.5, 0.5], [0, 1], lanes=2, cost_s=1e-3, duration_s=2))
    >>> len(out.sojourn_s) == out.arrived, out.order_violations()
    (True, 0)
    """
    part = _Partition(case)
    times = arrival_times(case)
    shards = part.rng.choice(len(case.share), times.size, p=np.asarray(case.share))
    number = [0] * len(case.share)
    draws = np.random.default_rng(case.seed + 2).random(times.size)
    for t, shard, draw in zip(times.tolist(), shards.tolist(), draws.tolist(), strict=True):
        part.push(t, "row", _Row(shard, number[shard], t, draw))
        number[shard] += 1
    for t, shard, target in case.moves:
        part.push(t, "move", _Label(shard, target, t))
    for t, shard, lanes in case.splits:
        part.push(t, "split", (shard, tuple(lanes)))
    part.out.arrived = int(times.size)
    while part.events:
        now, _, kind, data = heapq.heappop(part.events)
        part.handle(now, kind, data)
    return part.out


def arrival_times(case: Case) -> FloatArray:
    """Poisson arrival times in [0, duration)."""
    rng = np.random.default_rng(case.seed + 1)
    count = int(rng.poisson(case.rate * case.duration_s))
    return np.sort(rng.random(count)) * case.duration_s
