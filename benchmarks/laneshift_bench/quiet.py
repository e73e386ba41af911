"""Waits until the machine has nothing else to do, for a while."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

LIMIT = 0.5
"""Load average of a minute above which latencies tell of other programs."""
WITHIN_S = 180.0
LOOK_S = 5.0


@dataclass(frozen=True, slots=True)
class Quiet:
    """How it was after waiting: load average, seconds waited."""

    load: float
    waited_s: float

    @property
    def met(self) -> bool:
        """Whether the machine was quiet."""
        return self.load <= LIMIT

    def __str__(self) -> str:
        waited = f"after waiting {self.waited_s:.0f} s"
        if self.met:
            return f"yes, load {self.load:.2f} {waited}"
        return f"**no**, load {self.load:.2f} {waited}: above {LIMIT:g}"


def wait(
    within_s: float = WITHIN_S,
    load: Callable[[], float] = lambda: os.getloadavg()[0],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> Quiet:
    """Wait until the load is below the limit, ``within_s`` at most."""
    began = clock()
    while (now := load()) > LIMIT and clock() - began < within_s:
        sleep(min(LOOK_S, within_s - (clock() - began)))
    return Quiet(now, clock() - began)
