"""Executors that did not take lanes, or were lost with them, are left alone for a while."""

from __future__ import annotations

from collections.abc import Mapping

from laneshift.loop.island import Island
from laneshift.loop.lanes import Lanes
from laneshift.loop.memories import Memories
from laneshift.loop.seen import Key
from laneshift.scheduler.ids import PartitionId

AGAIN_S = 30.0
"""After so long lanes are wanted there again (ours)."""


class Refusals:
    """Remembers what was wanted on other executors, and is not wanted any more without us.

    The plugin drops a wish that an executor does not fulfil; a policy would have it again at once.
    """

    def __init__(self, memories: Memories) -> None:
        self._sent: Mapping[str, dict[Key, Mapping[str, int]]] = memories.by_run(dict)
        self._until_s: Mapping[str, dict[tuple[Key, str], float]] = memories.by_run(dict)

    def look(self, island: Island, now_s: float) -> tuple[str, ...]:
        """Notes on what was wanted at the last look, or sent since, and is not wanted any more."""
        notes = []
        for until_s in self._until_s.values():
            for who in [w for w, until in until_s.items() if until <= now_s]:
                del until_s[who]
        for name, ref in island.partitions.items():
            known = self._sent[ref.run_id]
            sent = known.pop(ref.key, {})
            if ref.lanes.elsewhere:
                known[ref.key] = dict(ref.lanes.elsewhere)
            for executor, lanes in sent.items():
                there = ref.lanes.elsewhere.get(executor, 0)
                if there < lanes and executor != ref.home and ref.elsewhere_note is not None:
                    self._until_s[ref.run_id][ref.key, executor] = now_s + AGAIN_S
                    notes.append(
                        f"{name} has {there} of {lanes} lanes on executor {executor}"
                        f" ({ref.elsewhere_note}): it is asked for more in {AGAIN_S:g} s"
                    )
        return tuple(notes)

    def without(
        self, wanted: Mapping[PartitionId, Lanes], island: Island
    ) -> dict[PartitionId, Lanes]:
        """``wanted``, but no more than there is on executors that are left alone or are silent."""
        left = {}
        for name, lanes in wanted.items():
            ref = island.partitions[name]
            there = {}
            for executor, wish in lanes.elsewhere.items():
                if (ref.key, executor) in self._until_s[ref.run_id] or executor in island.silent:
                    wish = min(wish, ref.lanes.elsewhere.get(executor, 0))
                if wish:
                    there[executor] = wish
            left[name] = Lanes(lanes.home, there)
        return left

    def sent(self, island: Island, wanted: Mapping[PartitionId, Lanes]) -> None:
        """These lanes have been wanted."""
        for name, lanes in wanted.items():
            ref = island.partitions[name]
            if lanes.elsewhere:
                self._sent[ref.run_id][ref.key] = lanes.elsewhere
