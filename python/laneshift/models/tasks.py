"""In how many tasks the state partitions of a query are computed: how long a micro-batch takes, and
how busy a task is in Real-time Mode (ours [D]).

A task computes a range of partitions on one core, and costs something by itself, however little is
in its range. So many tasks are slow where each has next to nothing to do; few are where one range
has more than its core can do while other cores are idle.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from laneshift.errors import InputError
from laneshift.inputcheck import number, whole

TASK_S = 0.01
"""Planning, sending and starting a task is taken to cost so much of a core (s, ours), as long as no
other number of tasks was measured."""

GAIN = 0.1
"""Another number of tasks is to make a batch shorter by this share at least (ours)."""

OTHER_LOAD = 4.0
"""What a batch took that had so many times the rows says nothing of the batches of now (ours). One
that had fewer does, however few: if tasks make batches long, there are more rows in each.
"""

ROOM = 0.25
"""In Real-time Mode there are fewer tasks only if the busiest of them then has this share of the
target left (ours): load that comes back a little finds the number as it was."""


def bounds(partitions: int, tasks: int) -> list[int]:
    """Where the ranges of ``tasks`` tasks begin, and the end: those of key groups.

    >>> bounds(10, 4)
    [0, 3, 5, 8, 10]
    """
    return [-(-task * partitions // tasks) for task in range(tasks + 1)]


def numbers(partitions: int, slots: int) -> list[int]:
    """The numbers of tasks that a micro-batch may have (at least one, rising): one, two and four
    for each task at a time, and one for each partition. Few, so that none is tried often.

    >>> numbers(200, 2), numbers(3, 2), numbers(2, 8)
    ([2, 4, 8, 200], [2, 3], [2])
    """
    whole("partitions", partitions, low=1, unit="state partitions")
    whole("slots", slots, low=1, unit="tasks")
    return sorted({min(partitions, waves * slots) for waves in (1, 2, 4)} | {partitions})


def steps(partitions: int) -> list[int]:
    """The numbers of tasks that a Real-time batch may have, each half as many again or a third more
    than the one before: 1, 2, 3, 4, 6, 8, 12, ... and one for each partition.
    """
    whole("partitions", partitions, low=1, unit="state partitions")
    powers = [1 << i for i in range(partitions.bit_length())]
    found = {n for power in powers for n in (power, power + power // 2) if n <= partitions}
    return sorted(found | {partitions})


def spans(each: Sequence[float], tasks: int) -> list[float]:
    """What each of ``tasks`` tasks has of ``each``: of the partitions, one after the other."""
    sums = [0.0, *accumulate(each)]
    edges = bounds(len(each), tasks)
    return [sums[b] - sums[a] for a, b in pairwise(edges)]


def span_s(each_s: Sequence[float], tasks: int, slots: int, task_s: float = TASK_S) -> float:
    """How long ``tasks`` tasks take (s), ``slots`` at a time and in their order; each takes its
    partitions' seconds ``each_s`` and ``task_s``.

    >>> span_s([1.0] * 8, 8, 2, 0.5), span_s([1.0] * 8, 2, 2, 0.5), span_s([5.0, 1.0, 1.0], 2, 2, 0)
    (6.0, 4.5, 6.0)
    """
    free = [0.0] * min(slots, tasks)
    last = 0.0
    for own in spans(each_s, tasks):
        ends = heapq.heappop(free) + own + task_s
        heapq.heappush(free, ends)
        last = max(last, ends)
    return last


@dataclass(frozen=True, slots=True)
class Taken:
    """What batches were measured to take with one number of tasks.

    Attributes:
        tasks: that number (>= 1).
        took_s: a batch, all of it (s, > 0).
        rows: its rows (>= 0).
        by_rows: share of ``took_s`` that goes by rows (0 to 1).
    """

    tasks: int
    took_s: float
    rows: float
    by_rows: float

    def __post_init__(self) -> None:
        whole("tasks", self.tasks, low=1, unit="tasks")
        number("took_s", self.took_s, low=0, low_open=True, unit="s")
        number("rows", self.rows, low=0, unit="rows")
        number("by_rows", self.by_rows, low=0, high=1)

    def with_rows(self, rows: float) -> float | None:
        """What a batch of so many rows takes (s); None if this one had too many to tell."""
        if self.rows <= 0:
            return self.took_s
        if OTHER_LOAD * rows < self.rows:
            return None
        return self.took_s * (1.0 + self.by_rows * (rows / self.rows - 1.0))


@dataclass(frozen=True, slots=True)
class TaskCost:
    """What a batch takes with another number of tasks.

    Attributes:
        each_s: task-seconds of each partition in a batch, (partitions,) (s, >= 0).
        slots: tasks that run at a time (>= 1).
        now: what it takes with the tasks that there are.
        known: what it took with others, in this run of the query.
    """

    each_s: tuple[float, ...]
    slots: int
    now: Taken
    known: tuple[Taken, ...] = ()

    def batch_s(self, tasks: int) -> float:
        """Time of a batch (s) with so many tasks (1 to the number of partitions): as measured, if
        it was, else by what ranges of partitions and tasks add up to.
        """
        if not 1 <= tasks <= len(self.each_s):
            raise InputError(
                "tasks", tasks, f"1 to the {len(self.each_s)} state partitions", "Ask for those."
            )
        if tasks == self.now.tasks:
            return self.now.took_s
        for taken in self.known:
            if taken.tasks == tasks and (seconds := taken.with_rows(self.now.rows)) is not None:
                return seconds
        task_s = min(TASK_S, self.now.took_s / math.ceil(self.now.tasks / self.slots))
        each_s = self._fitting(task_s)
        change = span_s(each_s, tasks, self.slots, task_s)
        change -= span_s(each_s, self.now.tasks, self.slots, task_s)
        return max(self.now.took_s + change, 0.0)

    def _fitting(self, task_s: float) -> Sequence[float]:
        """``each_s``, less if it does not fit into the batch: partitions of a task have waited for
        each other.
        """
        alone = span_s([0.0] * len(self.each_s), self.now.tasks, self.slots, task_s)
        span = span_s(self.each_s, self.now.tasks, self.slots, task_s)
        if span <= self.now.took_s:
            return self.each_s
        factor = max(0.0, self.now.took_s - alone) / max(span - alone, 1e-9)
        return [factor * each for each in self.each_s]

    def best(self) -> int:
        """The number of tasks to have: another one only if that makes a batch shorter by `GAIN`."""
        tried = {t: self.batch_s(t) for t in numbers(len(self.each_s), self.slots)}
        found = min(tried, key=lambda tasks: (tried[tasks], tasks))
        return found if tried[found] <= (1.0 - GAIN) * self.now.took_s else self.now.tasks


def busiest(each: Sequence[float], tasks: int) -> float:
    """Cores that the busiest of ``tasks`` tasks needs, of the partitions' ``each``."""
    return max(spans(each, tasks))


def enough(each: Sequence[float], tasks: int, target: float) -> int:
    """In how many tasks Real-time partitions that need ``each`` cores are to be computed, now that
    it is ``tasks``: the fewest none of which is busy for more than ``target`` of its core.

    What is enough stays, unless fewer leave `ROOM`. One for each partition, if no number is enough.

    >>> enough([0.1] * 16, 16, 0.7), enough([0.1] * 16, 3, 0.7), enough([0.1] * 16, 4, 0.7)
    (4, 3, 4)
    """
    number("target", target, low=0, low_open=True, high=1)
    fewest = _fewest(each, target)
    if fewest >= tasks or busiest(each, tasks) > target:
        return fewest
    return min(tasks, _fewest(each, (1.0 - ROOM) * target))


def _fewest(each: Iterable[float], most: float) -> int:
    found = list(each)
    for tasks in steps(len(found)):
        if busiest(found, tasks) <= most:
            return tasks
    return len(found)
