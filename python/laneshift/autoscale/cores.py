"""Lanes of partitions, and the cores that executors have for them.

A policy that places lanes sees all executors at once, as nodes of one cluster, if there is a
partition that may have lanes on others than its own. Else the cores of one executor are of no use
to a partition of another, and each executor is a cluster of one node (an island); lanes that
somebody has wanted elsewhere are then cores that a partition has beside those of its node.

What runs counts, not what is there [D]: of 200 partitions of a micro-batch on 4 cores, 4 run at a
time. Spark runs as many tasks of a stage at a time as it has cores, those that are done leave
theirs to the ones that are not, and the stages of a query run one after the other.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from laneshift.autoscale.pictures import Lanes, Seen
from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.ids import NodeId, PartitionId, SourceId
from laneshift.contract.measured import changed
from laneshift.contract.partition_load import NodeCores, PartitionLoad
from laneshift.plugin.snapshot import ExecutorSnapshot, Mode, QuerySnapshot


def placed(part: PartitionLoad, placement: tuple[NodeCores, ...]) -> PartitionLoad:
    """``part`` with its cores there; of single lanes nothing is known if they were elsewhere."""
    if {c.node: c.cores for c in part.placement} == {c.node: c.cores for c in placement}:
        return part
    return changed(part, placement=placement, lanes=(), shards=None)


def placement(lanes: Lanes, home: str) -> tuple[NodeCores, ...]:
    """The cores that they hold, home first."""
    there = (NodeCores(NodeId(e), n) for e, n in lanes.elsewhere.items())
    return (NodeCores(NodeId(home), lanes.home), *there)


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


@dataclass(frozen=True)
class Island:
    """Elastic partitions as a policy sees them.

    Attributes:
        executor: id of the one that they are on; empty if all executors are decided on together.
        rooms: what executors have for lanes, by their ids; those that leave have none.
        partitions: as they were seen, by the name that policies have for them.
        sources: queries whose sources a command can reach, by the source's name in the load.
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
    partitions: Mapping[PartitionId, Seen]
    cluster: ClusterLoad | None
    sources: Mapping[SourceId, QuerySnapshot] = field(default_factory=dict)
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

    def forget_all_but(self, executors: Collection[str]) -> None:
        """All others have gone."""
        for gone in self._others.keys() - set(executors):
            del self._others[gone]

    def of(
        self, executor: ExecutorSnapshot, now_ms: int, here: Sequence[Seen], beside: Sequence[Seen]
    ) -> int:
        """Cores without other tasks; each partition's own task is there for its first lane.

        ``here`` are the executor's elastic partitions that lanes are shared out to, ``beside``
        those that somebody else drives: each of their lanes has a core, the first one its task's.
        The most of other tasks in a while count: at the end of a batch its source's tasks are gone,
        and back with the next one.
        """
        running = sum(s.part.running for s in here)
        lanes = sum(max(0, s.lanes.home - 1) for s in beside if s.part.running)
        others = self._others.setdefault(executor.executor, deque())
        whole = all(s.part.running for s in here if s.query.mode is Mode.REAL_TIME)
        if (running or not here) and (whole or not others or others[-1][0] < now_ms - OTHERS_MS):
            # Between batches Spark's tasks are of other stages, and those of partitions that begin
            # are not known as theirs yet: no time to judge by. Who has none has only others' tasks.
            others.append((now_ms, max(0, executor.active_tasks - running) + lanes))
        while len(others) > 1 and others[0][0] < now_ms - OTHERS_MS:
            others.popleft()
        budget = executor.cores - max((count for _, count in others), default=0)
        return budget if self._cores is None else min(budget, self._cores)


def idle_lanes(here: Sequence[Seen], measured: Sequence[PartitionLoad], cores: int) -> int:
    """Lanes of micro-batch partitions that take no core from others (count)."""
    loads = {part.partition: part for part in measured}
    queries: dict[str, dict[int, list[PartitionLoad | None]]] = {}
    for seen in here:
        if seen.query.mode is Mode.MICRO_BATCH:
            stages = queries.setdefault(seen.query.run_id, {})
            stages.setdefault(seen.operator.operator_id, []).append(loads.get(seen.name))
    return sum(lanes_not_running(list(stages.values()), cores) for stages in queries.values())


def lanes_not_running(stages: Sequence[Sequence[PartitionLoad | None]], cores: int) -> int:
    """Lanes of a query that may be there beyond one for each core (count).

    A stage with at least as many tasks as cores may have ``cores - 1`` lanes more than tasks; one
    with fewer tasks as many more than cores as its tasks wait for the longest of them.

    Args:
        stages: of each operator of the query the partitions on one executor; None for those of
            which nothing is known yet.
        cores: cores of the executor that lanes may use (>= 1).
    """
    largest = max(map(len, stages))
    others = sum(map(len, stages)) - largest
    return others + max(_not_running(stage, cores) for stage in stages if len(stage) == largest)


def _not_running(stage: Sequence[PartitionLoad | None], cores: int) -> int:
    if len(stage) >= cores:
        return len(stage) - 1
    known = [part for part in stage if part is not None]
    spans = [p.batch.work_s / max(1, p.cores) for p in known if p.batch is not None]
    longest = max(spans, default=0.0)
    if longest <= 0.0:
        return 0
    return min(len(stage) - 1, math.floor(sum(1.0 - span / longest for span in spans)))


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


def fitting(
    held: Mapping[PartitionId, tuple[str, Lanes]], budgets: Mapping[str, int]
) -> dict[PartitionId, Lanes]:
    """What partitions hold, each with its home, cut to the ``budgets`` of executors.

    Lanes of other executors' partitions go first, those of who has most there before others; on
    executors without a budget there are none.

    >>> p = {PartitionId("q:0.0"): ("1", Lanes(2, {"2": 4})), PartitionId("q:0.1"): ("2", Lanes(3))}
    >>> [str(lanes) for lanes in fitting(p, {"1": 4, "2": 5}).values()]
    ['4 lanes, 2 on executor 2', '3 lanes']
    >>> [str(lanes) for lanes in fitting(p, {"1": 4, "2": 2}).values()]
    ['2 lanes', '2 lanes']
    """
    home: dict[PartitionId, int] = {}
    there: dict[PartitionId, dict[str, int]] = {name: {} for name in held}
    for executor, budget in budgets.items():
        own = {name: lanes.home for name, (at, lanes) in held.items() if at == executor}
        home |= within_budget(own, max(budget, len(own)))
        left = {
            name: n for name, (_, lanes) in held.items() if (n := lanes.elsewhere.get(executor, 0))
        }
        while sum(left.values()) > max(0, budget - sum(own.values())):
            most = max(left, key=lambda name: (left[name], name))
            left[most] -= 1
        for name, n in left.items():
            if n:
                there[name][executor] = n
    return {
        name: Lanes(home.get(name, lanes.home), there[name]) for name, (_, lanes) in held.items()
    }


def held(
    cluster: ClusterLoad, lanes: Mapping[PartitionId, tuple[str, Lanes]], budgets: Mapping[str, int]
) -> ClusterLoad:
    """``cluster`` once its partitions have these lanes, each with its home, within ``budgets``.

    What is known of single lanes is left out where there are others.
    """
    parts = tuple(
        placed(part, placement(lanes[part.partition][1], lanes[part.partition][0]))
        for part in cluster.partitions
    )
    measured = {part.partition for part in parts}
    nodes = []
    for node in cluster.nodes:
        others = sum(
            spread.on(node.node, home)
            for name, (home, spread) in lanes.items()
            if name not in measured
        )
        mine = sum(part.cores_on(node.node) for part in parts)
        nodes.append(replace(node, cores=max(budgets[node.node] - others, mine)))
    return replace(cluster, nodes=tuple(nodes), partitions=parts)
