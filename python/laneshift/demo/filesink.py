"""The sink of the flights demo: each task of the query appends to a file, the demo reads along.

It is a Python ``foreach`` writer, which Spark allows in micro-batch and in Real-time Mode.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

from laneshift.demo.updates import Updates

if TYPE_CHECKING:
    from pyspark.sql import Row

FLUSH_S = 0.1


class FileWriter:
    """Writes ``arrived_us,sent_us,line`` to ``<folder>/<epoch>-<partition>.csv``."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._file: IO[str] | None = None
        self._flushed = 0.0

    def open(self, partition_id: int, epoch_id: int) -> bool:
        """Start the file of one task."""
        name = f"{epoch_id:08d}-{partition_id:03d}.csv"
        self._file = open(Path(self._folder) / name, "w", encoding="utf-8")  # noqa: SIM115
        return True

    def process(self, row: Row) -> None:
        """Append one update; it is readable at the latest with the first one 0.1 s later."""
        assert self._file is not None
        now = time.time()
        self._file.write(f"{int(now * 1e6)},{row[1]},{row[0]}\n")
        if now - self._flushed > FLUSH_S:
            self._file.flush()
            self._flushed = now

    def close(self, error: Exception | None) -> None:
        """End the file."""
        if self._file is not None:
            self._file.close()


@dataclass
class FileTail:
    """Reads what the writers append, each file's lines in their order."""

    folder: Path
    updates: Updates = field(default_factory=Updates)
    _done: dict[Path, int] = field(default_factory=dict)

    def poll(self) -> None:
        """Take all complete lines that came since the last call, older epochs first."""
        for path in sorted(self.folder.glob("*.csv")):
            start = self._done.get(path, 0)
            if path.stat().st_size <= start:
                continue
            with path.open("rb") as file:
                file.seek(start)
                data = file.read()
            end = data.rfind(b"\n") + 1
            self._done[path] = start + end
            for text in data[:end].decode("utf-8").splitlines():
                at_us, sent_us, line = text.split(",", 2)
                self.updates.add(int(at_us), int(sent_us), line)

    def close(self) -> None:
        """Nothing is open between two calls of ``poll``."""
