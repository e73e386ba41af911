"""The one measuring code: what a file of answers says of a run, whoever wrote it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from laneshift_field.cases import Case, Rows

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

FULL, WITHIN_S = 0.95, 0.5
"""Full rate: so much of what is due comes out, over so long."""


@dataclass(frozen=True)
class Answers:
    """Lines ``key n out_us``: the state of a key after its n-th row came out then (us since 1970).

    An answer answers all rows of its key up to the n-th: a system that works in batches gives one
    for several rows.
    """

    keys: IntArray
    counts: IntArray
    outs_us: IntArray

    @staticmethod
    def read(file: Path) -> Answers:
        """From a file in which lines have any order; the last may be cut short."""
        text = file.read_bytes()
        text = text[: text.rfind(b"\n") + 1]
        table = np.array(text.split(), dtype=np.int64).reshape(-1, 3)
        return Answers(table[:, 0], table[:, 1], table[:, 2])


@dataclass(frozen=True)
class Phase:
    """Latency (ms) of the rows that are due in a part of the run; inf for those without answer."""

    rows: int
    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float

    @staticmethod
    def of(latencies_us: FloatArray) -> Phase:
        """Over all rows, each with the same weight."""
        if not latencies_us.size:
            return Phase(0, np.nan, np.nan, np.nan, np.nan)
        ranked = np.sort(latencies_us) / 1e3

        def at_most(share: float) -> float:
            return round(
                float(ranked[min(len(ranked) - 1, int(np.ceil(share * len(ranked))) - 1)]), 3
            )

        return Phase(len(ranked), at_most(0.5), at_most(0.99), at_most(0.999), at_most(1.0))


@dataclass(frozen=True)
class Figures:
    """What a run gave.

    Attributes:
        gap_s: longest time in which no row got its first answer, from the end of the warm-up until
            the last row is due.
        gaps_s: the same from each change on, until the next one or the end.
        full_s: from each higher rate's begin until `FULL` of it comes out; inf if it never does.
        lost: rows whose key's count never got so far.
        too_many: by how much counts went beyond the rows of their keys: rows that counted twice.
        again: answers that had been given before, which a restart may give again.
        every, before, after: latencies: of all rows, of those due before the first change, and of
            those due in the last half of the time behind the last one.
        rows_per_s: answered while rows were due, without the warm-up.
    """

    gap_s: float
    gaps_s: tuple[float, ...]
    full_s: tuple[float, ...]
    lost: int
    too_many: int
    again: int
    every: Phase
    before: Phase
    after: Phase
    rows_per_s: float

    def data(self) -> dict[str, Any]:
        """For JSON, which has no infinity."""

        def plain(value: Any) -> Any:
            if isinstance(value, Phase):
                return {name: plain(each) for name, each in vars(value).items()}
            if isinstance(value, tuple):
                return [plain(each) for each in value]
            if isinstance(value, float):
                return round(value, 3) if np.isfinite(value) else None
            return value

        return {name: plain(value) for name, value in vars(self).items()}


def answered_us(rows: Rows, answers: Answers) -> tuple[FloatArray, int]:
    """When each row was answered (us since 1970, inf if never), and what counts had too many."""
    most = int(max(rows.keys.max(), answers.keys.max(initial=0))) + 1
    totals = np.bincount(rows.keys, minlength=most)
    ends = np.cumsum(totals)
    begins = ends - totals
    # The place of each row among those of all keys, sorted by key and then as they are due.
    order = np.argsort(rows.keys, kind="stable")
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    beyond = np.maximum(answers.counts - totals[answers.keys], 0)
    too_many = np.zeros(most, dtype=np.int64)
    np.maximum.at(too_many, answers.keys, beyond)
    first = np.full(len(order), np.inf)
    at = begins[answers.keys] + np.minimum(answers.counts, totals[answers.keys]) - 1
    counted = totals[answers.keys] > 0
    np.minimum.at(first, at[counted], answers.outs_us[counted].astype(np.float64))
    for begin, end in zip(
        begins, ends, strict=True
    ):  # an answer is one for all rows before it, too
        first[begin:end] = np.minimum.accumulate(first[begin:end][::-1])[::-1]
    return first[place], int(too_many.sum())


def longest_gap_s(outs_us: FloatArray, from_us: float, until_us: float) -> float:
    """The longest time without a first answer: from the last one before ``from_us`` on."""
    earlier = outs_us[outs_us <= from_us]
    begin = earlier.max() if earlier.size else from_us
    inside = np.sort(outs_us[(outs_us > from_us) & (outs_us <= until_us)])
    marks = np.concatenate(([begin], inside, [until_us]))
    return float(np.diff(marks).max()) / 1e6


def full_after_s(answered: FloatArray, begin_us: float, end_us: float, rate: float) -> float:
    """Seconds until as many rows a second come out as are due; inf if that is never."""
    times = np.sort(answered[np.isfinite(answered)])
    ends = np.arange(begin_us + 1e6 * WITHIN_S, end_us + 1, 50_000.0)
    came = np.searchsorted(times, ends, "right") - np.searchsorted(times, ends - 1e6 * WITHIN_S)
    reached = ends[came >= FULL * rate * WITHIN_S]
    return float(reached[0] - begin_us) / 1e6 if reached.size else float("inf")


def judge(case: Case, rows: Rows, answers: Answers, start_us: int) -> Figures:
    """All figures of one run."""
    answered, too_many = answered_us(rows, answers)
    due = rows.dues_us + float(start_us)
    outs = answered[np.isfinite(answered)]
    begin, end = start_us + 1e6 * case.warm_s, start_us + 1e6 * case.seconds
    changes = [start_us + 1e6 * at for at, _ in case.changes]
    pairs = answers.keys * (int(answers.counts.max(initial=0)) + 1) + answers.counts
    latency = answered - due
    first = changes[0] if changes else end
    settled = ((changes[-1] if changes else begin) + end) / 2
    steps = []
    at = float(start_us)
    for (rate, seconds), (higher, length) in zip(case.stages, case.stages[1:], strict=False):
        at += 1e6 * seconds
        if higher > rate:
            steps.append(full_after_s(answered, at, at + 1e6 * length, higher))
    inside = (answered >= begin) & (answered <= end)
    return Figures(
        gap_s=longest_gap_s(outs, begin, end),
        gaps_s=tuple(
            longest_gap_s(outs, change, until) for change, until in pairwise([*changes, end])
        ),
        full_s=tuple(steps),
        lost=int(np.isinf(answered).sum()),
        too_many=too_many,
        again=len(pairs) - len(np.unique(pairs)),
        every=Phase.of(latency[due >= begin]),
        before=Phase.of(latency[(due >= begin) & (due < first)]),
        after=Phase.of(latency[due >= settled]),
        rows_per_s=float(inside.sum()) / (end - begin) * 1e6,
    )
