"""Another number of state partitions: of a query while it runs, of a checkpoint that nobody uses.

docs/rescale.md says how it is done. Compare :class:`laneshift.session.repartition`, the engine's
own way, for which the query has to stop.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from laneshift.errors import error
from laneshift.inputcheck import number
from laneshift.plugin.gateway import decode, entry_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["OfflineRescale", "Rescale", "Rescales", "bar", "rescale_checkpoint", "wait"]

POLL_S = 0.1
WIDTH = 30


class Rescales(Protocol):
    """What the plugin answers about rescales; queries by id, run id or name."""

    def rescale(self, query: str, partitions: int) -> dict[str, Any]:
        """Ask for another number of state partitions."""
        ...

    def rescaling(self, query: str) -> dict[str, Any]:
        """The newest rescale of the query's run."""
        ...

    def cancel_rescale(self, query: str) -> dict[str, Any]:
        """Give the rescale up that is under way."""
        ...


@dataclass(frozen=True, slots=True)
class Rescale:
    """A rescale of a running query, at one moment.

    Attributes:
        before, after: state partitions.
        state: ``waiting`` for a batch to end, ``building`` new stores, ``catching-up`` with what
            the query writes, ``ready`` to take over before the next batch, ``taking-over``; at last
            ``done``, ``cancelled`` or ``failed``.
        ended: whether it is over.
        failure: why it failed.
        stores_written, stores: how many new stores are written out of how many (count).
        lag_batches: batches whose changes the new stores do not have yet (count).
        batch_id: the batch that the take-over was, once it is done.
        pause_ms: how long the query waited for the take-over (ms).
    """

    before: int
    after: int
    state: str
    ended: bool
    failure: str | None
    stores_written: int
    stores: int
    lag_batches: int
    batch_id: int | None
    pause_ms: float

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Rescale:
        """Read what the plugin answers."""
        return cls(
            before=int(data["from"]),
            after=int(data["to"]),
            state=str(data["state"]),
            ended=bool(data["ended"]),
            failure=data["failure"],
            stores_written=int(data["stores_written"]),
            stores=int(data["stores"]),
            lag_batches=int(data["lag_batches"]),
            batch_id=data["batch_id"],
            pause_ms=float(data["pause_ms"]),
        )


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


def wait(
    rescales: Rescales, query: str, timeout_s: float, tell: Callable[[Rescale], None] | None = None
) -> Rescale:
    """Wait until the query's rescale has ended, at most ``timeout_s`` (s); ``tell`` hears of it.

    Errors: SessionError if it has failed or is not over in time; it goes on in that case.
    """
    number("timeout_s", timeout_s, low=0, low_open=True, unit="s")
    end = time.monotonic() + timeout_s
    while True:
        now = Rescale.from_json(rescales.rescaling(query))
        if tell is not None:
            tell(now)
        if now.state == "failed":
            raise error(
                "LANESHIFT_RESCALE_FAILED",
                query=query,
                partitions=now.after,
                before=now.before,
                why=now.failure,
            )
        if now.ended:
            return now
        if time.monotonic() > end:
            raise error(
                "LANESHIFT_RESCALE_GOES_ON", query=query, state=now.state, seconds=f"{timeout_s:g}"
            )
        time.sleep(POLL_S)


def bar(now: Rescale) -> None:
    """Show a rescale as a line of text on standard error, the same line each time."""
    share = now.stores_written / now.stores if now.stores else 0.0
    if now.state not in ("waiting", "building"):
        share = 1.0
    done = round(share * WIDTH)
    line = (
        f"\r{now.before} -> {now.after} partitions [{'#' * done}{'.' * (WIDTH - done)}] {now.state}"
    )
    if now.lag_batches and not now.ended:
        line += f", {now.lag_batches} batches behind"
    end = f", paused {now.pause_ms:.0f} ms\n" if now.state == "done" else "\n" if now.ended else ""
    sys.stderr.write(f"{line:<78}{end}")
    sys.stderr.flush()


def rescale_checkpoint(
    spark: SparkSession, checkpoint: str, partitions: int, *, check: bool = True
) -> OfflineRescale:
    """Give the checkpoint of a query that does not run another number of state partitions (>= 1).

    With ``check`` all new state is read again and compared with the old one before the checkpoint
    goes over. Until then it is as it was, whatever happens.

    Errors: ArgumentError for the number, SessionError for a checkpoint that cannot be rescaled.
    """
    entry = entry_of(spark)
    said = entry.rescaleOffline(spark._jsparkSession, str(checkpoint), partitions, check)
    data = decode("rescale", str(said))
    if not isinstance(data, dict):
        raise error("LANESHIFT_BAD_REPLY", method="rescale", problem="not a JSON object")
    return OfflineRescale(
        before=int(data["from"]),
        after=int(data["to"]),
        batch_id=int(data["batch_id"]),
        rows=None if data["rows"] is None else int(data["rows"]),
        build_s=data["build_ms"] / 1e3,
        check_s=data["check_ms"] / 1e3,
        take_over_s=data["take_over_ms"] / 1e3,
    )


def rescales_of(gateway: object) -> Rescales:
    """The gateway, if it can rescale. Errors: UnsupportedError over a control service."""
    if not hasattr(gateway, "rescale"):
        raise error("LANESHIFT_NOT_BY_CONTROL", what="rescale")
    return gateway  # type: ignore[return-value]


def cancelled(rescales: Rescales, query: str) -> Rescale:
    """Give a rescale up. Errors: SessionError if it is over, NotFoundError if there was none."""
    now = Rescale.from_json(rescales.cancel_rescale(query))
    if now.state != "cancelled":
        raise error("LANESHIFT_RESCALE_OVER", query=query, state=now.state)
    return now
