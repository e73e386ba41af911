"""Short turns of the loop, between two of its period: how many, and what they may do.

Taken for partitions that have become pressed (docs/decisions/0022), by the loop that drives running
queries and by the simulator's.
"""

from __future__ import annotations

from dataclasses import dataclass

from laneshift.scheduler.cluster_load import ClusterLoad
from laneshift.scheduler.ids import NodeId, PartitionId
from laneshift.scheduler.plan import CoreChange, PlacementChange, Plan

SHORT_S = 0.1
"""From one short turn to the next (s, ours): new lanes work within tens of milliseconds, and what
has waited for them comes into their queues at once."""

MOST_SHORT = 5
"""So many short turns there are at most for one press (ours)."""

DEAF_S = 1.0
"""So long after the last of them no press is heard, or until the next turn of the period (s, ours).
Partitions that are pressed again and again cannot keep the loop busy so; and a press by chance does
not leave the next burst to that turn, however far it is."""

FRUITLESS = 2
"""So many in a row that add nothing are the last ones (ours): what the one before has added may
not be there yet."""


@dataclass(slots=True)
class ShortTurns:
    """Those for one press."""

    taken: int = 0
    fruitless: int = 0

    def goes_on(self, added: bool) -> bool:
        """Whether another one follows one that has or has not ``added`` cores."""
        self.taken += 1
        self.fruitless = 0 if added else self.fruitless + 1
        return self.taken < MOST_SHORT and self.fruitless < FRUITLESS


def additions(plan: Plan, cluster: ClusterLoad) -> Plan:
    """Of ``plan`` only cores that come, as far as they are free while nobody gives one away."""
    free = {node.node: node.cores for node in cluster.nodes}
    for part in cluster.partitions:
        for cell in part.placement:
            free[cell.node] -= cell.cores
    cells: list[PlacementChange] = []
    more: dict[PartitionId, int] = {}
    for change in plan.placement_changes:
        n = min(change.after - change.before, max(0, free[NodeId(change.node)]))
        if n > 0:
            free[change.node] -= n
            more[change.partition] = more.get(change.partition, 0) + n
            cells.append(
                PlacementChange(change.partition, change.node, change.before, change.before + n)
            )
    held = {part.partition: part.cores for part in cluster.partitions}
    counts = tuple(CoreChange(name, held[name], held[name] + n) for name, n in more.items())
    return Plan(core_changes=counts, placement_changes=tuple(cells))
