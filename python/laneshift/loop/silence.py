"""Partitions of executors that do not answer: shown as they were last seen, and left as they are.

An executor is silent while it collects garbage for long, or has lost its network for a while. The
plugin then says nothing of its partitions, or what another executor still has of them from before.
They have not gone: Spark says so if they have.
"""

from __future__ import annotations

from dataclasses import replace

from laneshift.loop.seen import Key, Seen, seen_partitions
from laneshift.plugin.partition import PartitionSnapshot
from laneshift.plugin.snapshot import QuerySnapshot, Snapshot


class Silence:
    """Remembers the partitions of the newest picture."""

    def __init__(self) -> None:
        self._known: dict[Key, Seen] = {}

    def filled(self, live: Snapshot) -> Snapshot:
        """``live`` with the partitions of silent executors as they were last seen."""
        if live.silent:
            live = replace(live, queries=tuple(self._filled(q, live.silent) for q in live.queries))
        self._known = {s.key: s for s in seen_partitions(live)}
        return live

    def _filled(self, query: QuerySnapshot, silent: tuple[str, ...]) -> QuerySnapshot:
        there = {operator.operator_id: operator for operator in query.operators}
        said = {
            Seen(query, operator, part).key: part
            for operator in query.operators
            for part in operator.partitions
        }
        missed: dict[int, list[PartitionSnapshot]] = {}
        mode = query.mode
        for key, was in self._known.items():
            number, part = was.operator.operator_id, was.part
            if not query.active or key[0] != query.run_id or part.executor not in silent:
                continue
            # What was computed elsewhere before is no news of it.
            if key not in said or said[key].batch_id < part.batch_id:
                there.setdefault(number, replace(was.operator, partitions=()))
                missed.setdefault(number, []).append(part)
                mode = was.query.mode  # of which its operators tell
        if not missed:
            return query
        operators = []
        for number, operator in sorted(there.items()):
            parts = {part.partition: part for part in operator.partitions}
            parts |= {part.partition: part for part in missed.get(number, ())}
            known = tuple(parts[each] for each in sorted(parts))
            operators.append(replace(operator, partitions=known))
        return replace(query, mode=mode, operators=tuple(operators))
