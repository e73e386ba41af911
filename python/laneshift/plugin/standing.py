"""How an autoscaler's demand for executors stands."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Standing:
    """What the plugin says of executors on demand.

    Attributes:
        most: the most that there may be (count); 0 if there are none on demand.
        rest_s: how long one has not been needed when it is given back (s).
        there, requested: those that there are, and those that Spark was asked for in all (counts).
        at_start: those that the application has without an autoscaler (count).
        asked: ids of those that are there because they were asked for, and stay for now.
        why: why none can be asked for now, None if they can.
    """

    most: int
    rest_s: float = 60.0
    there: int = 0
    requested: int = 0
    at_start: int = 0
    asked: tuple[str, ...] = ()
    why: str | None = None

    @property
    def pending(self) -> int:
        """Executors that were asked for and have not come (count); not those of the start."""
        return max(0, self.requested - max(self.there, self.at_start))
