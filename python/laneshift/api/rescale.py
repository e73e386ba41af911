"""Another number of state partitions: of a query while it runs, of a checkpoint that nobody uses.

docs/rescale.md says how it is done.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from laneshift.api.lookup import whole_numbers
from laneshift.durations import Duration, seconds
from laneshift.errors import error
from laneshift.plugin.gateway import Gateway, Py4jGateway
from laneshift.plugin.rescale import OfflineRescale, RescaleProgress, RescaleState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_S = 0.1
WIDTH = 30


class Rescale:
    """A rescale of a running query. Made by :meth:`laneshift.Query.rescale`.

        rescale = query.rescale(16)
        print(rescale.state, rescale.progress.share)
        rescale.cancel()

    Any thread may call it. Its methods raise :class:`~laneshift.errors.SessionError` if the query
    or the session has stopped, :class:`~laneshift.errors.NotFoundError` once the query was started
    again: that is another run.
    """

    def __init__(self, gateway: Gateway, query: str, asked: RescaleProgress) -> None:
        self._gateway = gateway
        self._query = query
        self._asked = asked

    @property
    def progress(self) -> RescaleProgress:
        """How it stands now; once another one has begun, how this one has ended."""
        return _of(self._asked, self._gateway.rescaling(self._query))

    @property
    def state(self) -> RescaleState:
        """Where it is now."""
        return self.progress.state

    def wait(self, timeout: Duration = "1h", *, show: bool = False) -> RescaleProgress:
        """Wait until it is done, at most ``timeout`` (> 0); ``show`` a bar on standard error.

        Errors: :class:`~laneshift.errors.SessionError` if it has failed or was cancelled, so that
        the query is as it was, or is not over in time; it goes on in that case.
        """
        timeout_s = seconds("timeout", timeout, low_open=True)
        end = time.monotonic() + timeout_s
        while True:
            now = self.progress
            if show:
                bar(now)
            if now.state in (RescaleState.FAILED, RescaleState.CANCELLED):
                raise error(
                    "LANESHIFT_RESCALE_FAILED",
                    query=self._query,
                    partitions=now.after,
                    before=now.before,
                    why=now.failure or "it was cancelled",
                )
            if now.ended:
                return now
            if time.monotonic() > end:
                raise error(
                    "LANESHIFT_RESCALE_GOES_ON",
                    query=self._query,
                    state=now.state,
                    seconds=f"{timeout_s:g}",
                )
            time.sleep(POLL_S)

    def cancel(self) -> RescaleProgress:
        """Give it up: the query keeps its partitions. Returns how it stands then.

        Errors: :class:`~laneshift.errors.SessionError` if it is over.
        """
        now = self.progress
        if not now.ended:
            now = self._gateway.cancel_rescale(self._query)
        if now.state is not RescaleState.CANCELLED:
            raise error("LANESHIFT_RESCALE_OVER", query=self._query, state=now.state)
        return now

    def __repr__(self) -> str:
        return f"<laneshift rescale of {self._query}, {self._asked.before} to {self._asked.after}>"


def _of(asked: RescaleProgress, newest: RescaleProgress) -> RescaleProgress:
    """How the one that was ``asked`` for stands; if another has begun since, how it has ended."""
    if (newest.before, newest.after) == (asked.before, asked.after):
        return newest
    if newest.before == asked.after:
        return replace(asked, state=RescaleState.DONE, ended=True)
    why = f"it had ended when one to {newest.after} was asked for"
    return replace(asked, state=RescaleState.FAILED, ended=True, failure=why)


def bar(now: RescaleProgress) -> None:
    """Show a rescale as a line of text on standard error, the same line each time."""
    done = round(now.share * WIDTH)
    line = (
        f"\r{now.before} -> {now.after} partitions [{'#' * done}{'.' * (WIDTH - done)}] {now.state}"
    )
    if now.lag_batches and not now.ended:
        line += f", {now.lag_batches} batches behind"
    end = (
        f", paused {now.pause_ms:.0f} ms\n"
        if now.state is RescaleState.DONE
        else "\n"
        if now.ended
        else ""
    )
    sys.stderr.write(f"{line:<78}{end}")
    sys.stderr.flush()


def rescale_checkpoint(
    spark: SparkSession, checkpoint: str, partitions: int, *, check: bool = True
) -> OfflineRescale:
    """Give the checkpoint of a query that does not run another number of state partitions (>= 1).

        laneshift.rescale_checkpoint(spark, "/checkpoints/orders", 16)

    With ``check`` all new state is read again and compared with the old one before the checkpoint
    goes over. Until then it is as it was, whatever happens. Not for a query with a file sink, which
    the checkpoint does not name: that sink's log has to have a file of every batch.

    Errors: ArgumentError for the number, or a session that is none of classic PySpark; SessionError
    for a checkpoint that cannot be rescaled.
    """
    (partitions,) = whole_numbers(partitions=partitions)
    return Py4jGateway(spark).rescale_offline(spark, str(checkpoint), partitions, check)
