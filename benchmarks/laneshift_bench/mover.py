"""Moves shards through the Python API, at a steady pace, from a thread of its own."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter

from pyspark.sql.streaming.query import StreamingQuery

from laneshift import Application
from laneshift.errors import LaneshiftError
from laneshift.plugin.handoff import Handoff

HISTORY = 100_000


class Mover:
    """Asks for ``per_s`` moves a second while :attr:`on`; each of a random shard to another lane.

    ``refused`` counts requests that were turned down, by error condition: a shard that is still on
    its way, or a partition between two batches.
    """

    def __init__(self, app: Application, query: StreamingQuery, per_s: float, seed: int) -> None:
        self._live, self._query, self._per_s = app, query, per_s
        self._random = random.Random(seed)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mover", daemon=True)
        self.on = threading.Event()
        self.sent = 0
        self.refused: Counter[str] = Counter()

    def __enter__(self) -> Mover:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self.on.set()
        self._thread.join()

    def done(self) -> list[Handoff]:
        """The handoffs of running batches so far; those between two batches stop nothing."""
        found = self._live.query(self._query).handoffs(limit=HISTORY)
        return [h for h in found if h.reason == "user" and h.pause_us > 0]

    def _run(self) -> None:
        due = time.monotonic()
        while not self._end.is_set():
            if not self.on.is_set():
                self.on.wait()
                due = time.monotonic()
            due = max(due, time.monotonic() - 0.1) + 1 / self._per_s
            time.sleep(max(0.0, due - time.monotonic()))
            if self.on.is_set() and not self._end.is_set():
                self._move()

    def _move(self) -> None:
        try:
            operator = next(q for q in self._live.snapshot().queries if q.active).operators[0]
            target = self._random.choice([p for p in operator.partitions if p.lanes > 1])
            shard = self._random.randrange(target.shards)
            step = 1 + self._random.randrange(target.lanes - 1)
            lane = (int(target.lane_of_shard[shard]) + step) % target.lanes
            self._live.query(self._query).move(
                shard=shard, to_lane=lane, partition=target.partition, operator=operator.operator_id
            )
            self.sent += 1
        except LaneshiftError as error:
            self.refused[getattr(error, "condition", type(error).__name__)] += 1
        except (IndexError, StopIteration):
            self.refused["between batches"] += 1
