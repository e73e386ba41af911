"""Looking at several queries, each from its own start on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol


class Looks(Protocol):
    """What can be looked at."""

    def look(self) -> None:
        """Note how it is now."""


@contextmanager
def looking(all_of_them: Sequence[Looks], lap_s: float) -> Iterator[Callable[[float], None]]:
    """Look at all that are there, again and again, also at those that come later.

    Args:
        all_of_them: may grow.
        lap_s: from one look at all to the next.

    Yields:
        What waits for so many seconds, ends the looking, and raises what a look raised.
    """
    over = threading.Event()
    failed: list[Exception] = []

    def look() -> None:
        try:
            while not over.wait(lap_s):
                for one in list(all_of_them):
                    one.look()
        except Exception as e:
            failed.append(e)
            over.set()

    thread = threading.Thread(target=look, name="looks", daemon=True)

    def wait(seconds: float) -> None:
        over.wait(max(0.0, seconds))
        over.set()
        thread.join()
        if failed:
            raise failed[0]

    thread.start()
    try:
        yield wait
    finally:
        over.set()
        thread.join()
