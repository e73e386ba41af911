"""A plan becomes commands to the plugin; what it refuses becomes a note."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from laneshift.errors import LaneshiftError
from laneshift.loop.budget import fitting, within_budget
from laneshift.loop.island import Island
from laneshift.loop.lanes import Lanes
from laneshift.loop.memories import Memories
from laneshift.loop.seen import Key
from laneshift.plugin.gateway import Gateway, LanesWish
from laneshift.scheduler.ids import PartitionId
from laneshift.scheduler.plan import Plan


def planned_lanes(
    plan: Plan, island: Island, fits: Mapping[PartitionId, Lanes]
) -> dict[PartitionId, Lanes]:
    """Where each partition's lanes are once ``plan`` is carried out within the budgets."""
    after = {name: lanes.total for name, lanes in fits.items()}
    after |= {change.partition: max(1, change.after) for change in plan.core_changes}
    if not island.spans:
        (budget,) = island.budgets.values()
        return {
            name: _beside(island.partitions[name].lanes, total)
            for name, total in within_budget(after, budget).items()
        }
    spread = {
        name: {island.partitions[name].home: lanes.home, **lanes.elsewhere}
        for name, lanes in fits.items()
    }
    for change in plan.placement_changes:
        spread[change.partition][change.node] = change.after
    wished = {}
    for name, cells in spread.items():
        ref = island.partitions[name]
        home = min(max(1, cells.pop(ref.home, 1)), ref.max_lanes)
        there = {executor: lanes for executor, lanes in cells.items() if lanes > 0}
        while sum(there.values()) > ref.max_elsewhere:
            most = max(there, key=lambda executor: (there[executor], executor))
            there[most] -= 1
        wished[name] = (ref.home, Lanes(home, {e: n for e, n in there.items() if n > 0}))
    return fitting(wished, island.budgets)


def _beside(held: Lanes, total: int) -> Lanes:
    """``total`` lanes, of which those elsewhere stay."""
    return Lanes(max(1, total - sum(held.elsewhere.values())), held.elsewhere)


def set_lanes(
    gateway: Gateway, island: Island, wanted: Mapping[PartitionId, Lanes]
) -> tuple[str, ...]:
    """Sends lanes, those that shrink first; nobody grows before they have. Where some shrink with
    their query's next batch, those grow that do so with the same one.

    Those elsewhere are only spoken of by who places them. Returns notes, such as on a partition
    that has just left.
    """
    more = [name for name in wanted if _grows(island.partitions[name].lanes, wanted[name])]
    less = [name for name in wanted if name not in set(more)]
    applied, refused = _send(gateway, island, {name: wanted[name] for name in less})
    waiting = {island.partitions[name].run_id for name, when in applied.items() if when != "now"}
    held_up = [
        name
        for name in more
        if waiting
        and (island.partitions[name].acts_now or waiting != {island.partitions[name].run_id})
    ]
    now = {name: wanted[name] for name in more if name not in set(held_up)}
    return (
        *refused,
        *(f"{name} waits for lanes that go with the next batch" for name in held_up),
        *_send(gateway, island, now)[1],
    )


def _send(
    gateway: Gateway, island: Island, wanted: Mapping[PartitionId, Lanes]
) -> tuple[dict[PartitionId, str], tuple[str, ...]]:
    """When each is applied, and notes on who refuses."""
    wishes = []
    for name, lanes in wanted.items():
        ref = island.partitions[name]
        moves = island.spans and lanes.elsewhere != ref.lanes.elsewhere
        there = dict(lanes.elsewhere) if moves else None
        wishes.append(LanesWish(ref.query_id, ref.operator_id, ref.partition, lanes.home, there))
    applied: dict[PartitionId, str] = {}
    notes = []
    answers = gateway.set_many_lanes(wishes) if wishes else ()
    for name, said in zip(wanted, answers, strict=True):
        if isinstance(said, LaneshiftError):
            notes.append(f"{name} keeps its lanes: {said}")
        else:
            applied[name] = str(said["applied"])
    return applied, tuple(notes)


def _grows(before: Lanes, after: Lanes) -> bool:
    """Whether there are more on some executor."""
    more = any(n > before.elsewhere.get(e, 0) for e, n in after.elsewhere.items())
    return more or after.home > before.home


def move_shards(
    gateway: Gateway, island: Island, plan: Plan, lanes: Mapping[PartitionId, Lanes]
) -> tuple[int, tuple[str, ...]]:
    """Sends moves within partitions that keep both lanes; returns how many, and notes.

    Who has lanes elsewhere is balanced by the plugin: their numbers change as they come and go.
    """
    moved, notes = 0, []
    for move in plan.shard_moves:
        name, lane = move.target.partition, move.target.lane
        if move.source.partition != name:
            notes.append(f"shard {move.shard} cannot leave its partition {name}")
        elif island.hears(name) and lane < lanes[name].home and not lanes[name].elsewhere:
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

    def __init__(self, memories: Memories) -> None:
        self._taken: Mapping[str, set[Key]] = memories.by_run(set)

    def take(
        self, gateway: Gateway, island: Island, changed: Collection[PartitionId]
    ) -> tuple[str, ...]:
        """Sends, once, the lanes that they have to those that are not ``changed``.

        Returns notes, such as on a partition that has just left; it is tried again.
        """
        wishes: dict[PartitionId, LanesWish] = {}
        for name, ref in island.partitions.items():
            if not ref.auto:
                self._taken[ref.run_id].discard(ref.key)
            elif name in changed:
                self._taken[ref.run_id].add(ref.key)
            elif ref.key not in self._taken[ref.run_id] and island.hears(name):
                wishes[name] = LanesWish(
                    ref.query_id, ref.operator_id, ref.partition, ref.lanes.home
                )
        notes = []
        answers = gateway.set_many_lanes(list(wishes.values())) if wishes else ()
        for name, said in zip(wishes, answers, strict=True):
            if isinstance(said, LaneshiftError):
                notes.append(f"{name} is still the plugin's: {said}")
            else:
                ref = island.partitions[name]
                self._taken[ref.run_id].add(ref.key)
        return tuple(notes)
