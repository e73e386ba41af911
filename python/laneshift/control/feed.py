"""The plugin's snapshot for many who look: one call of the plugin serves all of an interval."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from laneshift.plugin.v1 import control_pb2 as pb


@dataclass(frozen=True, slots=True)
class Look:
    """What there was at one moment. Nobody changes it.

    Attributes:
        times: a reply that has the times only.
        content: all of the snapshot; the same object as long as nothing changes.
    """

    times: pb.SnapshotReply
    content: pb.SnapshotReply


class SnapshotFeed:
    """Keeps the newest snapshot. Every method may be called from any thread.

    Args:
        ask: asks the plugin.
        clock: monotonic time (s).
    """

    def __init__(
        self,
        ask: Callable[[pb.SnapshotRequest], pb.SnapshotReply],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask
        self._clock = clock
        self._lock = threading.Lock()
        self._newest: Look | None = None
        self._at = 0.0

    def newest(self, oldest_s: float = 0.0) -> Look:
        """A snapshot asked for at most ``oldest_s`` ago; 0 asks anew."""
        asked = self._clock()
        with self._lock:
            if self._newest is None or self._at < asked - oldest_s:
                at = self._clock()
                self._newest = self._look(self._newest)
                self._at = at
            return self._newest

    def _look(self, before: Look | None) -> Look:
        known = 0 if before is None else before.content.number
        said = self._ask(pb.SnapshotRequest(known=known))
        times = pb.SnapshotReply(
            time_ms=said.time_ms,
            count_ms=said.count_ms if said.HasField("count_ms") else None,
            number=said.number,
        )
        return Look(times, before.content if before is not None and said.same else said)
