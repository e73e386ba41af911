"""From batches, and from loads in Real-time Mode, to what they say of a query's tasks (ours [D]).

The same code measures running queries and the tests' worlds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from laneshift.autoscale.batch_rates import Steady
from laneshift.contract.ids import OperatorId, QueryId
from laneshift.contract.tasks_load import TasksLoad
from laneshift.models.tasks import Taken

UNSETTLED = 2
"""The first batch with another number of tasks may load stores where they have not been, and what
is told of the one before it may have that number already: they do not count (ours)."""

NEWEST = 0.5
"""Weight of the newest batch in how work is spread over partitions (ours)."""

LATELY_S = 60.0
"""In Real-time Mode a partition needs as much as it needed at most within so long (s, ours)."""


@dataclass(frozen=True, slots=True)
class TasksDone:
    """What a batch was to the tasks of its query.

    Attributes:
        batch_id: its number.
        tasks, slots: tasks of each operator, and those that ran at a time (>= 1).
        took_s: the batch, all of it (s, > 0).
        tasks_s: how long its elastic partitions took, added up (s, >= 0).
        commit_s: how long opening and committing its stores took, added up (s, >= 0).
        rows: of each state partition, over the lanes that worked on them, (partitions,) (>= 0).
    """

    batch_id: int
    tasks: int
    slots: int
    took_s: float
    tasks_s: float
    commit_s: float
    rows: tuple[float, ...]


class TaskRates:
    """Of one run of a query in micro-batches. Not safe for several threads."""

    def __init__(self) -> None:
        self._at: tuple[int, int] | None = None  # partitions and slots
        self._tasks = self._batches = 0
        self._newest: TasksDone | None = None
        self._steady: dict[str, Steady] = {}
        self._spread: list[float] = []
        self._known: dict[int, Taken] = {}

    def add(self, done: TasksDone) -> None:
        """One more batch that had rows."""
        at = (len(done.rows), done.slots)
        if at != self._at:
            self._known = {}
        if at != self._at or done.tasks != self._tasks:
            settles = self._at is not None
            self._at, self._tasks, self._steady, self._spread = at, done.tasks, {}, []
            self._batches = -UNSETTLED if settles else 0
        self._batches += 1
        if self._batches < 1:
            return
        self._newest = done
        # Partitions of a task wait for each other, and none works longer than the batch.
        most_s = done.took_s * min(done.slots, done.tasks)
        tasks_s = min(most_s, max(done.tasks_s, done.commit_s))
        values = {
            "took": done.took_s,
            "rows": sum(done.rows),
            "tasks": tasks_s,
            "commit": min(done.commit_s, tasks_s),
        }
        for name, value in values.items():
            self._steady.setdefault(name, Steady((2, 2))).add(value)
        rows = values["rows"]
        shares = [n / rows if rows > 0 else 1.0 / len(done.rows) for n in done.rows]
        before = self._spread or shares
        self._spread = [
            NEWEST * now + (1.0 - NEWEST) * was for now, was in zip(shares, before, strict=True)
        ]
        self._known[done.tasks] = Taken(
            done.tasks, max(self._shown("took"), 1e-3), self._shown("rows"), self._by_rows(done)
        )

    def _shown(self, name: str) -> float:
        return self._steady[name].shown or 0.0

    def _by_rows(self, done: TasksDone) -> float:
        """Share of a batch that is work on rows: of its tasks' time, what commits leave."""
        work_s = self._shown("tasks") - self._shown("commit")
        at_a_time = min(done.slots, done.tasks)
        return min(1.0, max(0.0, work_s) / (at_a_time * max(self._shown("took"), 1e-3)))

    def load(self, query: QueryId, operators: Collection[OperatorId]) -> TasksLoad | None:
        """What they say; None before a batch has been measured."""
        done = self._newest
        if done is None or self._batches < 1:
            return None
        now = self._known[done.tasks]
        commit_s = self._shown("commit")
        work_s = max(0.0, self._shown("tasks") - commit_s)
        each = commit_s / len(done.rows)
        return TasksLoad(
            query,
            tuple(operators),
            done.batch_id,
            done.tasks,
            done.slots,
            self._batches,
            tuple(work_s * share + each for share in self._spread),
            now.took_s,
            now.rows,
            now.by_rows,
            tuple(taken for tasks, taken in self._known.items() if tasks != done.tasks),
        )


class TaskPeaks:
    """Of one run of a query in Real-time Mode: what its partitions have needed lately."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, tuple[float, ...]]] = deque()

    def add(self, now_s: float, cores: Sequence[float]) -> tuple[int, tuple[float, ...]]:
        """How many looks count, and the most that each partition needed in them (cores)."""
        self._seen.append((now_s, tuple(cores)))
        while self._seen[0][0] < now_s - LATELY_S or len(self._seen[0][1]) != len(cores):
            self._seen.popleft()
        return len(self._seen), tuple(map(max, zip(*(c for _, c in self._seen), strict=True)))
