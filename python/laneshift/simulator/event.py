"""Exact event simulation of one elastic partition: every row, every queue, every label.

For small cases: it validates the fluid engine and checks the handoff's guarantees (elasticutor.md
3.4): per-key order, no row lost, a key never in process on two lanes at once.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from laneshift import inputcheck
from laneshift.inputcheck import FloatArray, InputError


@dataclass(frozen=True)
class Case:
    """One partition with ``lanes`` lanes.

    rate: rows/s, Poisson arrivals. share: (S,) share of the rows per shard. lane: (S,) owners.
    cost_s: mean service time; cv2: 0 fixed, 1 exponential, between: gamma. moves: (time, shard,
    target lane), in time order. move_s: state transfer time per move. queue_rows: bound per lane;
    inf: unbounded. When a lane is full the receiver waits, and everything behind it (head of line).
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

    def __post_init__(self) -> None:
        inputcheck.number("rate", self.rate, "Rows per second.", low=0.0, open_low=True)
        inputcheck.number("cost_s", self.cost_s, "Seconds per row.", low=0.0, open_low=True)
        inputcheck.number("cv2", self.cv2, "0 to 1 is usual.", low=0.0)
        inputcheck.whole("lanes", self.lanes, "At least one.", low=1)
        share = inputcheck.vector("share", self.share, "Shares per shard.")
        inputcheck.indices("lane", self.lane, "Owners.", below=self.lanes, size=share.size)
        if abs(share.sum() - 1) > 1e-6:
            raise InputError("share", float(share.sum()), "shares that sum to 1", "Normalise.")
        for i, (_, shard, target) in enumerate(self.moves):
            inputcheck.whole(f"moves[{i}] shard", shard, "Known.", low=0, high=share.size - 1)
            inputcheck.whole(f"moves[{i}] target", target, "Known.", low=0, high=self.lanes - 1)


@dataclass
class Outcome:
    """sojourn_s: per finished row, in order of finishing; order: (shard, number) per finished row.

    sync_s, pause_s: per finished move, label to acknowledgement and to release.
    """

    sojourn_s: list[float] = field(default_factory=list)
    order: list[tuple[int, int]] = field(default_factory=list)
    arrived: int = 0
    sync_s: list[float] = field(default_factory=list)
    pause_s: list[float] = field(default_factory=list)

    def order_violations(self) -> int:
        """Rows that finished before an earlier row of their shard."""
        last: dict[int, int] = {}
        wrong = 0
        for shard, number in self.order:
            wrong += number < last.get(shard, -1)
            last[shard] = max(number, last.get(shard, -1))
        return wrong


@dataclass(frozen=True)
class _Row:
    shard: int
    number: int
    arrived_s: float


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
        self.queues: list[deque[_Row | _Label]] = [deque() for _ in range(case.lanes)]
        self.working: list[_Row | None] = [None] * case.lanes
        self.held: dict[int, deque[_Row]] = {}
        self.waiting: deque[_Row] = deque()
        self.events: list[tuple[float, int, str, object]] = []
        self.sequence = 0
        self.out = Outcome()

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
            if row.shard in self.held:
                self.held[row.shard].append(row)
            else:
                lane = self.table[row.shard]
                if len(self.queues[lane]) >= self.case.queue_rows:
                    return
                self.queues[lane].append(row)
                self.start(lane, now)
            self.waiting.popleft()

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
                self.push(now + self.cost(), "finished", lane)

    def handle(self, now: float, kind: str, data: object) -> None:
        """One event."""
        if kind == "row":
            assert isinstance(data, _Row)
            self.waiting.append(data)
        elif kind == "finished":
            assert isinstance(data, int)
            row = self.working[data]
            assert row is not None
            self.working[data] = None
            self.out.sojourn_s.append(now - row.arrived_s)
            self.out.order.append((row.shard, row.number))
            self.start(data, now)
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


def run_events(case: Case) -> Outcome:
    """Run until every row that arrived in ``duration_s`` has finished."""
    part = _Partition(case)
    times = arrival_times(case)
    shards = part.rng.choice(len(case.share), times.size, p=np.asarray(case.share))
    number = [0] * len(case.share)
    for t, shard in zip(times.tolist(), shards.tolist(), strict=True):
        part.push(t, "row", _Row(shard, number[shard], t))
        number[shard] += 1
    for t, shard, target in case.moves:
        part.push(t, "move", _Label(shard, target, t))
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
