"""What the loop remembers of runs of queries, which goes with them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from typing import Any, TypeVar

T = TypeVar("T")


class Memories:
    """All that is remembered by run, whoever remembers it."""

    def __init__(self) -> None:
        self._all: list[defaultdict[str, Any]] = []

    def by_run(self, make: Callable[[], T]) -> defaultdict[str, T]:
        """A memory by run id. It begins as ``make`` gives it."""
        made: defaultdict[str, T] = defaultdict(make)
        self._all.append(made)
        return made

    def keep(self, runs: Collection[str]) -> None:
        """All others have ended."""
        for memory in self._all:
            for gone in memory.keys() - set(runs):
                del memory[gone]

    def __len__(self) -> int:
        """Runs of which something is remembered."""
        return len({run for memory in self._all for run in memory})
