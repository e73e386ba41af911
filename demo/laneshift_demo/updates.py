"""Collects the updates of a query's answers, in the order in which its sink got them."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from laneshift_demo.question import key_and_values


@dataclass(slots=True)
class Updates:
    """What came out so far.

    Attributes:
        answers: values of each update, by ``dest,flights``.
        counts: flights of each airport, by its newest update.
        rows: input rows that the answers stand for: the sum of ``counts``.
        disorder: updates whose count was not higher than their airport's count before.
        at_us, latency_us, new_rows: per update, when it came (microseconds since 1970), how long
            after its newest row was due, and how many rows it added.
    """

    answers: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    rows: int = 0
    disorder: int = 0
    at_us: array[int] = field(default_factory=lambda: array("q"))
    latency_us: array[int] = field(default_factory=lambda: array("q"))
    new_rows: array[int] = field(default_factory=lambda: array("q"))

    def add(self, at_us: int, line: str) -> None:
        """Take one update, a line as :func:`laneshift_demo.question.answers` writes it."""
        sent_us, answer = line.split(",", 1)
        key, values = key_and_values(answer)
        dest, flights = key.split(",")
        count = int(flights)
        new = count - self.counts.get(dest, 0)
        self.disorder += new <= 0
        self.answers[key] = values
        self.counts[dest] = count
        self.rows += new
        self.at_us.append(at_us)
        self.latency_us.append(at_us - int(sent_us))
        self.new_rows.append(new)

    def columns(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """``at_us``, ``latency_us`` and ``new_rows`` as arrays of equal length."""
        return (
            np.array(self.at_us, dtype=np.int64),
            np.array(self.latency_us, dtype=np.int64),
            np.array(self.new_rows, dtype=np.int64),
        )

    def p99_ms(self, first: int) -> float:
        """99th percentile of the latency (ms) of the updates from that one on; NaN if none."""
        values = np.array(self.latency_us[first:], dtype=np.float64)
        return float(np.percentile(values, 99)) / 1000 if values.size else float("nan")
