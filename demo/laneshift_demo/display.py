"""The live table: a line every two seconds; on a terminal the newest one is rewritten between."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import TextIO

LINE_EVERY_S = 2.0
NAMED = 3
HEADER = (
    "        hot airports         stock: rows/s       p99     late    "
    "laneshift: rows/s       p99     late  lanes"
)


@dataclass(frozen=True, slots=True)
class SideMoment:
    """One side: rows/s, p99 of the latency (ms, NaN if nothing came), rows due and unanswered."""

    rows_per_s: float
    p99_ms: float
    late: int

    def columns(self, width: int) -> str:
        """As columns of the table."""
        return f"{self.rows_per_s:{width},.0f} {_ms(self.p99_ms)} {self.late:8,}"


@dataclass(frozen=True, slots=True)
class Moment:
    """Both sides, so many seconds after the first row was due."""

    seconds: float
    hot: tuple[str, ...]
    stock: SideMoment
    elastic: SideMoment
    lanes: tuple[int, ...]

    def line(self) -> str:
        """A line of the table."""
        more = f" +{len(self.hot) - NAMED}" if len(self.hot) > NAMED else ""
        hot = " ".join(self.hot[:NAMED]) + more or "-"
        lanes = "+".join(map(str, self.lanes))
        return (
            f"{self.seconds:5.1f} s {hot:<19}{self.stock.columns(15)}    "
            f"{self.elastic.columns(17)}  {lanes}"
        )


class Display:
    """Shows moments on a stream."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out if out is not None else sys.stdout
        self._live = self._out.isatty()
        self._next = -math.inf
        self._open = False

    def show(self, moment: Moment, *, last: bool = False) -> None:
        """Show a moment: for good every two seconds and at the end, on a terminal at once."""
        if self._next == -math.inf:
            self.say(HEADER)
            self._next = moment.seconds
        keep = last or moment.seconds >= self._next
        if keep:
            self._next += LINE_EVERY_S
        if self._live:
            self._out.write(f"\r\x1b[2K{moment.line()}" + ("\n" if keep else ""))
            self._open = not keep
        elif keep:
            self._out.write(moment.line() + "\n")
        self._out.flush()

    def say(self, text: str) -> None:
        """Print a line of its own."""
        self.end()
        self._out.write(text + "\n")
        self._out.flush()

    def end(self) -> None:
        """End a line that was being rewritten."""
        if self._open:
            self._out.write("\n")
            self._open = False


def _ms(value: float) -> str:
    if math.isnan(value):
        return "     - ms"
    if value >= 10_000:
        return f"{value / 1000:6.1f} s "
    return f"{value:6.1f} ms" if value < 1000 else f"{value:6,.0f} ms"
