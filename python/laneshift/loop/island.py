"""One executor's elastic partitions as a policy sees them, and how commands name them.

Lanes run in the process of their partition's own task, so a core of one executor is of no use to a
partition of another: each executor is a cluster of one node to a policy (an island).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from laneshift.scheduler.cluster_load import ClusterLoad
from laneshift.scheduler.ids import PartitionId, SourceId


@dataclass(frozen=True, slots=True)
class PartitionRef:
    """What a command needs to name a partition; ``lanes`` is how many it has.

    ``auto``: they are left to the plugin; ``run_id`` is of the query's run.
    """

    query_id: str
    operator_id: int
    partition: int
    lanes: int
    auto: bool = False
    run_id: str = ""


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
    """One executor's elastic partitions as a policy sees them.

    Attributes:
        executor: its id.
        budget: lanes that the partitions may have together (count): one on each core that Spark
            runs nothing else on, and those that do not run when the others do.
        cores: cores that Spark leaves to lanes here (count).
        partitions: how to name them in commands.
        sources: how to name the sources of the cluster load that a command can reach.
        shares: rows that came to a partition per row that its query's sources gave, since the query
            started; only of partitions to which enough came.
        cluster load: the measurement, or None if no partition has been seen twice yet.
        is_new: whether it says more than the one before; of micro-batches it does once a batch has
            ended.
    """

    executor: str
    budget: int
    cores: int
    partitions: Mapping[PartitionId, PartitionRef]
    cluster: ClusterLoad | None
    sources: Mapping[SourceId, SourceRef] = field(default_factory=dict)
    shares: Mapping[PartitionId, float] = field(default_factory=dict)
    is_new: bool = True

    @property
    def lanes(self) -> dict[PartitionId, int]:
        """Lanes of each partition."""
        return {name: ref.lanes for name, ref in self.partitions.items()}
