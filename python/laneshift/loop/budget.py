"""The cores that Spark leaves to lanes on an executor, and lanes that keep within them.

What runs counts, not what is there: of 200 partitions of a micro-batch on 4 cores, 4 run at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

from laneshift.loop.rests import with_cores
from laneshift.loop.seen import Seen
from laneshift.plugin.snapshot import ExecutorSnapshot
from laneshift.scheduler.batch_budget import lanes_not_running
from laneshift.scheduler.cluster_load import ClusterLoad
from laneshift.scheduler.ids import PartitionId
from laneshift.scheduler.partition_load import PartitionLoad

OTHERS_MS = 10_000
"""For so long a core that another task was seen on counts as taken (ours)."""


class Budget:
    """Remembers the tasks that ran beside lanes lately.

    Args:
        cores: most cores of an executor that lanes may use, None for all of them.
    """

    def __init__(self, cores: int | None = None) -> None:
        self._cores = cores
        self._others: dict[str, deque[tuple[int, int]]] = {}

    def of(self, executor: ExecutorSnapshot, now_ms: int, here: Sequence[Seen]) -> int:
        """Cores without other tasks; each partition's own task is there for its first lane.

        ``here`` are all elastic partitions of the executor. The most of other tasks in a while
        count: at the end of a batch its source's tasks are gone, and back with the next one.
        """
        running = sum(s.part.running for s in here)
        others = self._others.setdefault(executor.executor, deque())
        whole = all(s.part.running for s in here if s.query.mode == "real-time")
        if running and (whole or not others or others[-1][0] < now_ms - OTHERS_MS):
            # Between batches Spark's tasks are of other stages, and those of partitions that begin
            # are not known as theirs yet: no time to judge by.
            others.append((now_ms, max(0, executor.active_tasks - running)))
        while len(others) > 1 and others[0][0] < now_ms - OTHERS_MS:
            others.popleft()
        budget = executor.cores - max((count for _, count in others), default=0)
        return budget if self._cores is None else min(budget, self._cores)


def idle_lanes(here: Sequence[Seen], measured: Sequence[PartitionLoad], cores: int) -> int:
    """Lanes of micro-batch partitions that take no core from others (count)."""
    loads = {part.partition: part for part in measured}
    queries: dict[str, dict[int, list[PartitionLoad | None]]] = {}
    for seen in here:
        if seen.query.mode == "micro-batch":
            stages = queries.setdefault(seen.query.run_id, {})
            stages.setdefault(seen.operator.operator_id, []).append(loads.get(seen.name))
    return sum(lanes_not_running(list(stages.values()), cores) for stages in queries.values())


def within_budget(lanes: Mapping[PartitionId, int], budget: int) -> dict[PartitionId, int]:
    """Lanes (each >= 1) cut to ``budget`` cores in all, one by one from who has most.

    ``budget`` is at least the number of partitions. Ties go to the partition named last.

    >>> within_budget({PartitionId("q:0.0"): 5, PartitionId("q:0.1"): 2}, budget=5)
    {'q:0.0': 3, 'q:0.1': 2}
    >>> within_budget({PartitionId("q:0.0"): 2}, budget=5)
    {'q:0.0': 2}
    """
    cut = dict(lanes)
    while sum(cut.values()) > budget:
        most = max(cut, key=lambda name: (cut[name], name))
        cut[most] -= 1
    return cut


def held(cluster: ClusterLoad, lanes: Mapping[PartitionId, int], budget: int) -> ClusterLoad:
    """``cluster`` once its partitions have ``lanes`` lanes, on a node of ``budget`` cores.

    What is known of single lanes is left out where their number differs.
    """
    parts = tuple(with_cores(part, lanes[part.partition]) for part in cluster.partitions)
    others = sum(n for name, n in lanes.items() if all(p.partition != name for p in parts))
    node = replace(cluster.nodes[0], cores=budget - others)
    return replace(cluster, nodes=(node,), partitions=parts)
