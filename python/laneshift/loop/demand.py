"""How many executors there are to be: when to ask Spark for more, and which to give back.

Pure: time is a parameter, and what a policy would do with more or fewer executors is known
(:mod:`laneshift.loop.whatif`). What may be given back at all is the plugin's to say (decision 15).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

ASK_AFTER_S = 2.0
"""Cores must be short for so long before executors are asked for (ours)."""

AGAIN_S = 10.0
"""From one request to the next at least (ours): executors take seconds to come."""

LATE_S = 60.0
"""Who has not come after so long is spoken of (ours): the cluster may have no room."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What the plugin says of executors on demand.

    Attributes:
        most: the most that there may be (count); 0 if there are none on demand.
        rest_s: how long one has not been needed when it is given back (s).
        there, requested: those that there are, and those that Spark was asked for in all (counts).
        at_start: those that the application has without a scheduler (count).
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

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Standing:
        """Read the plugin's answer. Errors: KeyError, TypeError, ValueError if malformed."""
        return cls(
            int(data["most"]),
            float(data["rest_s"]),
            int(data["there"]),
            int(data["requested"]),
            int(data["at_start"]),
            tuple(map(str, data["asked"])),
            None if data["why"] is None else str(data["why"]),
        )

    @property
    def pending(self) -> int:
        """Executors that were asked for and have not come (count); not those of the start."""
        return max(0, self.requested - max(self.there, self.at_start))


@dataclass(frozen=True, slots=True)
class Need:
    """What a policy would do with other executors.

    Attributes:
        short: cores that it would give to lanes, beyond those that it gives now, if all executors
            were there that there may be (count, >= 0).
        cores: cores of one more executor (count, >= 1).
        spare: executors that were asked for without which it would give as many cores as now.
        words: whose cores they would be.
    """

    short: int = 0
    cores: int = 1
    spare: tuple[str, ...] = ()
    words: str = ""


@dataclass(frozen=True, slots=True)
class Memory:
    """Since when (s) cores are short, or not; when the last request was, and whether it is known
    to be late; since when executors are spare, by their ids.
    """

    short_since_s: float | None = None
    enough_since_s: float | None = None
    asked_s: float = -math.inf
    late: bool = False
    spare_since_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wish:
    """How many executors there are to be in all (0: as many as before), and which are to go."""

    total: int = 0
    give_back: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def wish(standing: Standing, need: Need, memory: Memory, time_s: float) -> tuple[Wish, Memory]:
    """What to ask of Spark at ``time_s``, and what to remember."""
    short = need.short > 0
    memory = replace(
        memory,
        short_since_s=_since(memory.short_since_s, time_s) if short else None,
        enough_since_s=None if short else _since(memory.enough_since_s, time_s),
        # Who is asked for more is not told to go; nor is the time in which it was short, rest.
        spare_since_s={e: memory.spare_since_s.get(e, time_s) for e in need.spare if not short},
    )
    total, notes = _asked(standing, need, memory, time_s)
    if total:
        memory = replace(memory, asked_s=time_s, late=False)
    elif standing.pending and memory.enough_since_s is not None:
        if time_s - memory.enough_since_s >= standing.rest_s:
            total = standing.there
            notes = (
                f"{_executors(standing.pending)} asked for and not there: not needed any more",
            )
    elif standing.pending and not memory.late and time_s - memory.asked_s >= LATE_S:
        memory = replace(memory, late=True)
        notes = (
            f"{_executors(standing.pending)} asked for {LATE_S:g} s ago, not there: the cluster may"
            " have no room, or a quota (spark.cores.max)",
        )
    back = tuple(
        e for e, since in memory.spare_since_s.items() if time_s - since >= standing.rest_s
    )
    notes += tuple(
        f"executor {e} is given back: for {standing.rest_s:g} s no lane has needed its cores"
        for e in back
    )
    left = {e: since for e, since in memory.spare_since_s.items() if e not in back}
    return Wish(total, back, notes), replace(memory, spare_since_s=left)


def _asked(
    standing: Standing, need: Need, memory: Memory, time_s: float
) -> tuple[int, tuple[str, ...]]:
    """How many executors to ask for in all, 0 to leave it, and why."""
    if memory.short_since_s is None or time_s - memory.short_since_s < ASK_AFTER_S:
        return 0, ()
    more = min(
        math.ceil(need.short / need.cores) - standing.pending, standing.most - standing.requested
    )
    if more <= 0 or time_s - memory.asked_s < AGAIN_S:
        return 0, ()
    total = standing.requested + more
    return total, (
        f"asks Spark for {_executors(more)} more, {total} of at most {standing.most}: {need.words}",
    )


def _since(before_s: float | None, now_s: float) -> float:
    return now_s if before_s is None else before_s


def _executors(count: int) -> str:
    return "1 executor" if count == 1 else f"{count} executors"
