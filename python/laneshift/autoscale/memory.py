"""What the loop remembers of runs of queries; it goes with them. Used on the loop's thread only."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from laneshift.autoscale.pictures import Key
from laneshift.contract.ids import KeyId


@dataclass(slots=True)
class Asking:
    """Of one kind of wish of a whole query.

    Attributes:
        not_before_s: it was refused, and is asked for again from then on (s since 1970).
        said: what a dry run has said last.
    """

    not_before_s: float = -math.inf
    said: str = ""


@dataclass(frozen=True, slots=True)
class TasksToCome:
    """``after`` tasks were asked for when ``batch_id`` was the newest batch that was known."""

    after: int
    batch_id: int


@dataclass(slots=True)
class RunMemory:
    """Of one run of a query.

    Attributes:
        taken: partitions whose lanes were the plugin's (``lanes=auto``) and are the policy's now.
        sent: by partition, lanes on other executors that were there at the last look, or that were
            sent since.
        left_alone_s: until when (s since 1970) a partition gets no more lanes on an executor.
        rescale, tasks: what was asked of the query.
        tasks_to_come: None once they have come, or will not.
        split: by partition, keys whose work is apart, and in how many parts.
        claimed: query, run and number of operators for whose keys a planner has the say.
    """

    taken: set[Key] = field(default_factory=set)
    sent: dict[Key, Mapping[str, int]] = field(default_factory=dict)
    left_alone_s: dict[tuple[Key, str], float] = field(default_factory=dict)
    rescale: Asking = field(default_factory=Asking)
    tasks: Asking = field(default_factory=Asking)
    tasks_to_come: TasksToCome | None = None
    split: dict[Key, dict[KeyId, int]] = field(default_factory=dict)
    claimed: set[tuple[str, str, int]] = field(default_factory=set)


class Memory(dict[str, RunMemory]):
    """By run id; of a new run there is an empty one."""

    def __missing__(self, run: str) -> RunMemory:
        made = self[run] = RunMemory()
        return made

    def keep(self, runs: Collection[str]) -> None:
        """All others have ended."""
        for gone in self.keys() - set(runs):
            del self[gone]
