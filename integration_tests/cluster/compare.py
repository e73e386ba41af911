"""Equality with stock Spark."""

from __future__ import annotations

from typing import Protocol

from cluster.cluster import Driver

# Name of a result or of a state -> its rows, in an order that both sides have.
Answers = dict[str, list[str]]


class Same(Protocol):
    """Compares what was found with what stock Spark has; ``lives`` found it, with state or not."""

    def __call__(
        self, found: Answers, expected: Answers, lives: list[Driver], *, state: bool = True
    ) -> None: ...


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
