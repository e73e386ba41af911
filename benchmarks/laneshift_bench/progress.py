"""Progress lines: what runs now, how far the benchmark is, how long it has taken."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import TextIO


@dataclass(slots=True)
class Progress:
    """Counts the steps of one benchmark."""

    name: str
    steps: int
    out: TextIO = field(default_factory=lambda: sys.stderr)
    done: int = 0
    _begun: float = field(default_factory=time.monotonic)

    def step(self, text: str) -> None:
        """Say what begins now."""
        self.done += 1
        passed = time.monotonic() - self._begun
        counter = f"{self.done:{len(str(self.steps))}}/{self.steps}"
        self.out.write(f"{self.name} {counter} {passed:5.0f} s  {text}\n")
        self.out.flush()

    def note(self, text: str) -> None:
        """Say what the step gave, or how far it is."""
        self.out.write(f"    {text}\n")
        self.out.flush()
