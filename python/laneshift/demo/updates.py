"""Collects the updates of a query's answers, in the order in which its sink got them.

Kept: the last line of each key, which is the query's answer in the end, and for every update when
it came, how long it took and for how many new rows it stands.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from laneshift.demo.question import key_and_values


@dataclass(slots=True)
class Updates:
    """What came out so far.

    Attributes:
        answer: last values of each key.
        rows: input rows that the answers stand for: the sum of their counts.
        disorder: updates whose count was not higher than the key's count before.
        at_us, latency_us, new_rows: per update, when it came (microseconds since 1970), how long
            after its newest row was sent, and how many rows it added.
    """

    answer: dict[str, str] = field(default_factory=dict)
    rows: int = 0
    disorder: int = 0
    at_us: array[int] = field(default_factory=lambda: array("q"))
    latency_us: array[int] = field(default_factory=lambda: array("q"))
    new_rows: array[int] = field(default_factory=lambda: array("q"))
    _counts: dict[str, int] = field(default_factory=dict)

    def add(self, at_us: int, sent_us: int, line: str) -> None:
        """Take one update; ``line`` is an answer as :mod:`laneshift.demo.question` writes it."""
        key, values = key_and_values(line)
        count = int(values[: values.index(",")])
        new = count - self._counts.get(key, 0)
        self.disorder += new <= 0
        self.answer[key] = values
        self._counts[key] = count
        self.rows += new
        self.at_us.append(at_us)
        self.latency_us.append(at_us - sent_us)
        self.new_rows.append(new)

    def columns(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """``at_us``, ``latency_us`` and ``new_rows`` as arrays of equal length."""
        return (
            np.array(self.at_us, dtype=np.int64),
            np.array(self.latency_us, dtype=np.int64),
            np.array(self.new_rows, dtype=np.int64),
        )

    def recent(self, count_from: int) -> tuple[float, float]:
        """p50 and p99 of the latency (ms) of the updates from that index on; NaN if none."""
        values = np.array(self.latency_us[count_from:], dtype=np.float64)
        if not values.size:
            return float("nan"), float("nan")
        p50, p99 = np.percentile(values, [50, 99])
        return float(p50) / 1000, float(p99) / 1000
