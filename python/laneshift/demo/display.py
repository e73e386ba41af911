"""The live display: one line that is rewritten on a terminal, a few lines anywhere else."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from typing import TextIO

PLAIN_EVERY_S = 5.0
BAR = 16


@dataclass(frozen=True, slots=True)
class Sample:
    """One moment of a run; latencies and pauses in ms, NaN if there were none."""

    mode: str
    seconds: float
    progress: float
    rows_per_s: float
    latency_p50_ms: float
    latency_p99_ms: float
    lanes: tuple[int, ...] = ()
    moves: int = 0
    pause_p50_ms: float = math.nan
    pause_p99_ms: float = math.nan

    def with_lanes(
        self, lanes: tuple[int, ...], moves: int, pause_p50_ms: float, pause_p99_ms: float
    ) -> Sample:
        """The same moment with what laneshift's snapshot says."""
        return replace(
            self, lanes=lanes, moves=moves, pause_p50_ms=pause_p50_ms, pause_p99_ms=pause_p99_ms
        )

    def line(self) -> str:
        """The moment as a line of about 120 characters."""
        parts = [
            f"{self.mode:<11} {self.seconds:5.1f} s",
            f"{self.rows_per_s:7,.0f} rows/s",
            f"latency {_ms(self.latency_p50_ms)} p99 {_ms(self.latency_p99_ms)}",
        ]
        if self.lanes:
            lanes = "+".join(map(str, self.lanes))
            parts.append(f"lanes {lanes:<5} moves {self.moves:5,}")
            parts.append(f"pause {_ms(self.pause_p50_ms)} p99 {_ms(self.pause_p99_ms)}")
        filled = round(self.progress * BAR)
        parts.append(f"[{'=' * filled}{' ' * (BAR - filled)}] {self.progress:4.0%}")
        return "  ".join(parts)


class Display:
    """Shows samples on a stream."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out if out is not None else sys.stdout
        self._live = self._out.isatty()
        self._next = 0.0
        self._open = False

    def show(self, sample: Sample) -> None:
        """Show a sample: at once on a terminal, else every five seconds and at the end."""
        if self._live:
            self._out.write(f"\r\x1b[2K{sample.line()}")
            self._open = True
        elif sample.seconds >= self._next or sample.progress >= 1.0:
            self._out.write(sample.line() + "\n")
            self._next = sample.seconds + PLAIN_EVERY_S
        self._out.flush()

    def say(self, text: str) -> None:
        """Print a line of its own."""
        self.end()
        self._out.write(text + "\n")
        self._out.flush()

    def end(self) -> None:
        """End a line that was being rewritten; the next run starts anew."""
        if self._open:
            self._out.write("\n")
            self._open = False
        self._next = 0.0


def _ms(value: float) -> str:
    if math.isnan(value):
        return "     - ms"
    if value >= 10_000:
        return f"{value / 1000:6.1f} s "
    if value < 1:
        return f"{value:6.3f} ms"
    return f"{value:6.1f} ms" if value < 1000 else f"{value:6,.0f} ms"
