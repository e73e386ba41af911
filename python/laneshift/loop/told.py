"""What a scheduler has told of its turns: what the next ones say again is not told again."""

from __future__ import annotations

import re

from laneshift.loop.decision import Decision

AGAIN_S = 60.0
"""A note or an error that goes on, or comes back, is told again after so long (s, ours)."""

_NUMBER = re.compile(
    r"(?<![\w:.,-])(?<!key )(?<!shard )(?<!executor )"
    r"\d[\d,]*(\.\d+)?(e[+-]?\d+)?(?![\w:-]|[.,]\d)"
)
"""A quantity: no part of a name, and no key, shard or executor."""


def kind(note: str) -> str:
    """The note without its quantities, which are others in each turn: two that are about the same.

    Names, such as a partition's, stay.
    """
    return _NUMBER.sub("#", note)


class Told:
    """By executor, what is asked for and what was noted."""

    def __init__(self) -> None:
        self._asked: dict[str, tuple[list[str], bool]] = {}
        self._noted_s: dict[str, dict[str, float]] = {}

    def forget(self, executor: str) -> None:
        """There are no partitions on it any more."""
        self._asked.pop(executor, None)
        self._noted_s.pop(executor, None)

    def is_news(self, decision: Decision, *, measured: bool) -> bool:
        """Whether it says what was not said lately; then it is taken for told.

        A turn for which nothing new was ``measured`` wants nothing, and takes nothing back: what a
        dry run would have done after each batch is news once. Reasons may differ: they have rates
        in them.
        """
        now = (decision.asked, decision.applied)
        asks = bool(decision.asked) and self._asked.get(decision.executor) != now
        if decision.asked:
            self._asked[decision.executor] = now
        elif measured and not decision.error:
            self._asked.pop(decision.executor, None)
        noted = self._noted_s.setdefault(decision.executor, {})
        for old in [k for k, at_s in noted.items() if decision.time_s - at_s >= AGAIN_S]:
            del noted[old]
        said = (*decision.notes, *([decision.error] if decision.error else []))
        kinds = {kind(note) for note in said}
        news = asks or bool(kinds - noted.keys()) or bool(decision.limits or decision.shard_moves)
        if news:
            noted.update(dict.fromkeys(kinds, decision.time_s))
        return news
