"""A plan becomes commands to the plugin; what it refuses becomes a note."""

from __future__ import annotations

from typing import Any

from laneshift.errors import LaneshiftError
from laneshift.loop.decision import LaneChange
from laneshift.loop.island import Island
from laneshift.plugin.gateway import Gateway
from laneshift.scheduler.plan import Plan


def set_lanes(gateway: Gateway, island: Island, changes: tuple[LaneChange, ...]) -> tuple[str, ...]:
    """Sends lane counts, those that shrink first; nobody grows before they have.

    Returns notes, such as on a partition that has just left.
    """
    notes = []
    waiting = False
    for change in sorted(changes, key=lambda c: c.after > c.before):
        ref = island.partitions[change.partition]
        grows = change.after > change.before
        if grows and waiting:
            notes.append(f"{change.partition} waits for lanes that go with the next batch")
            continue
        try:
            answer = gateway.set_lanes(ref.query_id, ref.operator_id, ref.partition, change.after)
            waiting |= not grows and answer["applied"] != "now"
        except LaneshiftError as problem:
            notes.append(f"{change.partition} keeps its lanes: {problem}")
    return tuple(notes)


def move_shards(
    gateway: Gateway, island: Island, plan: Plan, lanes: dict[Any, int]
) -> tuple[int, tuple[str, ...]]:
    """Sends moves within partitions that keep both lanes; returns how many, and notes."""
    moved, notes = 0, []
    for move in plan.shard_moves:
        name, lane = move.target.partition, move.target.lane
        if move.source.partition != name:
            notes.append(f"shard {move.shard} cannot leave its partition {name}")
        elif lane < lanes[name]:
            ref = island.partitions[name]
            try:
                gateway.move_shard(ref.query_id, ref.operator_id, ref.partition, move.shard, lane)
                moved += 1
            except LaneshiftError as problem:
                notes.append(f"shard {move.shard} of {name} stays: {problem}")
    return moved, tuple(notes)


class TakenOver:
    """Partitions whose lanes were the plugin's (``lanes=auto``) and are the scheduler's now.

    A count that is sent ends the plugin's own decisions: otherwise two would decide.
    """

    def __init__(self) -> None:
        self._taken: set[tuple[str, int, int]] = set()

    def take(
        self, gateway: Gateway, island: Island, changes: tuple[LaneChange, ...]
    ) -> tuple[str, ...]:
        """Sends, once, the lanes that they have to those of which ``changes`` say nothing.

        Returns notes, such as on a partition that has just left; it is tried again.
        """
        notes = []
        changed = {change.partition for change in changes}
        for name, ref in island.partitions.items():
            key = (ref.run_id, ref.operator_id, ref.partition)
            if not ref.auto:
                self._taken.discard(key)
            elif name in changed:
                self._taken.add(key)
            elif key not in self._taken:
                try:
                    gateway.set_lanes(ref.query_id, ref.operator_id, ref.partition, ref.lanes)
                    self._taken.add(key)
                except LaneshiftError as problem:
                    notes.append(f"{name} is still the plugin's: {problem}")
        return tuple(notes)
