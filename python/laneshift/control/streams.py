"""Streams that are open: each waits for its next turn, and ends at once when it shall."""

from __future__ import annotations

import threading

import grpc


class Streams:
    """Every method may be called from any thread."""

    def __init__(self) -> None:
        self._open: set[threading.Event] = set()
        self._lock = threading.Lock()
        self._over = threading.Event()

    @property
    def is_over(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._over.is_set()

    @property
    def count(self) -> int:
        """How many are open."""
        with self._lock:
            return len(self._open)

    def ended(self, context: grpc.ServicerContext) -> threading.Event:
        """An event that is set once this call has ended, or all shall; it is forgotten then."""
        event = threading.Event()

        def leave() -> None:
            with self._lock:
                self._open.discard(event)
            event.set()

        with self._lock:
            self._open.add(event)
        if self._over.is_set() or not context.add_callback(leave):
            leave()
        return event

    def close(self) -> None:
        """End all, those to come included."""
        self._over.set()
        with self._lock:
            still = tuple(self._open)
        for event in still:
            event.set()
