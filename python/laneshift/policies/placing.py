"""From core counts to a placement: Algorithm 1, then the return of surplus cores."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from laneshift.contract.ids import PartitionId
from laneshift.contract.plan import Plan, Reason, Shortfall, Throttle
from laneshift.inputcheck import IntArray
from laneshift.models.assignment import PHI_0, moved_bytes, schedule
from laneshift.models.improve import improve
from laneshift.policies.view import View

__all__ = ["Placer", "cut_to_budget", "over_budget", "release_surplus"]


@dataclass(frozen=True, kw_only=True)
class Placer:
    """How targets become a plan.

    Attributes:
        phi_0: data-intensity threshold to start from (bytes/s per core, > 0) [S: 512 KB/s].
        costs: False ignores state size and data intensity (naive-EC [S, XP]).
        release: give back cores above the targets that nobody claimed. The paper's algorithm
            never trims; whether to is unspecified [D].
        payback_s: if given, exchange cores as `laneshift.models.improve` does (s, >= 0) [D].
        most_swaps: exchanges at most.
    """

    phi_0: float = PHI_0
    costs: bool = True
    release: bool = True
    payback_s: float | None = None
    most_swaps: int = 16

    def plan(
        self,
        view: View,
        targets: IntArray,
        *,
        throttles: tuple[Throttle, ...] = (),
        shortfalls: tuple[Shortfall, ...] = (),
        notes: tuple[tuple[str, float], ...] = (),
    ) -> Plan:
        """Plan that brings every partition to ``targets``, int (m,), each >= 1.

        Targets above the cluster's cores are cut in proportion and reported as a shortfall.
        """
        wanted, available = int(targets.sum()), int(view.node_cores.sum())
        if wanted > available:
            shortfalls = (*shortfalls, over_budget(wanted, available))
            targets = cut_to_budget(targets, available)
        targets, crowded = _fit_homes(view, targets)
        shortfalls = (*shortfalls, *crowded)
        demand = view.demand(targets, costs=self.costs)
        found = schedule(demand, self.phi_0)
        if not found.feasible:
            missing = Shortfall(
                Reason.PLACEMENT,
                int(targets.sum()),
                available,
                f"no placement of {int(targets.sum())} cores on {available}: add nodes",
                "placement",
            )
            return Plan(throttles=throttles, shortfalls=(*shortfalls, missing), notes=notes)
        placement = found.placement
        if self.release:
            placement = release_surplus(placement, targets, view, self.costs)
        if self.payback_s is not None:
            placement = improve(demand, placement, self.payback_s, self.most_swaps)
        counts, cells = view.changes(placement)
        moved = moved_bytes(view.placement, placement, view.state_bytes)
        return Plan(
            core_changes=counts,
            placement_changes=cells,
            throttles=throttles,
            shortfalls=shortfalls,
            notes=(*notes, ("data_intensity_threshold", found.phi), ("migration_bytes", moved)),
            reasons=() if self.payback_s is not None else self._reasons(view, placement, found.phi),
        )

    def _reasons(
        self, view: View, after: IntArray, phi: float
    ) -> tuple[tuple[PartitionId, str], ...]:
        """Why partitions that keep a core at home have others elsewhere, in words."""
        words = []
        for j, part in enumerate(view.cluster.partitions):
            home = int(view.homes[j])
            if not view.kept[j] or int(after[j].sum()) == int(after[j, home]):
                continue
            why = f"executor {part.home} has {cores_of(int(view.node_cores[home]))}"
            if self.costs:
                why += (
                    f", and {view.data_intensity[j]:,.0f} bytes/s per core do not exceed the"
                    f" {phi:,.0f} that keep a partition there"
                )
            words.append((part.partition, why))
        return tuple(words)


def cores_of(count: int) -> str:
    """So many cores, in words."""
    return "1 core" if count == 1 else f"{count} cores"


def release_surplus(placement: IntArray, targets: IntArray, view: View, costs: bool) -> IntArray:
    """Take surplus cores one by one, cheapest C- first, remote before home on ties [D].

    C- = s (X - x_i) / (X (X - 1)) is least where the partition holds most cores; without costs all
    nodes tie. What a partition keeps at home it keeps for its state: nothing moves if the others
    go, and those elsewhere go first.
    """
    out = placement.copy()
    for j in np.flatnonzero(out.sum(axis=1) > targets).tolist():
        home, kept = int(view.homes[j]), int(view.kept[j])
        weighs = costs and view.state_bytes[j] > 0 and kept == 0
        held = {i: int(out[j, i]) for i in np.flatnonzero(out[j]).tolist()}
        for _ in range(sum(held.values()) - int(targets[j])):
            most = max(held.values()) if weighs else 0
            spare = [(x < most, i == home, i) for i, x in held.items() if x > kept * (i == home)]
            held[min(spare)[2]] -= 1
        for i, x in held.items():
            out[j, i] = x
    return out


def _fit_homes(view: View, targets: IntArray) -> tuple[IntArray, tuple[Shortfall, ...]]:
    """Counts of partitions that stay home, cut to what their nodes have; what was cut."""
    fitting, crowded = targets.copy(), []
    for i, node in enumerate(view.cluster.nodes):
        here = view.homes == i
        staying = np.flatnonzero(here & view.bound)
        room = int(view.node_cores[i]) - int(view.kept[here & ~view.bound].sum())
        wanted = int(targets[staying].sum())
        if staying.size and wanted > room:
            fitting[staying] = cut_to_budget(targets[staying], room)
            message = (
                f"{wanted} cores wanted on {node.node} by partitions that stay there, {room}"
                " available: counts were cut in proportion"
            )
            crowded.append(Shortfall(Reason.BUDGET, wanted, room, message, f"on {node.node}"))
    return fitting, tuple(crowded)


def cut_to_budget(targets: IntArray, budget: int) -> IntArray:
    """Cut counts in proportion to ``budget`` cores, each keeps at least one [D].

    Cores go one by one to the partition with the highest targets_j / granted_j.
    """
    granted = np.ones(len(targets), dtype=np.int64)
    heap = [(-float(t), j) for j, t in enumerate(targets) if t > 1]
    heapq.heapify(heap)
    for _ in range(budget - len(targets)):
        if not heap:
            break
        _, j = heapq.heappop(heap)
        granted[j] += 1
        if granted[j] < targets[j]:
            heapq.heappush(heap, (-float(targets[j]) / int(granted[j]), j))
    return granted


def over_budget(wanted: int, available: int) -> Shortfall:
    """The shortfall of counts that do not fit the cluster."""
    return Shortfall(
        Reason.BUDGET,
        wanted,
        available,
        f"{wanted} cores wanted, {available} available: counts were cut in proportion; add nodes",
        "cut",
    )
