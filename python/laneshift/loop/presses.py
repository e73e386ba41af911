"""Waits for partitions that become pressed, so that the loop need not wait for its next turn.

A press is news of a moment (docs/decisions/0022): the loop then takes a few short turns, which
only ever add lanes, and goes on as before.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from laneshift.errors import LaneshiftError, error
from laneshift.plugin.gateway import Gateway
from laneshift.plugin.press import Press


class Presses:
    """Of one scheduler. ``only``: run id of the only query that is looked at, empty for all."""

    def __init__(self, gateway: Gateway, scheduler: str) -> None:
        self._gateway = gateway
        self._scheduler = scheduler
        self.only = ""
        self._known = 0

    def wait(self, seconds: float) -> tuple[Press, ...]:
        """Those of partitions that become pressed; empty after ``seconds``, or once it is ended.

        Errors: what the gateway raises.
        """
        answer = self._gateway.await_pressed(self._scheduler, self.only, self._known, seconds)
        try:
            self._known = int(answer["seq"])
            return tuple(map(Press.from_json, answer["presses"]))
        except (KeyError, TypeError, ValueError) as cause:
            problem = f"{type(cause).__name__}: {cause}"
            raise error("LANESHIFT_BAD_REPLY", method="awaitPressed", problem=problem) from cause

    def end(self) -> None:
        """Let another thread that waits go on at once."""
        with suppress(LaneshiftError):  # the session may have gone
            self._gateway.await_pressed(self._scheduler, self.only, self._known, 0.0)


def rest(presses: Presses, wait: Callable[[], object], seconds: float) -> tuple[Press, ...]:
    """Wait so long (s), or for a press; after an error by ``wait``, for the next turn tells it."""
    try:
        return presses.wait(seconds)
    except LaneshiftError:
        wait()
        return ()
