"""The rate at which rows arrive, told from chance (ours).

A window's count says a rate only to within its square root: at 400 rows/s, half a second shows
anything from 340 to 460. A policy that takes each window at its word changes lanes for nothing. So
the rate is that of the last seconds together, for as long as no later part of them differs from
the earlier one by more than chance explains; from then on it is that of the later part alone.
"""

from __future__ import annotations

import math
from collections import deque

KEPT_S = 5.0
"""So much of the past is looked at (ours)."""

SURE = 4.5
"""By so many standard deviations of a Poisson count two parts must differ (ours): constant load
differs so in one window of about 100,000."""


class Arrivals:
    """What arrived at one partition in the last windows. Not safe for several threads."""

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
