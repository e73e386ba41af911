"""What a planner of key distribution decides becomes commands: shards to lanes, and work apart.

As long as it decides, the plugin moves no shards by itself and takes its word on what is apart. It
has that for a few seconds longer than a turn takes, and renews it: a planner that has died is in
nobody's way (docs/handoff.md, section 16).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from laneshift.errors import LaneshiftError
from laneshift.loop.island import Island, PartitionRef
from laneshift.loop.memories import Memories
from laneshift.loop.seen import Key
from laneshift.plugin.gateway import Gateway
from laneshift.scheduler.ids import KeyId, PartitionId
from laneshift.scheduler.plan import ALL_KEYS, KeySplit, Plan, ShardMove

GRACE_S = 5.0
"""A planner that is not heard of decides for so long beyond its turn (s, ours)."""

NAMED = 4
"""So many shards, or keys, a note names (ours)."""

Operator = tuple[str, str, int]
"""Id and run id of the query, and the operator."""


class KeyWishes:
    """Remembers which keys are split, and so of which operators work is to be apart.

    Args:
        gateway: the plugin.
        interval_s: time from one turn to the next (s).
        memories: where it remembers.
    """

    def __init__(self, gateway: Gateway, interval_s: float, memories: Memories) -> None:
        self._gateway = gateway
        self._lease_s = interval_s + GRACE_S
        self._split: Mapping[str, dict[Key, dict[KeyId, int]]] = memories.by_run(dict)
        self._claimed: Mapping[str, set[Operator]] = memories.by_run(set)

    def decide(self, plan: Plan, island: Island, *, sends: bool) -> tuple[str, ...]:
        """Notes on whose work ``plan`` has apart from now on, or no more, and on what cannot be."""
        held_back = "" if sends else " (not carried out)"
        notes: list[str] = []
        for name, splits in _by_partition(plan.key_splits).items():
            ref = island.partitions.get(name)
            if ref is None:
                continue
            wanted = [split for split in splits if split.ways > 1]
            if wanted and ref.above == "none":
                notes.append(_cannot(name, wanted))
                continue
            held = self._split[ref.run_id].setdefault(ref.key, {})
            was = bool(held)
            for split in splits:
                held.pop(split.key, None)
            held |= {split.key: split.ways for split in wanted}
            if wanted:
                notes.append(
                    f"{name}: {_keys(wanted)} in {max(s.ways for s in wanted)} parts{held_back}:"
                    " row-wise work above the state goes to any lane from the next batch on, that"
                    " of other keys too, and the state stays on its lane"
                )
            elif was and not held:
                notes.append(
                    f"{name}: no key is hotter than a lane any more: work comes back{held_back}"
                )
        return tuple(notes)

    def claim(self, island: Island) -> tuple[str, ...]:
        """Takes or renews the planner's say for the island's operators; notes on who refuses."""
        notes = []
        for operator, refs in _operators(island).items():
            query, run, number = operator
            split = any(keys for key, keys in self._split[run].items() if key[1] == number)
            apart = "" if refs[0].above == "none" else str(split).lower()
            try:
                self._gateway.claim_keys(query, number, apart, self._lease_s)
                self._claimed[run].add(operator)
            except LaneshiftError as problem:
                notes.append(f"where keys of operator {number} go is not ours to say: {problem}")
        return tuple(notes)

    def release(self) -> None:
        """Give up what was claimed: the plugin moves shards again, and decides what is apart."""
        for query, _, number in (each for mine in self._claimed.values() for each in mine):
            with suppress(LaneshiftError):  # the query has ended, and the claim with it
                self._gateway.claim_keys(query, number, "", 0.0)


def shuffles(plan: Plan, *, sends: bool) -> Iterator[str]:
    """Notes on the shards that a planner moves, and why."""
    reasons = dict(plan.reasons)
    moves: dict[PartitionId, list[ShardMove]] = {}
    for move in plan.shard_moves:
        moves.setdefault(move.target.partition, []).append(move)
    for name, mine in moves.items():
        named = ", ".join(f"{m.shard} to lane {m.target.lane}" for m in mine[:NAMED])
        more = f" and {len(mine) - NAMED} more" if len(mine) > NAMED else ""
        count = "1 shard moves" if len(mine) == 1 else f"{len(mine)} shards move"
        held = "" if sends else " (not carried out)"
        yield f"{name}: {count}{held}, {named}{more}: {reasons.get(name, 'as planned')}"


def _by_partition(splits: Sequence[KeySplit]) -> Mapping[PartitionId, list[KeySplit]]:
    found: dict[PartitionId, list[KeySplit]] = {}
    for split in splits:
        found.setdefault(split.partition, []).append(split)
    return found


def _operators(island: Island) -> dict[Operator, list[PartitionRef]]:
    """Those whose rows have keys."""
    found: dict[Operator, list[PartitionRef]] = {}
    for ref in island.partitions.values():
        if ref.keyed:
            found.setdefault((ref.query_id, ref.run_id, ref.operator_id), []).append(ref)
    return found


def _keys(splits: Sequence[KeySplit]) -> str:
    if any(split.key == ALL_KEYS for split in splits):
        return "all keys"
    named = ", ".join(f"#{split.key}" for split in splits[:NAMED])
    more = f" and {len(splits) - NAMED} more" if len(splits) > NAMED else ""
    return f"{'key' if len(splits) == 1 else 'keys'} {named}{more}"


def _cannot(name: PartitionId, splits: Sequence[KeySplit]) -> str:
    return (
        f"{name}: work of {_keys(splits)} cannot go to any lane: nothing that may be costly is"
        " above its state, a limit is, or spark.sql.laneshift.hotKeys.spread is 'false'; and a"
        " key's state is on one lane at a time: more fields in the key, or less work for each row,"
        " are the way out (docs/parallelism.md)"
    )
