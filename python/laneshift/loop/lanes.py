"""How a partition's lanes are spread over executors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from laneshift.plugin.partition import PartitionSnapshot
from laneshift.scheduler.ids import NodeId
from laneshift.scheduler.measured import changed
from laneshift.scheduler.partition_load import NodeCores, PartitionLoad


@dataclass(frozen=True, slots=True)
class Lanes:
    """Lanes at home (>= 1), and on other executors by their ids (each >= 1).

    >>> str(Lanes(2, {"3": 1, "2": 4}))
    '7 lanes, 4 on executor 2, 1 on executor 3'
    """

    home: int
    elsewhere: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, part: PartitionSnapshot) -> Lanes:
        """What a partition has at home and is to have elsewhere: sessions that open now count."""
        return cls(max(1, part.home_lanes), dict(part.wanted_elsewhere))

    @property
    def total(self) -> int:
        """All of them."""
        return self.home + sum(self.elsewhere.values())

    def on(self, executor: str, home: str) -> int:
        """Those on one executor, where the partition's own is ``home``."""
        return self.home if executor == home else self.elsewhere.get(executor, 0)

    @property
    def words(self) -> str:
        """Those elsewhere; empty if there are none."""
        return ", ".join(f"{n} on executor {e}" for e, n in sorted(self.elsewhere.items()))

    def __str__(self) -> str:
        return f"{self.total} lanes" + (f", {self.words}" if self.elsewhere else "")


def placed(part: PartitionLoad, placement: tuple[NodeCores, ...]) -> PartitionLoad:
    """``part`` with its cores there; of single lanes nothing is known if they were elsewhere."""
    if {c.node: c.cores for c in part.placement} == {c.node: c.cores for c in placement}:
        return part
    return changed(part, placement=placement, lanes=(), shards=None)


def placement(lanes: Lanes, home: str) -> tuple[NodeCores, ...]:
    """The cores that they hold, home first."""
    there = (NodeCores(NodeId(e), n) for e, n in lanes.elsewhere.items())
    return (NodeCores(NodeId(home), lanes.home), *there)
