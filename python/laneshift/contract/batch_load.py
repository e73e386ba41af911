"""What a partition's batches ask for, and what a target leaves for it (ours [D]).

In micro-batch, rows wait for the next batch whatever the lanes do, and the batch works on them at
full speed: neither the rate between two batches nor the rate within one says how many lanes are
enough. What does is the work of a batch (lane-seconds) against the part of its period in which the
partition's lanes may work.
"""

from __future__ import annotations

from dataclasses import dataclass

from laneshift.contract.measured import REMEDY
from laneshift.inputcheck import number, whole

LEAST_SHARE = 0.02
"""Of its period, a partition's lanes are taken to have at least this share (ours)."""

LEAST_LEFT = 0.3
"""Of the time that a target allows, as much is for lanes however long the fixed part is (ours)."""


@dataclass(frozen=True, slots=True)
class BatchLoad:
    """The batches of a micro-batch query, as one partition sees them.

    Attributes:
        batch_id: the newest batch that was measured.
        period_s: from one batch's begin to the next (s, > 0): the trigger's interval, or without
            one how long a batch takes.
        paced: whether a trigger's interval paces the batches.
        took_s: how long the newest batch of the query took, all of it (s, >= 0).
        rows: rows that come to the partition in a period (>= 0).
        work_s: lane-seconds that they take (s, >= 0).
        fixed_s: part of a paced batch that more lanes do not shorten: planning, reading, stages
            without lanes, commit (s, >= 0).
        waiting_s: how long the partition may have to wait for a core, where its stage has more
            tasks than cores (s, >= 0).
        stage_share: part of the time beside ``fixed_s`` that its stage gets, in (0, 1]: stages of
            a batch run one after the other.
        at_least: its rows may have begun to come amid the period: more may come in a whole one.
    """

    batch_id: int
    period_s: float
    paced: bool
    took_s: float
    rows: float
    work_s: float
    fixed_s: float = 0.0
    waiting_s: float = 0.0
    stage_share: float = 1.0
    at_least: bool = False

    def __post_init__(self) -> None:
        whole("batch_id", self.batch_id, low=0)
        number("period_s", self.period_s, low=0, low_open=True, unit="s", remedy=REMEDY)
        for name in ("took_s", "rows", "work_s", "fixed_s", "waiting_s"):
            number(f"{name} of a batch", getattr(self, name), low=0, remedy=REMEDY)
        number("stage_share", self.stage_share, low=0, low_open=True, high=1, remedy=REMEDY)

    def most_s(self, target_utilisation: float, target_batch_s: float | None) -> float:
        """How long a batch may take by the targets (s)."""
        share = target_utilisation * self.period_s
        return share if target_batch_s is None or not self.paced else min(share, target_batch_s)

    def available_s(self, target_utilisation: float, target_batch_s: float | None = None) -> float:
        """Time of each period in which the partition's lanes may work (s, > 0).

        A target that the fixed part alone exceeds is not chased with lanes: `LEAST_LEFT` of what it
        allows is for them. A time per batch that the fixed part exceeds counts for nothing.

        >>> BatchLoad(0, 5.0, True, 3.0, 100, 6.0, fixed_s=0.5).available_s(0.7)
        3.0
        """
        if target_batch_s is not None and target_batch_s <= self.fixed_s:
            target_batch_s = None
        most = self.most_s(target_utilisation, target_batch_s)
        left = max(most - self.fixed_s, LEAST_LEFT * most)
        return max(left * self.stage_share - self.waiting_s, LEAST_SHARE * self.period_s)

    def is_out_of_reach(self, target_utilisation: float, target_batch_s: float | None) -> bool:
        """Whether the fixed part alone is longer than the targets allow."""
        return self.fixed_s >= self.most_s(target_utilisation, target_batch_s)
