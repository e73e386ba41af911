"""The plugin's snapshot for many who look: one call of the plugin serves all of an interval."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any


class SnapshotFeed:
    """Keeps the newest snapshot. Every method may be called from any thread."""

    def __init__(
        self, ask: Callable[[], Mapping[str, Any]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ask = ask
        self._clock = clock
        self._lock = threading.Lock()
        self._newest: Mapping[str, Any] | None = None
        self._at = 0.0

    def newest(self, oldest_s: float = 0.0) -> Mapping[str, Any]:
        """A snapshot asked for at most ``oldest_s`` ago; 0 asks anew. Do not change it."""
        asked = self._clock()
        with self._lock:
            if self._newest is None or self._at < asked - oldest_s:
                self._at = self._clock()
                self._newest = self._ask()
            return self._newest
