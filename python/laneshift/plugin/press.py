"""A partition that the plugin tells of because its lanes have become full."""

from __future__ import annotations

from dataclasses import dataclass, replace

from laneshift.plugin.partition import PartitionSnapshot


@dataclass(frozen=True, slots=True)
class Press:
    """More rows come to a partition of Real-time Mode than before, and its lanes are full.

    Attributes:
        run_id, operator, partition: which one.
        since_ms: when the span began in which that was so (ms since 1970, the driver's clock).
        rows_in, rows_taken, rows_out: its counters then, since its query started (rows).
        busy_s, blocked_s: likewise (s).
    """

    run_id: str
    operator: int
    partition: int
    since_ms: int
    rows_in: int
    rows_taken: int
    rows_out: int
    busy_s: float
    blocked_s: float

    @property
    def key(self) -> tuple[str, int, int]:
        """What tells the partition from all others."""
        return (self.run_id, self.operator, self.partition)

    def then(self, now: PartitionSnapshot) -> PartitionSnapshot:
        """The partition, which is ``now`` so, with its counters at the begin of the span."""
        return replace(
            now,
            rows_in=self.rows_in,
            rows_taken=self.rows_taken,
            rows_out=self.rows_out,
            busy_s=self.busy_s,
            blocked_s=self.blocked_s,
        )
