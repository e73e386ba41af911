"""Sends the flights at a steady rate, each row stamped with the moment at which it is sent."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any, Protocol

SLICE_S = 0.25
SLICES_PER_BATCH = 4
"""Most slices that a micro-batch takes: late rows come in several batches, not in a huge one."""


class Feed(Protocol):
    """What sends rows to a running query."""

    def prime(self) -> None:
        """Send a first few rows, so that the query can warm up."""
        ...

    def start(self) -> None:
        """Begin to send the rest."""
        ...

    def stop(self) -> None:
        """Send no more, and wait until that is so. Raises what went wrong while sending."""
        ...

    @property
    def finished(self) -> bool:
        """Whether all rows have been sent."""
        ...


class PacedFeed:
    """Sends slices of a table, all but the first on a thread of its own; ``send`` does the rest.

    ``rows_per_s`` is kept over the whole run: after a delay, slices follow each other faster.
    """

    def __init__(self, table: Any, rows_per_s: float) -> None:
        self._table = table
        self._rate = rows_per_s
        self._slice = max(1, int(rows_per_s * SLICE_S))
        self._stopped = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="demo-feed", daemon=True)

    def send(self, number: int, rows: Any) -> None:
        """Send one slice, a pyarrow table, now."""
        raise NotImplementedError

    def prime(self) -> None:
        self.send(0, self._table.slice(0, self._slice))

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error

    @property
    def finished(self) -> bool:
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            began = time.monotonic()
            for number, start in enumerate(range(self._slice, self._table.num_rows, self._slice)):
                due = began + number * self._slice / self._rate
                if self._stopped.wait(max(0.0, due - time.monotonic())):
                    return
                self.send(number + 1, self._table.slice(start, self._slice))
        except BaseException as error:
            self._error = error


class FileFeed(PacedFeed):
    """Puts each slice into a folder as a Parquet file, complete at once."""

    def __init__(self, table: Any, rows_per_s: float, folder: Path) -> None:
        super().__init__(table, rows_per_s)
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def send(self, number: int, rows: Any) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        now = pa.repeat(pa.scalar(int(time.time() * 1e6), pa.int64()), rows.num_rows)
        hidden = self._folder / f".slice-{number:06d}"
        pq.write_table(rows.append_column("sent_us", now), hidden)
        os.replace(hidden, self._folder / f"slice-{number:06d}.parquet")


class NoFeed:
    """For a source that sends by itself."""

    finished = True

    def prime(self) -> None:
        """Nothing to send."""

    def start(self) -> None:
        """Nothing to begin."""

    def stop(self) -> None:
        """Nothing to end."""
