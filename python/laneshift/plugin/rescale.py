"""A rescale of a running query, as the plugin tells of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class RescaleState(StrEnum):
    """How a rescale stands: ``WAITING`` for a batch to end, ``BUILDING`` new stores,
    ``CATCHING_UP`` with what the query writes, ``READY`` to take over before the next batch,
    ``TAKING_OVER``; at last ``DONE``, ``CANCELLED`` or ``FAILED``.
    """

    WAITING = "waiting"
    BUILDING = "building"
    CATCHING_UP = "catching-up"
    READY = "ready"
    TAKING_OVER = "taking-over"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class RescaleProgress:
    """A rescale of a running query, at one moment.

    Attributes:
        before, after: state partitions.
        state: how it stands.
        ended: whether it is over.
        failure: why it failed.
        stores_written, stores: how many new stores are written out of how many (count).
        lag_batches: batches whose changes the new stores do not have yet (count).
        batch_id: the batch that the take-over was, once it is done.
        pause_ms: how long the query waited for the take-over (ms).
    """

    before: int
    after: int
    state: RescaleState
    ended: bool
    failure: str | None
    stores_written: int
    stores: int
    lag_batches: int
    batch_id: int | None
    pause_ms: float

    @property
    def share(self) -> float:
        """How much of the new stores is written: 0 to 1."""
        if self.state not in (RescaleState.WAITING, RescaleState.BUILDING):
            return 1.0
        return self.stores_written / self.stores if self.stores else 0.0


@dataclass(frozen=True, slots=True)
class OfflineRescale:
    """What a rescale of a checkpoint has done.

    Attributes:
        before, after: state partitions.
        batch_id: the batch that it was; the query goes on with the next.
        rows: state rows that were compared, one by one, with the old ones; None without a check.
        build_s, check_s, take_over_s: how long writing, comparing and going over took (s).
    """

    before: int
    after: int
    batch_id: int
    rows: int | None
    build_s: float
    check_s: float
    take_over_s: float
