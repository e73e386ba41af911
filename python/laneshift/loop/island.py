"""Elastic partitions whose lanes are decided on together, and how commands name them.

A policy that places lanes sees all executors at once, as nodes of one cluster, if there is a
partition that may have lanes on others than its own. Else the cores of one executor are of no use
to a partition of another, and each executor is a cluster of one node (an island); lanes that
somebody has wanted elsewhere are then cores that a partition has beside those of its node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from laneshift.loop.lanes import Lanes
from laneshift.scheduler.cluster_load import ClusterLoad
from laneshift.scheduler.ids import PartitionId, SourceId


@dataclass(frozen=True, slots=True)
class PartitionRef:
    """What a command needs to name a partition, on which executor it is, and its lanes.

    ``auto``: they are left to the plugin; ``run_id`` is of the query's run; at most ``max_lanes``
    may be at home, and ``max_elsewhere`` on other executors; ``elsewhere_note`` says why one that
    was wanted there is not.
    ``keyed``: its rows have keys, and so shards; ``above``: where the row-wise work above its state
    is, as in a snapshot; ``acts_now``: other lanes begin within the batch, not with the next one.
    """

    query_id: str
    operator_id: int
    partition: int
    home: str
    lanes: Lanes
    auto: bool = False
    run_id: str = ""
    max_lanes: int = 2**31
    max_elsewhere: int = 0
    elsewhere_note: str | None = None
    keyed: bool = True
    above: str = "none"
    acts_now: bool = True

    @property
    def key(self) -> tuple[str, int, int]:
        """What tells it from all others."""
        return (self.run_id, self.operator_id, self.partition)


@dataclass(frozen=True, slots=True)
class Room:
    """What an executor has for lanes.

    Attributes:
        budget: lanes that there may be (count): one on each core that Spark runs nothing else on,
            and those that do not run when the others do.
        cores: cores that Spark leaves to lanes (count).
    """

    budget: int
    cores: int


@dataclass(frozen=True, slots=True)
class SourceRef:
    """What a command needs to name a query's source; ``query`` is how partitions name it.

    ``counted`` is False if it is not known how many rows the source gives.
    """

    query_id: str
    query: str
    counted: bool


@dataclass(frozen=True)
class Island:
    """Elastic partitions as a policy sees them.

    Attributes:
        executor: id of the one that they are on; empty if all executors are decided on together.
        rooms: what executors have for lanes, by their ids; those that leave have none.
        partitions: how to name them in commands.
        sources: how to name the sources of the cluster load that a command can reach.
        shares: rows that came to a partition per row that its query's sources gave, in the last
            minutes; only of partitions to which enough came.
        cluster load: the measurement, or None if no partition has been seen twice yet.
        most: cores that partitions may have, of those whose limit are the cores that there are.
        is_new: whether it says more than the one before; of micro-batches it does once a batch has
            ended.
        silent: executors that do not answer: nothing is asked of partitions there, nobody gets
            lanes there.
    """

    executor: str
    rooms: Mapping[str, Room]
    partitions: Mapping[PartitionId, PartitionRef]
    cluster: ClusterLoad | None
    sources: Mapping[SourceId, SourceRef] = field(default_factory=dict)
    shares: Mapping[PartitionId, float] = field(default_factory=dict)
    is_new: bool = True
    most: Mapping[PartitionId, int] = field(default_factory=dict)
    silent: frozenset[str] = frozenset()

    @property
    def spans(self) -> bool:
        """Whether the policy says on which executors lanes are."""
        return not self.executor

    def hears(self, name: PartitionId) -> bool:
        """Whether a partition's executor answers."""
        return self.partitions[name].home not in self.silent

    @property
    def lanes(self) -> dict[PartitionId, int]:
        """Lanes of each partition."""
        return {name: ref.lanes.total for name, ref in self.partitions.items()}

    @property
    def held(self) -> dict[PartitionId, tuple[str, Lanes]]:
        """The home of each partition, and its lanes as the policy sees them."""
        return {
            name: (ref.home, ref.lanes if self.spans else Lanes(ref.lanes.total))
            for name, ref in self.partitions.items()
        }

    @property
    def budgets(self) -> dict[str, int]:
        """Lanes that there may be on each executor."""
        return {executor: room.budget for executor, room in self.rooms.items()}

    @property
    def budget(self) -> int:
        """Lanes that there may be together."""
        return sum(self.budgets.values())
