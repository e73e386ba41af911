"""What rows cost in Python functions: no imports, since each of Spark's Python workers loads it."""

from __future__ import annotations

import time

TRIED_TURNS = 200_000


def burn(turns: int, rows: int) -> None:
    """Real work, so many turns of a loop for each row: it needs a core."""
    total = 0
    for _ in range(rows):
        for i in range(turns):
            total += i


def wait(micros: float, rows: int) -> None:
    """Emulated work, waited for to a deadline: needs no core."""
    end = time.monotonic() + rows * micros / 1e6
    while (left := end - time.monotonic()) > 0:
        time.sleep(left)


def turns_of(micros: float) -> int:
    """Turns of :func:`burn` that take so long (us) on this machine: the fastest of five tries."""
    taken = []
    for _ in range(5):
        began = time.perf_counter()
        burn(TRIED_TURNS, 1)
        taken.append(time.perf_counter() - began)
    return max(1, round(micros / 1e6 / min(taken) * TRIED_TURNS))
