"""From finished batches to the load of each partition, steady under a steady load (ours [D]).

A batch has more or fewer rows by chance and because triggers are not exact, and its cost a row
varies. So a quantity is the mean of the newest batches, for as long as no later part of them
differs from the earlier one by more than chance explains; and what is shown stays as it is until
that mean has clearly left it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from laneshift.contract.batch_load import BatchLoad
from laneshift.contract.ids import OperatorId, PartitionId

KEPT = 20
"""Batches whose mean counts (ours)."""

STILL = 0.08
"""A mean that is no further than this share from what is shown is no change (ours)."""

USUAL, USUAL_BATCHES = 0.05, 4
"""How much batches are taken to differ at first, as a share of their mean: as if so many had been
seen that did (ours)."""

SURE, CLEAR = 4.0, 3.0
"""Standard errors by which two parts must differ, and the mean from what is shown (ours)."""

LATER = (1, 2, 3, 5, 8)
"""So many of the newest batches are held against those before them (ours)."""

HOT = 2.0
"""A partition with more than so many times the mean work of its stage is hot: where tasks wait for
cores, it may be the last to begin (ours)."""

OWN_SHARE = 0.1
"""What every task does beside its lanes' work and commits counts up to this share of the period
(ours)."""

FEW, FADES = 4.0, 0.8
"""A batch with so many times fewer rows than one before says nothing of what a row costs: it is
mostly what any batch takes. Each batch, what counts as many fades to this share (ours)."""

LEAST_PART = 0.01
"""Of a batch's time, a stage with next to no work gets so much (ours)."""


@dataclass(slots=True)
class Steady:
    """One quantity, batch by batch.

    Attributes:
        patience: so many batches in a row must differ for a change upwards and downwards.
        shown: what is said of it; None before the first batch.
    """

    patience: tuple[int, int] = (1, 2)
    shown: float | None = None
    _values: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))

    def add(self, value: float, chance: float = 0.0, still: float = 0.0) -> float:
        """What is shown after one more batch.

        ``chance``: its standard deviation by chance at least; ``still``: so little is no change.
        """
        self._values.append(value)
        changed = self._changed(chance, still)
        if changed:
            # Of two that differ the first may be of the time of the change.
            self._values = deque(list(self._values)[-(1 if changed < 3 else changed) :], KEPT)
            self.shown = None
        mean = _mean(self._values)
        if self.shown is None or self._left(mean, self.shown, chance, still):
            self.shown = mean
        return self.shown

    def _left(self, mean: float, shown: float, chance: float, still: float) -> bool:
        """Whether the mean has clearly left what is shown."""
        apart = abs(mean - shown)
        # How the values spread takes the longest, and is seldom asked for.
        return apart > max(STILL * shown, still) and (
            apart > CLEAR * _spread(self._values, chance) / math.sqrt(len(self._values))
        )

    def _changed(self, chance: float, still: float) -> int:
        """How many of the newest are of another load than those before; 0 without a change."""
        values = list(self._values)
        for later in LATER:
            before, after = values[:-later], values[-later:]
            if not before:
                break
            usual = _mean(before)
            apart = _mean(after) - usual
            if abs(apart) <= max(STILL * usual, still):
                continue
            error = _spread(before, chance) * math.sqrt(1.0 / len(after) + 1.0 / len(before))
            if abs(apart) <= SURE * error:
                continue
            # One that is far off makes the mean of several differ: those that must, do each.
            newest = values[-self.patience[apart < 0] :]
            if all((value - usual) / apart > 0.5 for value in newest):
                return later
        return 0


def _mean(values: Collection[float]) -> float:
    return sum(values) / len(values)


def _spread(values: Collection[float], chance: float) -> float:
    """Standard deviation of single batches; with few of them, near what is usual."""
    mean = _mean(values)
    squares = sum((value - mean) ** 2 for value in values)
    squares += USUAL_BATCHES * (USUAL * mean) ** 2
    return max(chance, math.sqrt(squares / (USUAL_BATCHES + len(values) - 1)))


@dataclass(slots=True)
class Cost:
    """What a row of one partition takes.

    Attributes:
        each: lane-seconds a row (s).
        rows: of a batch that tells it.
    """

    each: Steady = field(default_factory=lambda: Steady((2, 2)))
    rows: float = 0.0

    def add(self, rows: float, busy_s: float) -> None:
        """One more batch: ``rows`` > 0, and lane-seconds of work on them (s)."""
        self.rows *= FADES
        if rows * FEW < self.rows:
            return
        if rows > FEW * self.rows:
            self.each = Steady(self.each.patience)
        self.rows = max(rows, self.rows)
        self.each.add(busy_s / rows)


@dataclass(frozen=True, slots=True)
class Done:
    """What one partition did in a batch.

    Attributes:
        partition, operator: ids.
        executor: where its task ran, and ``cores``: tasks that run there at a time (>= 1).
        lanes: lanes that it had (>= 1).
        rows, busy_s: rows, and lane-seconds of work on them (s).
        took_s: from its task's begin to its end (s).
    """

    partition: PartitionId
    operator: OperatorId
    executor: str
    cores: int
    lanes: int
    rows: float
    busy_s: float
    took_s: float


class BatchRates:
    """What the batches of one query ask for. Not safe for several threads.

    Args:
        interval_s: the trigger's interval (s), None if none paces the batches.
    """

    def __init__(self, interval_s: float | None) -> None:
        self._interval_s = interval_s
        self._rates: dict[PartitionId, Steady] = {}
        self._costs: dict[PartitionId, Cost] = {}
        self._fixed = Steady((2, 2))
        self._took_s = 0.0
        self._amid = False

    def add(
        self, batch_id: int, took_s: float, arrived_s: float | None, done: Sequence[Done],
        amid: bool = False, commit_s: float = 0.0,
    ) -> dict[PartitionId, BatchLoad]:  # fmt: skip
        """The loads after one more batch, of those partitions that it tells of.

        Args:
            batch_id: its number.
            took_s: how long it took, all of it (s).
            arrived_s: in how long its rows have come (s); None if that is not known. Then a batch
                that an interval paces says nothing of the rate: the first one may have had a
                backlog. Without an interval they count over the time that the batch took.
            done: what its partitions did.
            amid: whether its rows may have begun to come amid that time. Then they say what is
                needed at least, until the next batch.
            commit_s: how long a task's stores took to commit, as far as is known (s, >= 0).
        """
        interval = self._interval_s
        before, self._amid = self._amid, amid and arrived_s is not None
        if arrived_s is None and interval is None:
            arrived_s = took_s
        self._took_s = took_s
        period = interval if interval is not None else max(took_s, 1e-3)
        for part in done:
            if arrived_s is not None:
                seconds = max(arrived_s, 1e-3)
                rate = self._rates.setdefault(part.partition, Steady())
                if before and part.rows / seconds > (rate.shown or 0.0) * (1 + STILL):
                    rate = self._rates[part.partition] = Steady()
                rate.add(part.rows / seconds, math.sqrt(part.rows) / seconds)
            if part.rows > 0:
                self._costs.setdefault(part.partition, Cost()).add(part.rows, part.busy_s)
        fixed = 0.0
        if interval is not None:
            own = min((p.took_s - p.busy_s / p.lanes for p in done), default=0.0)
            own = min(max(0.0, own), OWN_SHARE * period + commit_s)
            beside = max(0.0, took_s - sum(stage_spans(done).values()))
            fixed = self._fixed.add(beside + own, 0.0, 0.05 * period)
        known = [part for part in done if part.partition in self._rates]
        return self._loads(batch_id, period, took_s, fixed, known)

    def idle(self, batch_id: int, done: Sequence[PartitionId]) -> dict[PartitionId, BatchLoad]:
        """The loads of a query that has had nothing to do for a while."""
        self._rates.clear()
        period = self._interval_s or max(self._took_s, 1e-3)
        paced = self._interval_s is not None
        return {p: BatchLoad(batch_id, period, paced, self._took_s, 0.0, 0.0) for p in done}

    def cost_s(self, partition: PartitionId) -> float | None:
        """Lane-seconds that a row takes (s), None if it is not known."""
        known = self._costs.get(partition)
        return None if known is None else known.each.shown

    def _loads(
        self, batch_id: int, period: float, took_s: float, fixed: float, done: Sequence[Done]
    ) -> dict[PartitionId, BatchLoad]:
        rows = {p.partition: (self._rates[p.partition].shown or 0.0) * period for p in done}
        work = {p: rows[p] * (self.cost_s(p) or 0.0) for p in rows}
        hottest: dict[OperatorId, float] = {}
        stages: dict[tuple[OperatorId, str], list[Done]] = {}
        for part in done:
            hottest[part.operator] = max(hottest.get(part.operator, 0.0), work[part.partition])
            stages.setdefault((part.operator, part.executor), []).append(part)
        total = sum(hottest.values())
        found = {}
        for (operator, _), stage in stages.items():
            everything = sum(work[p.partition] for p in stage)
            cores = stage[0].cores
            for part in stage:
                mine = work[part.partition]
                waiting = 0.0
                if len(stage) > cores and mine > HOT * everything / len(stage):
                    waiting = (everything - mine) / cores
                found[part.partition] = BatchLoad(
                    batch_id,
                    period,
                    self._interval_s is not None,
                    took_s,
                    rows[part.partition],
                    mine,
                    fixed_s=fixed,
                    waiting_s=waiting,
                    stage_share=max(LEAST_PART, hottest[operator] / total) if total > 0 else 1.0,
                    at_least=self._amid,
                )
        return found


def stage_spans(done: Sequence[Done]) -> dict[OperatorId, float]:
    """How long each operator's stage ran (s): the longest task, or all tasks over the cores."""
    longest: dict[OperatorId, float] = {}
    together: dict[tuple[OperatorId, str], float] = {}
    for part in done:
        took = part.took_s if part.took_s > 0 else part.busy_s / part.lanes
        longest[part.operator] = max(longest.get(part.operator, 0.0), took)
        where = (part.operator, part.executor)
        together[where] = together.get(where, 0.0) + took / part.cores
    return {
        operator: max(span, *(t for (o, _), t in together.items() if o == operator))
        for operator, span in longest.items()
    }
