"""What of a plan only adds: for turns on the word of a moment, which take nothing from anybody."""

from __future__ import annotations

from collections.abc import Mapping

from laneshift.loop.island import Island
from laneshift.loop.lanes import Lanes
from laneshift.scheduler.ids import PartitionId


def only_more(planned: Mapping[PartitionId, Lanes], island: Island) -> dict[PartitionId, Lanes]:
    """Of partitions that get lanes, those that they have with those that come to them.

    Nobody loses one for it: what does not fit beside all that is there is cut, one by one from who
    was to get most.
    """
    where: tuple[str | None, ...] = tuple(island.rooms) if island.spans else (None,)
    more: dict[PartitionId, dict[str | None, int]] = {name: {} for name in planned}
    for executor in where:
        wished = {
            name: n
            for name, lanes in planned.items()
            if (n := _on(lanes, executor, island, name) - _held(executor, island, name)) > 0
        }
        held = sum(_held(executor, island, name) for name in island.partitions)
        room = island.budget if executor is None else island.budgets[executor]
        while sum(wished.values()) > max(0, room - held):
            most = max(wished, key=lambda name: (wished[name], name))
            wished[most] -= 1
        for name, n in wished.items():
            more[name][executor] = n
    return {
        name: lanes
        for name, added in more.items()
        if island.hears(name)
        and (lanes := _with(added, island, name)) != island.partitions[name].lanes
    }


def _on(lanes: Lanes, executor: str | None, island: Island, name: PartitionId) -> int:
    """Lanes of a partition on an executor; all of them if there is none to tell apart."""
    if executor is None:
        return lanes.total
    return lanes.on(executor, island.partitions[name].home)


def _held(executor: str | None, island: Island, name: PartitionId) -> int:
    return _on(island.partitions[name].lanes, executor, island, name)


def _with(added: Mapping[str | None, int], island: Island, name: PartitionId) -> Lanes:
    """A partition's lanes with some more, within what it may have."""
    ref = island.partitions[name]
    home = ref.lanes.home + added.get(ref.home if island.spans else None, 0)
    there = dict(ref.lanes.elsewhere)
    left = ref.max_elsewhere - sum(there.values())
    for executor, n in added.items():
        if executor is not None and executor != ref.home and min(n, left) > 0:
            there[executor] = there.get(executor, 0) + min(n, left)
            left -= min(n, left)
    return Lanes(max(ref.lanes.home, min(home, ref.max_lanes)), there)
