"""Time that goes on and never back, whatever the driver's clock is set to."""

from __future__ import annotations

from dataclasses import replace

from laneshift.plugin.snapshot import Snapshot

BEHIND_MS = 60_000
"""If the driver's clock is ahead by more, its machine has slept (ms, ours): it is followed."""


class Steady:
    """Gives pictures the time that has passed since the first one, by the driver's own count."""

    def __init__(self) -> None:
        self._ahead_ms: int | None = None  # of the count

    def of(self, live: Snapshot) -> Snapshot:
        """``live`` at a time that is not before that of the picture before."""
        if live.count_ms is None:
            return live  # of a plugin that does not count
        ahead = live.time_ms - live.count_ms
        if self._ahead_ms is None or ahead > self._ahead_ms + BEHIND_MS:
            self._ahead_ms = ahead
        now_ms = live.count_ms + self._ahead_ms
        return replace(live, time_ms=now_ms, set_back_ms=now_ms - live.time_ms)
