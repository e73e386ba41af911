"""Partitions that become pressed, and the short turns of the loop that are taken for them between
two of its period (docs/decisions/0022): how many, and how far apart.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from laneshift.errors import LaneshiftError, error
from laneshift.plugin.gateway import Gateway
from laneshift.plugin.press import Press

SHORT_S = 0.1
"""From one short turn to the next (s, ours): new lanes work within tens of milliseconds, and what
has waited for them comes into their queues at once."""

MOST_SHORT = 5
"""So many short turns there are at most for one press (ours)."""

DEAF_S = 1.0
"""So long after the last of them no press is heard, or until the next turn of the period (s, ours).
Partitions that are pressed again and again cannot keep the loop busy so; and a press by chance does
not leave the next burst to that turn, however far it is."""

FRUITLESS = 2
"""So many in a row that add nothing are the last ones (ours): what the one before has added may
not be there yet."""


@dataclass(slots=True)
class ShortTurns:
    """Those for one press."""

    taken: int = 0
    fruitless: int = 0

    def goes_on(self, added: bool) -> bool:
        """Whether another one follows one that has or has not ``added`` cores."""
        self.taken += 1
        self.fruitless = 0 if added else self.fruitless + 1
        return self.taken < MOST_SHORT and self.fruitless < FRUITLESS


class Presses:
    """Of one loop. ``only``: run id of the only query that is looked at, empty for all."""

    def __init__(self, gateway: Gateway, autoscaler: str) -> None:
        self._gateway = gateway
        self._autoscaler = autoscaler
        self.only = ""
        self._known = 0

    def wait(self, seconds: float) -> tuple[Press, ...]:
        """Those of partitions that become pressed; empty after ``seconds``, or once it is ended.

        Errors: what the gateway raises.
        """
        answer = self._gateway.await_pressed(self._autoscaler, self.only, self._known, seconds)
        try:
            self._known = int(answer["seq"])
            return tuple(map(Press.from_json, answer["presses"]))
        except (KeyError, TypeError, ValueError) as cause:
            problem = f"{type(cause).__name__}: {cause}"
            raise error("LANESHIFT_BAD_REPLY", method="awaitPressed", problem=problem) from cause

    def end(self) -> None:
        """Let another thread that waits go on at once."""
        with suppress(LaneshiftError):  # the session may have gone
            self._gateway.await_pressed(self._autoscaler, self.only, self._known, 0.0)


def rest(presses: Presses, wait: Callable[[], object], seconds: float) -> tuple[Press, ...]:
    """Wait so long (s), or for a press; after an error by ``wait``, for the next turn tells it."""
    try:
        return presses.wait(seconds)
    except LaneshiftError:
        wait()
        return ()
