"""Equality with stock Spark."""

from __future__ import annotations

from collections.abc import Callable

from cluster.cluster import Driver

# Name of a result or of a state -> its rows, in an order that both sides have.
Answers = dict[str, list[str]]

# What was found, what stock Spark has, who found it.
Same = Callable[[Answers, Answers, list[Driver]], None]


def difference(found: Answers, expected: Answers) -> str:
    """What two answers differ in, in a few lines; empty if they are the same."""
    lines = []
    for name in sorted({*found, *expected}):
        rows, others = expected.get(name, []), found.get(name, [])
        if others != rows:
            lines.append(f"{name}: {len(others)} rows, stock Spark has {len(rows)}")
            missing, extra = set(rows) - set(others), set(others) - set(rows)
            lines += [f"  missing {r}" for r in sorted(missing)[:5]]
            lines += [f"  too many {r}" for r in sorted(extra)[:5]]
    return "\n".join(lines)


def count(answers: Answers) -> int:
    """Rows of all results and states."""
    return sum(map(len, answers.values()))
