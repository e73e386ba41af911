"""Another number of state partitions: of a query while it runs, of a checkpoint that nobody uses.

docs/rescale.md says how it is done.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from laneshift.errors import error
from laneshift.inputcheck import number
from laneshift.plugin.gateway import Commands, decode, entry_of
from laneshift.plugin.rescale import Rescale

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["OfflineRescale", "Rescale", "bar", "rescale_checkpoint", "wait"]

POLL_S = 0.1
WIDTH = 30


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
    gateway: Commands,
    query: str,
    asked: Rescale,
    timeout_s: float,
    tell: Callable[[Rescale], None] | None = None,
) -> Rescale:
    """Wait until the rescale that was ``asked`` for is done, at most ``timeout_s`` (s); ``tell``
    hears of it.

    Errors: SessionError if it has failed or was cancelled, or is not over in time; it goes on in
    that case.
    """
    number("timeout_s", timeout_s, low=0, low_open=True, unit="s")
    end = time.monotonic() + timeout_s
    while True:
        newest = Rescale.from_json(gateway.rescaling(query))
        now = _of(asked, newest)
        if tell is not None:
            tell(now)
        if now.state in ("failed", "cancelled"):
            raise error(
                "LANESHIFT_RESCALE_FAILED",
                query=query,
                partitions=now.after,
                before=newest.before,
                why=now.failure or "it was cancelled",
            )
        if now.ended:
            return now
        if time.monotonic() > end:
            raise error(
                "LANESHIFT_RESCALE_GOES_ON", query=query, state=now.state, seconds=f"{timeout_s:g}"
            )
        time.sleep(POLL_S)


def _of(asked: Rescale, newest: Rescale) -> Rescale:
    """How the one that was ``asked`` for stands; if another has begun since, how it has ended."""
    if (newest.before, newest.after) == (asked.before, asked.after):
        return newest
    if newest.before == asked.after:
        return replace(asked, state="done", ended=True)
    why = f"it had ended when one to {newest.after} was asked for"
    return replace(asked, state="failed", ended=True, failure=why)


def bar(now: Rescale) -> None:
    """Show a rescale as a line of text on standard error, the same line each time."""
    done = round(now.share * WIDTH)
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


def cancelled(gateway: Commands, query: str) -> Rescale:
    """Give a rescale up. Errors: SessionError if it is over, NotFoundError if there was none."""
    now = Rescale.from_json(gateway.cancel_rescale(query))
    if now.state != "cancelled":
        raise error("LANESHIFT_RESCALE_OVER", query=query, state=now.state)
    return now
