"""From finished batches to what they say of a query's state partitions (ours [D])."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from laneshift.autoscale.batch_rates import Steady
from laneshift.contract.ids import OperatorId, QueryId
from laneshift.contract.store_load import StoreLoad
from laneshift.models.stores import BatchCost, Commits, split_commits

UNSETTLED = 1
"""The first batch with another number of partitions opens all stores: it does not count (ours)."""


@dataclass(frozen=True, slots=True)
class StoresDone:
    """What a batch was to the stores of its query.

    Attributes:
        partitions: state partitions (>= 1).
        slots: tasks that ran at a time (>= 1).
        took_s: the batch, all of it (s, > 0).
        tasks_s: how long its elastic partitions took, added up (s, >= 0).
        excess_s: so much longer than the mean the longest partition took, of each elastic operator,
            added up (s, >= 0).
        commit_s: how long opening and committing its stores took, added up (s, >= 0).
        written_bytes: what commits wrote (bytes, >= 0).
    """

    partitions: int
    slots: int
    took_s: float
    tasks_s: float
    excess_s: float
    commit_s: float
    written_bytes: float


class StoreRates:
    """What the stores of one run of a query take. Not safe for several threads."""

    def __init__(self) -> None:
        self._commits: dict[int, Commits] = {}
        self._at: tuple[int, int] | None = None
        self._batches = 0
        self._steady: dict[str, Steady] = {}

    def add(self, done: StoresDone) -> None:
        """One more batch that had rows."""
        at = (done.partitions, done.slots)
        if at != self._at:
            changed = self._at is not None and self._at[0] != done.partitions
            self._at, self._batches, self._steady = at, -UNSETTLED if changed else 0, {}
        self._batches += 1
        if self._batches < 1:
            return
        # No task works longer than the batch: partitions of one task wait for each other.
        most_s = done.took_s * done.slots
        tasks_s = min(most_s, max(done.tasks_s, done.commit_s))
        commit_s = min(done.commit_s, tasks_s)
        values = {
            "took": done.took_s,
            "work": tasks_s - commit_s,
            "commit": commit_s,
            "written": done.written_bytes,
            "excess": min(done.excess_s, done.took_s),
        }
        for name, value in values.items():
            self._steady.setdefault(name, Steady((2, 2))).add(value)
        # The newest numbers last: those are compared.
        self._commits.pop(done.partitions, None)
        self._commits[done.partitions] = Commits(
            done.partitions, self._shown("commit"), self._shown("written")
        )

    def _shown(self, name: str) -> float:
        return self._steady[name].shown or 0.0

    def load(
        self,
        query: QueryId,
        operators: Collection[OperatorId],
        period_s: float | None,
    ) -> StoreLoad | None:
        """What they say, but for sizes and rescales; None before a batch has been measured.

        ``period_s``: the trigger's interval (s), None if none paces the batches.
        """
        if self._at is None or self._batches < 1:
            return None
        partitions, slots = self._at
        took_s = max(self._shown("took"), 1e-3)
        spread_s, per_store_s = split_commits(list(self._commits.values()))
        parts = [self._shown("work"), spread_s, per_store_s, self._shown("excess")]
        within_s = BatchCost(partitions, slots, 0.0, *parts).batch_s(partitions)
        if within_s > took_s:  # tasks of one size, one after the other, is the longest way
            parts = [part * took_s / within_s for part in parts]
            within_s = took_s
        work_s, spread_s, per_store_s, excess_s = parts
        return StoreLoad(
            query,
            tuple(operators),
            partitions,
            slots,
            self._batches,
            max(took_s, period_s or 0.0),
            took_s,
            self._shown("commit"),
            took_s - within_s,
            work_s,
            spread_s,
            per_store_s,
            excess_s,
        )
