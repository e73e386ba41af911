"""What a policy sees of a partition while its lanes rest between two batches of Real-time Mode.

Between two batches no lane runs for a second or so, then lanes work off what has waited. Neither
says anything of the load (ours): the partition is shown as it was measured before, until what came
since then is what should have come. Then it is measured again, over the whole time: pause and
catching up together have the rate at which rows arrive.

A pause that the lanes would need long to make up for is not hidden: from its end on the partition
is shown as saturated, with what waits in its queues, and the policy may give it lanes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from laneshift.loop.lanes import Lanes, placed, placement
from laneshift.plugin.partition import PartitionSnapshot
from laneshift.scheduler.partition_load import PartitionLoad

HIDDEN_S = 5.0
"""Catching up that should take no longer is not shown (ours)."""

LONGEST_S = 10.0
"""After so long without having caught up, the load may have changed: it is measured (ours)."""

CAUGHT_UP = 0.9
"""Share of the rows that should have come, of which this many have (ours)."""

WAITING_S = 0.1
"""Rows that arrive in so long may wait when a partition has caught up (ours)."""


@dataclass(slots=True)
class Rest:
    """Of one partition, from the last look before the pause on.

    Attributes:
        was, began_ms: the partition at that look, and when that was (ms since 1970).
        before: how it was measured then.
        over_ms: the first look at which its lanes had run for a whole window, None before.
        hidden: whether catching up should then be short, with the lanes that it has.
    """

    was: PartitionSnapshot
    began_ms: int
    before: PartitionLoad
    over_ms: int | None = None
    hidden: bool = True

    def is_over(self, part: PartitionSnapshot, ran: bool, now_ms: int, saturated: bool) -> bool:
        """Whether to measure again. ``ran``: lanes have run since the last look without a pause."""
        if not ran:
            return False
        if self.over_ms is None:
            self.over_ms = now_ms
            self.hidden = self._catching_up_s(part, now_ms) <= HIDDEN_S
        expected = self.before.offered_rate * (now_ms - self.began_ms) / 1000
        caught_up = (
            not saturated
            and part.rows_in - self.was.rows_in >= CAUGHT_UP * expected
            and part.queue_rows.sum() <= max(1.0, WAITING_S * self.before.offered_rate)
        )
        return caught_up or now_ms - self.over_ms > 1000 * LONGEST_S

    def shown(self, part: PartitionSnapshot) -> PartitionLoad:
        """What a policy sees meanwhile."""
        seen = placed(self.before, placement(Lanes.of(part), part.executor))
        if self.hidden:
            return seen
        waiting = float(part.queue_rows.sum())
        most = math.inf if seen.queue_capacity_rows is None else seen.queue_capacity_rows
        return replace(seen, queue_rows=min(waiting, most), saturated=True)

    def _catching_up_s(self, part: PartitionSnapshot, now_ms: int) -> float:
        """How long the lanes should need to work off what has waited, if the load is the same."""
        spare = part.lanes * self.before.service_rate_per_core - self.before.offered_rate
        waited = self.before.offered_rate * (now_ms - self.began_ms) / 1000
        return waited / spare if spare > 0 else math.inf
