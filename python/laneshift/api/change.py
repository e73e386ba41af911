"""What a command that was sent returns: when it applies, and a wait until a snapshot shows it."""

from __future__ import annotations

import time
from collections.abc import Callable

from laneshift.durations import Duration, seconds
from laneshift.errors import error
from laneshift.plugin.gateway import Applied
from laneshift.plugin.snapshot import QuerySnapshot

POLL_S = 0.05


class Change:
    """A command that a running query was sent. Made by methods of :class:`laneshift.Query`.

        change = query.set_lanes(3)
        if change.applied is laneshift.Applied.NOW:
            change.wait("10s")

    Attributes:
        applied: when the plugin applies it.
    """

    def __init__(
        self,
        what: str,
        applied: Applied,
        look: Callable[[], QuerySnapshot],
        is_shown: Callable[[QuerySnapshot], bool],
    ) -> None:
        """``what`` is for errors; ``look`` gives a snapshot of the run that was changed."""
        self._what = what
        self._look = look
        self._is_shown = is_shown
        self.applied = applied

    def wait(self, timeout: Duration = "1min") -> None:
        """Return once a snapshot shows the change, which may wait for the next batch.

        Errors: :class:`~laneshift.errors.SessionError` if none does within ``timeout`` (> 0), as
        when another command has replaced this one, or if the query's run has ended.
        """
        timeout_s = seconds("timeout", timeout, low_open=True)
        end = time.monotonic() + timeout_s
        while not self._is_shown(self._look()):
            if time.monotonic() > end:
                raise error(
                    "LANESHIFT_CHANGE_NOT_SHOWN",
                    change=self._what,
                    applied=self.applied,
                    seconds=f"{timeout_s:g}",
                )
            time.sleep(POLL_S)

    def __repr__(self) -> str:
        return f"<{self._what}, applied {self.applied}>"
