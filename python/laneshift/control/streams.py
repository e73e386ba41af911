"""Streams that are open: each waits for its next turn, and ends at once when it shall."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Streams:
    """Streams wait on their event loop's thread; all else may be called from any."""

    def __init__(self) -> None:
        self._count = 0
        self._lock = threading.Lock()
        self._waiting: set[asyncio.Future[None]] = set()
        self._over = threading.Event()

    @property
    def is_over(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._over.is_set()

    @property
    def count(self) -> int:
        """How many are open."""
        return self._count

    @contextmanager
    def opened(self) -> Iterator[None]:
        """One is, inside."""
        with self._lock:
            self._count += 1
        try:
            yield
        finally:
            with self._lock:
                self._count -= 1

    async def rest(self, seconds: float) -> None:
        """Wait so long, or until all shall end."""
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        timer = loop.call_later(seconds, _end, turn)
        self._waiting.add(turn)
        try:
            # Who closes sets this first, and looks then for who waits.
            if not self._over.is_set():
                await turn
        finally:
            timer.cancel()
            self._waiting.discard(turn)

    def close(self) -> None:
        """End all, those to come included."""
        self._over.set()
        for turn in tuple(self._waiting):
            turn.get_loop().call_soon_threadsafe(_end, turn)


def _end(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)
