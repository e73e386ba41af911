"""A plan becomes lanes and moves of shards; what the plugin refuses becomes a note."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from laneshift.autoscale.cores import Island, fitting, within_budget
from laneshift.autoscale.decisions import Note
from laneshift.autoscale.memory import Memory
from laneshift.autoscale.pictures import Lanes, Seen
from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.ids import PartitionId
from laneshift.contract.plan import Plan
from laneshift.errors import LaneshiftError
from laneshift.plugin.gateway import Applied, Gateway
from laneshift.plugin.v1 import control_pb2 as pb


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
        home = min(max(1, cells.pop(ref.home, 1)), ref.part.max_lanes)
        there = {executor: lanes for executor, lanes in cells.items() if lanes > 0}
        while sum(there.values()) > ref.part.max_elsewhere:
            most = max(there, key=lambda executor: (there[executor], executor))
            there[most] -= 1
        wished[name] = (ref.home, Lanes(home, {e: n for e, n in there.items() if n > 0}))
    return fitting(wished, island.budgets)


def _beside(held: Lanes, total: int) -> Lanes:
    """``total`` lanes, of which those elsewhere stay."""
    return Lanes(max(1, total - sum(held.elsewhere.values())), held.elsewhere)


def set_lanes(
    gateway: Gateway, island: Island, wanted: Mapping[PartitionId, Lanes]
) -> tuple[Note, ...]:
    """Sends lanes, those that shrink first; nobody grows before they have. Where some shrink with
    their query's next batch, those grow that do so with the same one.

    Those elsewhere are only spoken of by who places them. Returns notes, such as on a partition
    that has just left.
    """
    more = [name for name in wanted if _grows(island.partitions[name].lanes, wanted[name])]
    less = [name for name in wanted if name not in set(more)]
    applied, refused = _send(gateway, island, {name: wanted[name] for name in less})
    waiting = {
        island.partitions[name].query.run_id
        for name, when in applied.items()
        if when is Applied.NEXT_BATCH
    }
    held_up = [
        name
        for name in more
        if waiting
        and (island.partitions[name].acts_now or waiting != {island.partitions[name].query.run_id})
    ]
    now = {name: wanted[name] for name in more if name not in set(held_up)}
    return (
        *refused,
        *(Note(f"{name} waits for lanes that go with the next batch") for name in held_up),
        *_send(gateway, island, now)[1],
    )


def _send(
    gateway: Gateway, island: Island, wanted: Mapping[PartitionId, Lanes]
) -> tuple[dict[PartitionId, Applied], tuple[Note, ...]]:
    """When each is applied, and notes on who refuses."""
    wishes = []
    for name, lanes in wanted.items():
        ref = island.partitions[name]
        moves = island.spans and lanes.elsewhere != ref.lanes.elsewhere
        wishes.append(_wish(ref, lanes.home, lanes.elsewhere if moves else None))
    applied: dict[PartitionId, Applied] = {}
    notes = []
    for name, said in zip(wanted, gateway.set_lanes(wishes) if wishes else (), strict=True):
        if isinstance(said, LaneshiftError):
            notes.append(Note.failed(said, f"{name} keeps its lanes: ", name))
        else:
            applied[name] = said
    return applied, tuple(notes)


def _wish(ref: Seen, lanes: int, elsewhere: Mapping[str, int] | None = None) -> pb.LanesWish:
    """Lanes at home, and those elsewhere; None leaves these as they are."""
    return pb.LanesWish(
        query=ref.query.id,
        operator=ref.operator.operator_id,
        partition=ref.part.partition,
        lanes=lanes,
        elsewhere=None if elsewhere is None else pb.Elsewhere(lanes=elsewhere),
    )


def _grows(before: Lanes, after: Lanes) -> bool:
    """Whether there are more on some executor."""
    more = any(n > before.elsewhere.get(e, 0) for e, n in after.elsewhere.items())
    return more or after.home > before.home


def move_shards(
    gateway: Gateway, island: Island, plan: Plan, lanes: Mapping[PartitionId, Lanes]
) -> tuple[int, tuple[Note, ...]]:
    """Sends moves within partitions that keep both lanes; returns how many, and notes.

    Who has lanes elsewhere is balanced by the plugin: their numbers change as they come and go.
    """
    moves, wishes, notes = [], [], []
    for move in plan.shard_moves:
        name, lane = move.target.partition, move.target.lane
        if move.source.partition != name:
            notes.append(Note(f"shard {move.shard} cannot leave its partition {name}"))
        elif island.hears(name) and lane < lanes[name].home and not lanes[name].elsewhere:
            ref = island.partitions[name]
            moves.append(move)
            wishes.append(
                pb.MoveWish(
                    query=ref.query.id,
                    operator=ref.operator.operator_id,
                    partition=ref.part.partition,
                    shard=move.shard,
                    to_lane=lane,
                )
            )
    outcomes = gateway.move(wishes) if wishes else []
    for move, outcome in zip(moves, outcomes, strict=True):
        if isinstance(outcome, LaneshiftError):
            what = f"shard {move.shard} of {move.target.partition} stays: "
            notes.append(Note.failed(outcome, what, what))
    return sum(isinstance(outcome, Applied) for outcome in outcomes), tuple(notes)


class TakenOver:
    """Partitions whose lanes were the plugin's (``lanes=auto``) and are the policy's now.

    A count that is sent ends the plugin's own decisions: otherwise two would decide.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def take(
        self, gateway: Gateway, island: Island, changed: Collection[PartitionId]
    ) -> tuple[Note, ...]:
        """Sends, once, the lanes that they have to those that are not ``changed``.

        Returns notes, such as on a partition that has just left; it is tried again.
        """
        wishes: dict[PartitionId, pb.LanesWish] = {}
        for name, ref in island.partitions.items():
            if not ref.part.auto:
                self._memory[ref.query.run_id].taken.discard(ref.key)
            elif name in changed:
                self._memory[ref.query.run_id].taken.add(ref.key)
            elif ref.key not in self._memory[ref.query.run_id].taken and island.hears(name):
                wishes[name] = _wish(ref, ref.lanes.home)
        notes = []
        answers = gateway.set_lanes(wishes.values()) if wishes else ()
        for name, said in zip(wishes, answers, strict=True):
            if isinstance(said, LaneshiftError):
                notes.append(Note.failed(said, f"{name} is still the plugin's: ", name))
            else:
                ref = island.partitions[name]
                self._memory[ref.query.run_id].taken.add(ref.key)
        return tuple(notes)


def grown(planned: Mapping[PartitionId, Lanes], island: Island) -> dict[PartitionId, Lanes]:
    """Of partitions that get lanes, those that they have with those that come to them: nobody loses
    one, on any executor.
    """
    found = {}
    for name, lanes in planned.items():
        ref = island.partitions[name]
        home = max(ref.lanes.home, min(lanes.home, ref.part.max_lanes))
        there = dict(ref.lanes.elsewhere)
        there |= {e: max(n, there.get(e, 0)) for e, n in lanes.elsewhere.items()}
        now = Lanes(home, there)
        if now != ref.lanes and island.hears(name):
            found[name] = now
    return found


def without_early_releases(plan: Plan, cluster: ClusterLoad) -> tuple[Plan, tuple[Note, ...]]:
    """The plan without fewer lanes for partitions whose rate is known at least, and a note on each.

    What such a batch asks for beyond the lanes that there are is needed in any case.
    """
    amid = {p.partition for p in cluster.partitions if p.batch is not None and p.batch.at_least}
    early = {c.partition for c in plan.core_changes if c.after < c.before and c.partition in amid}
    if not early:
        return plan, ()
    kept = replace(
        plan,
        core_changes=tuple(c for c in plan.core_changes if c.partition not in early),
        placement_changes=tuple(c for c in plan.placement_changes if c.partition not in early),
        reasons=tuple(r for r in plan.reasons if r[0] not in early),
    )
    return kept, tuple(
        Note(
            f"{name} keeps its lanes for one more batch: the rows of this one may be a part of"
            " what comes in an interval"
        )
        for name in sorted(early)
    )


AGAIN_S = 30.0
"""After so long lanes are wanted there again (ours)."""


class Refusals:
    """Remembers what was wanted on other executors, and is not wanted any more without us.

    The plugin drops a wish that an executor does not fulfil; a policy would have it again at once.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def look(self, island: Island, now_s: float) -> tuple[Note, ...]:
        """Notes on what was wanted at the last look, or sent since, and is not wanted any more."""
        if not island.spans:
            return ()
        notes = []
        for until_s in (mine.left_alone_s for mine in self._memory.values()):
            for who in [w for w, until in until_s.items() if until <= now_s]:
                del until_s[who]
        for name, ref in island.partitions.items():
            known = self._memory[ref.query.run_id].sent
            sent = known.pop(ref.key, {})
            if ref.lanes.elsewhere:
                known[ref.key] = dict(ref.lanes.elsewhere)
            for executor, lanes in sent.items():
                there = ref.lanes.elsewhere.get(executor, 0)
                if there < lanes and executor != ref.home and ref.part.elsewhere_note is not None:
                    self._memory[ref.query.run_id].left_alone_s[ref.key, executor] = now_s + AGAIN_S
                    text = (
                        f"{name} has {there} of {lanes} lanes on executor {executor}"
                        f" ({ref.part.elsewhere_note}): it is asked for more in {AGAIN_S:g} s"
                    )
                    notes.append(Note(text, f"{name} on {executor}"))
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
                alone = (ref.key, executor) in self._memory[ref.query.run_id].left_alone_s
                if alone or executor in island.silent:
                    wish = min(wish, ref.lanes.elsewhere.get(executor, 0))
                if wish:
                    there[executor] = wish
            left[name] = Lanes(lanes.home, there)
        return left

    def sent(self, island: Island, wanted: Mapping[PartitionId, Lanes]) -> None:
        """These lanes have been wanted."""
        for name, lanes in wanted.items() if island.spans else ():
            ref = island.partitions[name]
            if lanes.elsewhere:
                self._memory[ref.query.run_id].sent[ref.key] = lanes.elsewhere
