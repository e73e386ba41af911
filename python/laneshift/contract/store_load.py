"""What the batches of a query say of the number of its state partitions (ours [D])."""

from __future__ import annotations

from dataclasses import dataclass

from laneshift.contract.ids import OperatorId, QueryId
from laneshift.contract.measured import REMEDY, optional
from laneshift.inputcheck import number, whole
from laneshift.models.stores import BatchCost, Rebuild


@dataclass(frozen=True, slots=True)
class StoreLoad:
    """The stores of a query in micro-batches.

    Attributes:
        query: whose.
        operators: its elastic operators.
        partitions: state partitions that it has (>= 1).
        slots: tasks of it that run at a time (>= 1).
        batches: batches that were measured with this number of partitions (>= 1).
        period_s: from one batch's begin to the next (s, > 0).
        took_s: how long a batch takes, all of it (s, > 0).
        commit_s: task-seconds of that for opening and committing its stores (s, >= 0).
        beside_s, work_s, spread_s, per_store_s, excess_s: of what the time of a batch is made, as
            in :class:`laneshift.models.stores.BatchCost` (s, >= 0).
        state_bytes, largest_bytes: of all partitions, and of the largest one (bytes, >= 0).
        under_way: whether it is being rescaled.
        since_s: since when its newest rescale is over, whatever came of it (s, >= 0), None if there
            was none.
        build_bytes_per_s, pause_s: what that was like (bytes/s, > 0; s, >= 0), None if not known.
    """

    query: QueryId
    operators: tuple[OperatorId, ...]
    partitions: int
    slots: int
    batches: int
    period_s: float
    took_s: float
    commit_s: float
    beside_s: float
    work_s: float
    spread_s: float
    per_store_s: float
    excess_s: float = 0.0
    state_bytes: float = 0.0
    largest_bytes: float = 0.0
    under_way: bool = False
    since_s: float | None = None
    build_bytes_per_s: float | None = None
    pause_s: float | None = None

    def __post_init__(self) -> None:
        of = f"of query {self.query}"
        whole(f"batches {of}", self.batches, low=1, unit="batches")
        number(f"period_s {of}", self.period_s, low=0, low_open=True, unit="s", remedy=REMEDY)
        number(f"took_s {of}", self.took_s, low=0, low_open=True, unit="s", remedy=REMEDY)
        for name in ("commit_s", "state_bytes", "largest_bytes"):
            number(f"{name} {of}", getattr(self, name), low=0, remedy=REMEDY)
        for name in ("since_s", "pause_s"):
            if getattr(self, name) is not None:
                number(f"{name} {of}", getattr(self, name), low=0, unit="s", remedy=REMEDY)
        optional(f"build_bytes_per_s {of}", self.build_bytes_per_s, "bytes/s")
        assert self.cost.partitions == self.partitions  # checks the others

    @property
    def cost(self) -> BatchCost:
        """What a batch takes, by what it depends on."""
        return BatchCost(
            self.partitions,
            self.slots,
            self.beside_s,
            self.work_s,
            self.spread_s,
            self.per_store_s,
            self.excess_s,
        )

    @property
    def rebuild(self) -> Rebuild:
        """What a rescale costs: as the newest one did, else as usual."""
        usual = Rebuild()
        return Rebuild(
            self.build_bytes_per_s or usual.bytes_per_s,
            usual.pause_s if self.pause_s is None else self.pause_s,
        )

    @property
    def beyond_bytes(self) -> float:
        """What the largest partition has more than the mean."""
        return max(0.0, self.largest_bytes - self.state_bytes / self.partitions)

    def largest(self, partitions: int) -> float:
        """Bytes of the largest of so many partitions: what it has beyond the mean stays."""
        return self.state_bytes / partitions + self.beyond_bytes
