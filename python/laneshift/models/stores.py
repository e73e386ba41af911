"""How long a micro-batch takes with another number of state partitions, and what a rescale costs
(ours [D]).

A task computes a state partition: it works on the partition's rows, and commits its stores. Rows
and the bytes that a commit writes are spread over the partitions; what a store takes however little
it has (tens of milliseconds of a core) is there once for each. So few partitions are slow for want
of tasks at a time, many because each costs the same again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from laneshift.errors import InputError
from laneshift.inputcheck import number, whole

COMMIT_BYTES_PER_S = 20e6
"""A task's commit is taken to write at least so much, as long as nothing better is known (ours).
Lower: fewer of the commits' seconds count as every store's own."""

BUILD_BYTES_PER_S = 10e6
"""A rescale with a core is taken to rewrite so much state as long as none was measured: less than
the 100 MB in 6 to 8 s, on cores that the query used, of benchmarks/results/rescale.md (ours)."""

PAUSE_S = 1.0
"""So long a query waits for a take-over, as long as none was measured (s): there 0.5 to 0.8."""

SLACK = 0.25
"""So much longer than the shortest batch a batch may be, for more partitions: they leave room for
what comes (ours)."""

GAIN = 0.25
"""A rescale is to make a batch shorter by this share at least (ours). What `SLACK` gives away is
less: a number that was chosen is not left for a better one of the same load."""

MOST_WAVES = 4
"""More partitions than so many for each task at a time are not looked at (ours)."""

assert (1 + SLACK) * (1 - GAIN) < 1


@dataclass(frozen=True, slots=True)
class BatchCost:
    """What the batches of a query take, by what it depends on.

    Attributes:
        partitions: state partitions that it has (>= 1).
        slots: tasks that run at a time (>= 1).
        beside_s: what is the same with any number of them: planning, reading, other stages (s).
        work_s: task-seconds of work on rows, of all partitions together (s).
        spread_s: task-seconds of commits that go by what is written (s).
        per_store_s: task-seconds of a partition's stores however little is in them (s).
        excess_s: so much longer than the mean the longest partition takes (s): a hot key stays one.
    """

    partitions: int
    slots: int
    beside_s: float
    work_s: float
    spread_s: float
    per_store_s: float
    excess_s: float = 0.0

    def __post_init__(self) -> None:
        whole("partitions", self.partitions, low=1, unit="state partitions")
        whole("slots", self.slots, low=1, unit="tasks")
        for name in ("beside_s", "work_s", "spread_s", "per_store_s", "excess_s"):
            number(name, getattr(self, name), low=0, unit="s")

    def batch_s(self, partitions: int) -> float:
        """Time of a batch (s) with so many partitions (>= 1).

        >>> cost = BatchCost(200, 2, beside_s=0.5, work_s=0.0, spread_s=0.2, per_store_s=0.1)
        >>> [round(cost.batch_s(n), 2) for n in (200, 8, 2)]  # 100 tasks one after the other
        [10.6, 1.0, 0.7]
        """
        each = (self.work_s + self.spread_s) / partitions + self.per_store_s
        waves = math.ceil(partitions / self.slots)
        return self.beside_s + max(waves * each, each + self.excess_s)

    def commit_s(self, partitions: int) -> float:
        """Task-seconds of all commits (s) with so many partitions."""
        return self.spread_s + partitions * self.per_store_s

    def best(self, least: int = 1, most: int | None = None) -> int:
        """The number of partitions from ``least`` to ``most`` (none: no bound) to have.

        The most whose batch is no more than `SLACK` longer than the shortest possible one; fewer
        than ``least`` only if ``most`` is.
        """
        top = max(MOST_WAVES * self.slots, self.partitions, least)
        top = top if most is None else min(top, most)
        tried = range(min(least, top), top + 1)
        took = {n: self.batch_s(n) for n in tried}
        enough = (1 + SLACK) * min(took.values())
        few = [n for n in tried if took[n] <= enough and n <= MOST_WAVES * self.slots]
        return max(few, default=min(tried, key=lambda n: (took[n], n)))


@dataclass(frozen=True, slots=True)
class Rebuild:
    """What rewriting state costs.

    Attributes:
        bytes_per_s: state that a rescale writes per second (bytes/s, > 0).
        pause_s: for how long the query waits at its end (s, >= 0).
    """

    bytes_per_s: float = BUILD_BYTES_PER_S
    pause_s: float = PAUSE_S

    def __post_init__(self) -> None:
        number("bytes_per_s", self.bytes_per_s, low=0, low_open=True, unit="bytes/s")
        number("pause_s", self.pause_s, low=0, unit="s")

    def cost_s(self, cost: BatchCost, state_bytes: float, partitions: int) -> float:
        """Seconds of batches that a rescale to ``partitions`` costs: the pause, and of the time in
        which it writes, a task's share.
        """
        writes = state_bytes / self.bytes_per_s + partitions * cost.per_store_s
        return self.pause_s + writes / cost.slots


def payback_s(price_s: float, saved_s: float, period_s: float) -> float:
    """After how long a rescale has earned its price (s): ``saved_s`` in each ``period_s``.

    >>> payback_s(6.0, 2.0, 10.0)
    30.0
    """
    number("price_s", price_s, low=0, unit="s")
    number("period_s", period_s, low=0, low_open=True, unit="s")
    return price_s * period_s / saved_s if saved_s > 0 else math.inf


@dataclass(frozen=True, slots=True)
class Commits:
    """All commits of a batch, with one number of partitions.

    Attributes:
        partitions: that number (>= 1).
        commit_s: task-seconds (s, >= 0).
        written_bytes: what they wrote (bytes, >= 0).
    """

    partitions: int
    commit_s: float
    written_bytes: float

    def __post_init__(self) -> None:
        whole("partitions", self.partitions, low=1, unit="state partitions")
        number("commit_s", self.commit_s, low=0, unit="s")
        number("written_bytes", self.written_bytes, low=0, unit="bytes")


def split_commits(seen: Sequence[Commits]) -> tuple[float, float]:
    """``spread_s`` and ``per_store_s`` of the newest of ``seen`` (at least one, the newest last).

    With one number of partitions it is not known which part of commits is which: what is written is
    taken to go at `COMMIT_BYTES_PER_S`. With two numbers it is: commit_s = partitions * per_store_s
    + written_bytes * s_per_byte holds for both.

    >>> split_commits([Commits(100, 12.0, 1e6), Commits(10, 3.0, 1e6)])
    (2.0, 0.1)
    """
    if not seen:
        raise InputError("seen", 0, "at least one batch's commits", "Measure a batch first.")
    now = seen[-1]
    spread = _solved(seen)
    if spread is None:
        spread = now.written_bytes / COMMIT_BYTES_PER_S
    spread = min(max(spread, 0.0), now.commit_s)
    return spread, (now.commit_s - spread) / now.partitions


def _solved(seen: Sequence[Commits]) -> float | None:
    now = seen[-1]
    for was in reversed(seen[:-1]):
        # Numbers that are near each other tell chance from chance.
        apart = max(was.partitions, now.partitions) >= 1.5 * min(was.partitions, now.partitions)
        det = was.partitions * now.written_bytes - now.partitions * was.written_bytes
        size = was.partitions * now.written_bytes + now.partitions * was.written_bytes
        if apart and abs(det) > 0.2 * size:
            per_byte = (was.partitions * now.commit_s - now.partitions * was.commit_s) / det
            return per_byte * now.written_bytes
    return None
