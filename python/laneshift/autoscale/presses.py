"""Partitions that become pressed, and the short turns of the loop that are taken for them between
two of its period (docs/decisions/0022): how many, and how far apart.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from laneshift.autoscale.cores import within_budget
from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.ids import PartitionId
from laneshift.contract.plan import CoreChange, PlacementChange, Plan
from laneshift.errors import LaneshiftError
from laneshift.plugin.gateway import Gateway
from laneshift.plugin.press import Press

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


def only_more(plan: Plan, cluster: ClusterLoad) -> Plan:
    """Of ``plan``, made for ``cluster``, only cores that come, as far as they are free while nobody
    gives one away: what does not fit is cut, one by one from who was to get most.
    """
    parts = {part.partition: part for part in cluster.partitions}
    wished: dict[str, dict[PartitionId, int]] = {node.node: {} for node in cluster.nodes}
    for cell in plan.placement_changes:
        wished[cell.node][cell.partition] = cell.after - cell.before
    placed = {cell.partition for cell in plan.placement_changes}
    for change in plan.core_changes:
        if change.partition not in placed:
            home = parts[change.partition].home
            wished[home][change.partition] = change.after - change.before
    cells: list[PlacementChange] = []
    cores: dict[PartitionId, int] = {}
    for node in cluster.nodes:
        more = {name: n for name, n in wished[node.node].items() if n > 0}
        free = node.cores - sum(part.cores_on(node.node) for part in cluster.partitions)
        for name, n in within_budget(more, max(0, free)).items():
            if n > 0:
                held = parts[name].cores_on(node.node)
                cells.append(PlacementChange(name, node.node, held, held + n))
                cores[name] = cores.get(name, parts[name].cores) + n
    return Plan(
        core_changes=tuple(CoreChange(p, parts[p].cores, n) for p, n in cores.items()),
        placement_changes=tuple(cells),
        reasons=plan.reasons,
    )


class Presses:
    """Of one loop. ``only``: run id of the only query that is looked at, empty for all."""

    def __init__(self, gateway: Gateway, autoscaler: str) -> None:
        self._gateway = gateway
        self._autoscaler = autoscaler
        self.only = ""
        self._known = 0

    def wait(self, seconds: float) -> tuple[Press, ...]:
        """Those of partitions that become pressed; empty after ``seconds``, or once it is ended.

        Errors: what the gateway raises.
        """
        self._known, presses = self._gateway.await_pressed(
            self._autoscaler, self.only, self._known, seconds
        )
        return presses

    def end(self) -> None:
        """Let another thread that waits go on at once."""
        with suppress(LaneshiftError):  # the session may have gone
            self._gateway.await_pressed(self._autoscaler, self.only, self._known, 0.0)


def rest(presses: Presses, wait: Callable[[], object], seconds: float) -> tuple[Press, ...]:
    """Wait so long (s), or for a press; after an error by ``wait``, for the next turn tells it."""
    try:
        return presses.wait(seconds)
    except LaneshiftError:
        wait()
        return ()
