"""Snapshots as they are sent: asked for, turned into bytes and packed once for all who look."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from math import floor
from typing import Any

from laneshift.control.codec import to_message
from laneshift.control.feed import SnapshotFeed
from laneshift.control.v1 import control_pb2 as pb


@dataclass(frozen=True, slots=True)
class Ready:
    """A snapshot that can be sent: ``whole`` is a serialised SnapshotReply. Nobody changes it."""

    time_ms: int
    whole: bytes


class Replies:
    """The newest snapshot for each tenant, None for all. Any thread may call."""

    def __init__(self, feed: SnapshotFeed) -> None:
        self._feed = feed
        self._lock = threading.Lock()
        self._made_of: Mapping[str, Any] = {}
        self._made: dict[str | None, Ready] = {}

    def newest(self, tenant: str | None, oldest_s: float = 0.0) -> Ready:
        """What was asked for at most ``oldest_s`` ago; the same object for all who call then."""
        data = self._feed.newest(oldest_s)
        with self._lock:  # the others of this tick wait for the first one's bytes
            if self._made_of is not data:
                self._made_of, self._made = data, {}
            if tenant not in self._made:
                self._made[tenant] = _ready(data, tenant)
            return self._made[tenant]


def _ready(data: Mapping[str, Any], tenant: str | None) -> Ready:
    mine = [q for q in data["queries"] if tenant is None or q.get("tenant") == tenant]
    message = to_message(pb.SnapshotReply(), {**data, "queries": mine})
    return Ready(message.time_ms, message.SerializeToString())


def next_tick(now_s: float, interval_s: float) -> float:
    """When a watcher looks again: those of one interval at the same times, so one ask serves all.

    Who is late looks at the next tick, and has then the newest, not what it has missed.
    """
    return (floor(now_s / interval_s) + 1) * interval_s
