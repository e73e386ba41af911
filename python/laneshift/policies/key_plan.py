"""A partitioner's plan as a running query can carry it out: whole shards, and work that is apart.

Inside an elastic partition a partitioner's key is a shard, and its target a lane. What a plan may
say beyond that, a key's state on several lanes and rows in several places, nobody can do while the
query runs (decision 20); so plans are read like this [D]:

- A shard that is cut to fit goes whole to where most of it goes, if the fullest lane gains by it.
- A shard that no lane can have stays, unless two are on one lane. If one key makes it so, that key
  is *split*: row-wise work above its state goes to any lane. Else the plan falls short, and says
  what helps.
- What is scattered or replicated for every row moves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from laneshift.contract.ids import KeyId, LaneId, LaneRef, ShardId
from laneshift.contract.partition_load import PartitionLoad
from laneshift.contract.plan import ALL_KEYS, Reason, ShardMove, Shortfall
from laneshift.contract.shard_table import ShardTable
from laneshift.errors import InputError
from laneshift.inputcheck import FloatArray, IntArray
from laneshift.partitioning.model import REL_EPS, Loads, MovePlan, Partitioner, Routing

WORTH = 0.01
"""The fullest lane must lose more than this share of the mean, or nothing moves (ours)."""

MAKES_IT_HOT = 0.5
"""A key with this share of a shard's load is what makes it hot (ours)."""


@dataclass(frozen=True)
class Found:
    """What a partitioner's plan means for one partition.

    Attributes:
        moves: shards to move.
        ways: keys whose work is to be apart, and over how many lanes (>= 2).
        shortfalls: what cannot be carried out, with the way out.
        words: why shards move; empty if none does.
    """

    moves: tuple[ShardMove, ...] = ()
    ways: Mapping[KeyId, int] = field(default_factory=dict)
    shortfalls: tuple[Shortfall, ...] = ()
    words: str = ""


@dataclass(frozen=True, eq=False)
class Held:
    """Shards on lanes, numbered as partitioners do: shards are keys 0 to z - 1, lanes are targets.

    Attributes:
        part, shards: the partition, and the shards of it.
        lanes: lane of each target, in ascending order.
        where: (z,) target that holds each shard.
        limit: load that a lane may have (cores).
    """

    part: PartitionLoad
    shards: ShardTable
    lanes: tuple[LaneId, ...]
    where: IntArray
    limit: float

    @classmethod
    def of(cls, part: PartitionLoad, tolerance: float) -> Held | None:
        """None if lanes or shards are not known, or nothing was to do."""
        shards = part.shards
        if shards is None or not part.lanes or shards.load_cores.sum() <= 0:
            return None
        lanes = tuple(sorted(lane.lane for lane in part.lanes))
        mean = float(shards.load_cores.sum()) / len(lanes)
        where = np.searchsorted(np.array(lanes), shards.lane).astype(np.int64)
        return cls(part, shards, lanes, where, (1.0 + tolerance) * mean)

    @property
    def mean(self) -> float:
        """Mean load of the lanes (cores)."""
        return float(self.shards.load_cores.sum()) / len(self.lanes)

    def on_lanes(self, where: IntArray) -> FloatArray:
        """(lanes,) load if the shards are there."""
        total = np.bincount(where, self.shards.load_cores, minlength=len(self.lanes))
        return total.astype(np.float64)

    def peak(self, where: IntArray) -> float:
        """Load of the fullest lane if the shards are there (cores)."""
        return float(self.on_lanes(where).max())

    @property
    def is_even(self) -> bool:
        """Whether no lane has more than it may."""
        return self.peak(self.where) <= self.limit * (1 + REL_EPS)

    @property
    def loads(self) -> Loads:
        """Of the shards; where state is not known by shard, the partition's evenly."""
        state = self.shards.state_bytes
        if not state.any():
            state = np.full(len(self.shards), self.part.state_bytes / len(self.shards))
        return Loads.of(self.shards.load_cores, state)

    @property
    def homes(self) -> IntArray:
        """(z,) base function: shards in turn on the lanes, as a partition begins."""
        homes: IntArray = self.shards.shard % len(self.lanes)
        return homes

    @property
    def routing(self) -> Routing:
        """Where the shards are, none of them split."""
        count = len(self.shards)
        return Routing(
            self.homes, np.arange(count), self.where, np.ones(count), np.ones(len(self.lanes), bool)
        )

    def hot_key(self, at: int) -> KeyId | None:
        """The key that makes the shard with the number ``at`` hot, if one does."""
        mine = [hot for hot in self.part.hot_keys if hot.shard == int(self.shards.shard[at])]
        hottest = max(mine, key=lambda hot: hot.load_cores, default=None)
        if hottest is None or hottest.load_cores < MAKES_IT_HOT * self.shards.load_cores[at]:
            return None
        return hottest.key

    def moved(self, goal: IntArray) -> tuple[ShardMove, ...]:
        """Moves that bring each shard to its target in ``goal``, (z,)."""
        name = self.part.partition
        return tuple(
            ShardMove(
                ShardId(int(self.shards.shard[at])),
                LaneRef(name, self.lanes[self.where[at]]),
                LaneRef(name, self.lanes[goal[at]]),
            )
            for at in np.flatnonzero(goal != self.where).tolist()
        )

    def short(self, reason: Reason, message: str) -> Shortfall:
        """What cannot be carried out here."""
        return Shortfall(reason, None, len(self.lanes), message)


def by_shards(partitioner: Partitioner, held: Held, tolerance: float) -> Found:
    """Of partitioners that move keys and cut them where they must."""
    plan = partitioner.plan(held.loads, held.routing, tolerance)
    load = held.shards.load_cores
    giant = load > held.limit * (1 + REL_EPS)
    most = _most(held, plan)
    # Two of them on one lane have to part; one alone would be moved for nothing.
    goal = min(np.where(giant, held.where, most), most, key=held.peak)
    if held.peak(held.where) - held.peak(goal) <= WORTH * held.mean:
        goal = held.where
    pieces = np.diff(plan.routing.start)
    ways: dict[KeyId, int] = {}
    short = []
    for at in np.flatnonzero(giant).tolist():
        key = held.hot_key(at)
        if pieces[at] < 2:
            short.append(held.short(Reason.HOT_KEY, _WHOLE.format(held.part.partition, plan)))
        elif key is None:
            short.append(held.short(Reason.HOT_KEY, _MANY.format(held.part.partition)))
        else:
            ways[key] = int(pieces[at])
    moves = held.moved(goal)
    there = held.on_lanes(held.where)
    fullest = int(there.argmax())
    words = f"lane {held.lanes[fullest]} has {there[fullest] / held.mean:.2f} times the mean load"
    return Found(moves, ways, tuple(dict.fromkeys(short)), words if moves else "")


def by_keys(partitioner: Partitioner, held: Held, tolerance: float) -> Found:
    """Of partitioners that move nothing: later rows of a key go to one of several targets."""
    plan = partitioner.plan(held.loads, held.routing, tolerance)
    pieces = np.diff(plan.routing.start)
    number = {int(shard): at for at, shard in enumerate(held.shards.shard)}
    ways = {
        hot.key: int(pieces[number[hot.shard]])
        for hot in held.part.hot_keys
        if hot.shard in number and pieces[number[hot.shard]] > 1
    }
    if ways:
        return Found(ways=ways)
    words = _NONE_HOT.format(plan.partitioner, held.part.partition)
    return Found(shortfalls=(held.short(Reason.HOT_KEY, words),))


def by_scheme(partitioner: Partitioner, held: Held, tolerance: float) -> Found:
    """Of join schemes, which know no keys: every row's work goes over the lanes that they use.

    How many rows each stream has is not measured: as many as the other.
    """
    name = held.part.partition
    if held.part.inputs < 2:
        words = _NO_JOIN.format(partitioner.name, held.part.operator)
        return Found(shortfalls=(held.short(Reason.UNFIT, words),))
    count = len(held.shards)
    loads = Loads.of(
        np.tile(held.shards.load_cores / 2, 2),
        side=np.repeat([0, 1], count),
        join_key=np.tile(held.shards.shard, 2),
    )
    routing = Routing.at_home(np.tile(held.homes, 2), len(held.lanes))
    try:
        plan = partitioner.plan(loads, routing, tolerance)
    except InputError as problem:
        words = f"{partitioner.name} needs {problem.expected} lanes, and {name} has {problem.found}"
        return Found(shortfalls=(held.short(Reason.UNFIT, words),))
    used = int(plan.notes["nodes_used"])
    return Found(ways={ALL_KEYS: used} if used > 1 else {})


def _most(held: Held, plan: MovePlan) -> IntArray:
    """(z,) the target with the most of each shard: where it is, if that has as much as any."""
    share = np.zeros((len(held.shards), len(held.lanes)))
    share[plan.routing.key, plan.routing.target] = plan.routing.share
    here = share[np.arange(len(held.shards)), held.where]
    stays = here >= share.max(axis=1) - REL_EPS
    goal: IntArray = np.where(stays, held.where, share.argmax(axis=1))
    return goal


_MANY = (
    "a shard of {0} is hotter than a lane may be, and no key that is known makes it so: raise"
    " spark.sql.laneshift.shardsPerPartition; if spark.sql.laneshift.hotKeys.show is 'none', keys"
    " are not counted"
)
_WHOLE = (
    "a shard of {0} is hotter than a lane may be, and {1.partitioner} keeps keys whole: take mnrt"
    " or qmmp, which split a hot key's work, or raise tolerance"
)
_NONE_HOT = (
    "{0} moves no shards, and no key of {1} is known to be hot: take mnrt, qmmp or readj, which"
    " move shards; if spark.sql.laneshift.hotKeys.show is 'none', keys are not counted"
)
_NO_JOIN = (
    "{0} is for joins, and rows of one stream come to operator {1}: take mnrt, qmmp, readj, pkg or"
    " w-choices"
)
