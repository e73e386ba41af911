"""What a policy would do with more executors, or with fewer: it is asked, and its answer not used.

A policy is a pure function of what was measured and of its own state, so that it can be asked
about a cluster that is not there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from laneshift.loop.demand import Need
from laneshift.loop.lanes import placed
from laneshift.scheduler.cluster_load import ClusterLoad, Node
from laneshift.scheduler.ids import NodeId, PartitionId
from laneshift.scheduler.partition_load import NodeCores, PartitionLoad
from laneshift.scheduler.plan import Plan, Reason
from laneshift.scheduler.policies.base import Policy


def need_of(
    policy: Policy[Any],
    state: Any,
    cluster: ClusterLoad,
    plan: Plan,
    *,
    more: int,
    cores: int,
    candidates: Sequence[str],
    most: Mapping[PartitionId, int],
) -> Need:
    """What ``policy``, which has answered ``plan`` from ``state``, would do otherwise.

    Args:
        more: executors that may be asked for (count, >= 0), of so many ``cores`` (>= 1) each.
        candidates: executors that may be given back, those first that are needed least.
        most: cores that partitions may have where the cluster's own are the limit.
    """
    now = _cores_after(plan, cluster)
    given = sum(now.values())
    if more:
        there = policy.answer(_with_more(cluster, more, cores, most), state)[0]
        # One that found no placement says nothing of counts.
        found = there.core_changes or all(s.reason != Reason.PLACEMENT for s in there.shortfalls)
        then = _cores_after(there, cluster) if found else now
        short = sum(then.values()) - given
        if short > 0:
            return Need(short, cores, words=_words(now, then, short))
    spare: list[str] = []
    for executor in candidates:
        less = _without(cluster, {*spare, executor})
        if less is None or less.total_cores < given:
            break
        if sum(_cores_after(policy.answer(less, state)[0], less).values()) < given:
            break
        spare.append(executor)
    return Need(0, cores, tuple(spare))


def _cores_after(plan: Plan, cluster: ClusterLoad) -> dict[PartitionId, int]:
    """Cores of each partition once ``plan`` is carried out."""
    cores = {part.partition: part.cores for part in cluster.partitions}
    return cores | {change.partition: change.after for change in plan.core_changes}


def _with_more(
    cluster: ClusterLoad, more: int, cores: int, most: Mapping[PartitionId, int]
) -> ClusterLoad:
    nodes = tuple(Node(NodeId(f"more {i}"), cores) for i in range(1, more + 1))
    whole = sum(node.cores for node in cluster.nodes) + more * cores

    def freed(part: PartitionLoad) -> PartitionLoad:
        limit = most.get(part.partition)
        if limit is None or part.max_cores is None or part.stays_home:
            return part
        return replace(part, max_cores=max(part.max_cores, min(limit, whole)))

    return replace(
        cluster, nodes=cluster.nodes + nodes, partitions=tuple(map(freed, cluster.partitions))
    )


def _without(cluster: ClusterLoad, gone: Collection[str]) -> ClusterLoad | None:
    """``cluster`` once these nodes have gone. Partitions whose home is there have one where cores
    are free, as many on it as they keep at home; None if there are too few for that.
    """
    nodes = tuple(node for node in cluster.nodes if node.node not in gone)
    free = {node.node: node.cores for node in nodes}
    for part in cluster.partitions:
        for held in part.placement:
            if held.node in free:
                free[held.node] -= held.cores
    parts = []
    for part in cluster.partitions:
        left = tuple(held for held in part.placement if held.node not in gone)
        if part.home not in gone:
            parts.append(placed(part, left))
            continue
        # All of its cores if it stays home; those that it has on a node already are there for it.
        need = part.cores if part.stays_home else max(1, part.kept_at_home)
        there = {held.node: held.cores for held in left}
        room = {node: there.get(node, 0) + n for node, n in free.items()}
        home = max(room, key=lambda n: (room[n] >= need, there.get(n, 0), room[n]), default=None)
        if home is None or room[home] < need:
            return None
        here = max(need, there.pop(home, 0))
        free[home] = room[home] - here
        spread = (NodeCores(home, here), *(NodeCores(node, n) for node, n in there.items()))
        parts.append(replace(part, home=home, placement=spread, lanes=(), shards=None))
    return replace(cluster, nodes=nodes, partitions=tuple(parts))


def _words(now: Mapping[PartitionId, int], then: Mapping[PartitionId, int], short: int) -> str:
    """Which partitions would have more cores; of many, those that would have most more."""
    more = sorted((then[p] - n, p) for p, n in now.items() if then[p] > n)[::-1]
    named = [f"{p} {then[p]} lanes instead of {now[p]}" for _, p in more[:3]]
    others = len(more) - len(named)
    there = ", ".join(named) + (f" and {others} others more" if others else "")
    cores = "1 core" if short == 1 else f"{short} cores"
    return f"with enough of them lanes would get {cores} more: {there}"
