"""What the report says in words: the headline, the summary, the table of decisions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from laneshift.report.recording import Recording


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: ``number`` counts the decisions that changed lanes, 0 for the others."""

    number: int
    time: str
    after: str
    what: str
    why: str


def span(seconds: float) -> str:
    """A length of time in words.

    >>> span(7.04), span(65), span(3725)
    ('7.0 s', '1 min 5 s', '1 h 2 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def clock(time_s: float, form: str = "%H:%M:%S") -> str:
    """A time of a trace on this machine's clock."""
    return datetime.fromtimestamp(time_s).astimezone().strftime(form)


def headline(run: Recording) -> str:
    """Who decided, when and for how long."""
    policies = list(dict.fromkeys(d.policy for d in run.decisions)) or ["no decision"]
    return f"{', '.join(policies)}: {span(run.seconds)} from {clock(run.start_s, '%F %T %Z')}"


def summary(run: Recording) -> tuple[str, ...]:
    """The run in a few sentences."""
    total = np.nansum(run.offered, axis=1)
    lanes = np.nansum(run.lanes, axis=1)
    changes = sum(len(d.changes) for d in run.decisions if d.applied)
    held = sum(len(d.changes) for d in run.decisions if not d.applied)
    moved = sum(m.count for m in run.moves)
    sentences = [
        f"{total.mean():,.0f} rows/s came in on average, {total.max():,.0f} at most.",
        f"{lanes.mean():.1f} lanes on average ({lanes.min():.0f} to {lanes.max():.0f})"
        f" for {_count(len(run.partitions), 'partition')}, within {run.cores.max():.0f} cores.",
        f"{_count(changes, 'lane change')}, {_count(moved, 'shard move')}.",
    ]
    if held:
        sentences.append(f"{_count(held, 'lane change')} decided and not carried out.")
    if failed := sum(d.error is not None for d in run.decisions):
        sentences.append(f"{_count(failed, 'turn')} failed.")
    return tuple(sentences)


def table(run: Recording) -> Iterator[Row]:
    """What was decided and why, in order of time; the same note is said once until it changes."""
    number = 0
    said: dict[tuple[str, str], tuple[str, ...]] = {}
    for decision in run.decisions:
        if decision.changes:
            number += 1
        about = (decision.executor, decision.policy)
        repeated = said.get(about) == decision.notes
        said[about] = decision.notes
        for what, why in decision.said():
            if what or not repeated:
                yield Row(
                    number if decision.changes and what else 0,
                    clock(decision.time_s),
                    f"{decision.time_s - run.start_s:,.1f}",
                    what,
                    why,
                )


def _count(n: int, thing: str) -> str:
    return f"{n:,} {thing}{'' if n == 1 else 's'}"
