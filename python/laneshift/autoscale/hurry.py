"""Short turns of the loop, between two of its period: how many, and what they may do.

Taken for partitions that have become pressed (docs/decisions/0022), by the loop that drives running
queries and by the simulator's.
"""

from __future__ import annotations

from dataclasses import dataclass

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
