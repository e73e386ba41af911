"""Policy ``resource-centric``: executors come and go, keys are repartitioned operator-wide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.ids import LaneId, LaneRef, NodeId, OperatorId, ShardId
from laneshift.contract.partition_load import PartitionLoad
from laneshift.contract.plan import MoveScope, Plan, ShardMove
from laneshift.inputcheck import IntArray, number
from laneshift.models.allocation import Allocation, Network, allocate_shared
from laneshift.partitioning.balance_core import balance_batch
from laneshift.partitioning.balancer import drain
from laneshift.policies.coupling import hidden_growth
from laneshift.policies.elasticutor import latency_target, mean_latency, shortfalls_of
from laneshift.policies.lanes import with_lanes
from laneshift.policies.release import RELEASE_AFTER_S, Surplus, hold_back, patience_s
from laneshift.policies.rescaling import RescalingPolicy
from laneshift.policies.view import View


@dataclass(frozen=True)
class ResourceCentricState:
    """Memory of the policy.

    Attributes:
        repartitioned_s: when each operator was last repartitioned (s, cluster load time).
        surplus: of operators that hold more than they need.
    """

    repartitioned_s: Mapping[OperatorId, float] = field(default_factory=dict)
    surplus: Mapping[OperatorId, Surplus] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ResourceCentric(RescalingPolicy[ResourceCentricState]):
    """The RC baseline of Elasticutor: same model, same balancing, other paradigm [S].

    A lane is an executor here, bound 1:1 to a core; keys belong to the operator, so a shard may go
    from any lane of the operator to any other. Every move is `MoveScope.OPERATOR`: all upstreams
    stop until it is done. New executors go to the node with most free cores; the partition they
    join is one without cores if there is any, then one at home on that node [D]. The least
    loaded executors are deleted first [D].

    The rates of a window in which a repartitioning stopped the upstreams say nothing about the
    load, neither while rows are held back nor when they come all at once: the number of executors
    stays as it is, only their balance is looked at [D].

    Without lanes and shards in the cluster load the answer has core counts only.

    Attributes:
        target_s: as in `elasticutor` (s, > 0), default 0.1 [D].
        release_surplus: delete executors that nobody else claims [D].
        release_after_s: as in `elasticutor` (s, >= 0) [D].
        saturated_growth: as in `elasticutor` (>= 1) [D].
        imbalance: repartition when the most loaded executor of an operator has more than this
            times the mean load (> 1). 1.2 [XK], the value that Elasticutor is recalled to use.
        cooldown_s: least time between two repartitionings of an operator (s, >= 0). 0: as often as
            needed; the seed's verdict is that RC fits only about every 300 s [S].
    """

    name: ClassVar[str] = "resource-centric"
    summary: ClassVar[str] = "executors created and deleted, operator-wide repartitioning"
    source: ClassVar[str] = "Elasticutor, 2019: its baseline RC"
    places: ClassVar[bool] = True

    target_s: float = 0.1
    release_surplus: bool = True
    release_after_s: float = RELEASE_AFTER_S
    saturated_growth: float = 2.0
    imbalance: float = 1.2
    cooldown_s: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        number("target_s", self.target_s, low=0, low_open=True, unit="s")
        number("release_after_s", self.release_after_s, low=0, unit="s")
        number("saturated_growth", self.saturated_growth, low=1)
        number("imbalance", self.imbalance, low=1, low_open=True)
        number("cooldown_s", self.cooldown_s, low=0, unit="s")

    def start(self) -> ResourceCentricState:
        """Nothing repartitioned yet."""
        return ResourceCentricState()

    def answer(
        self, cluster: ClusterLoad, state: ResourceCentricState
    ) -> tuple[Plan, ResourceCentricState]:
        """As `Policy.answer`; with ``rescale`` queries whose stores are known are repartitioned by
        a rescale, and their lanes left alone.
        """
        if not self.rescale or not cluster.stores:
            return super().answer(cluster, state)
        wanted = self._executors(self.see(cluster))
        found = [
            self.rescaled(load, max((wanted.get(o, 1) for o in load.operators), default=1))
            for load in cluster.stores
        ]
        plan = Plan(rescales=tuple(change for change in found if change is not None))
        others = cluster.without({load.query for load in cluster.stores})
        if others.partitions:
            lanes, state = self.decide(self.see(others), state)
            plan = replace(lanes, rescales=plan.rescales)
        return self.with_tasks(plan, cluster), state

    def _executors(self, cluster: ClusterLoad) -> dict[OperatorId, int]:
        """Executors that each operator of ``cluster`` is to have, if its keys are its own."""
        groups = cluster.operators
        members = [np.array(rows) for rows in groups.values()]
        view = View.of(cluster)
        wanted: dict[OperatorId, int] = {}
        for mine, _, each in self._allocate(view, members, int(view.node_cores.sum())):
            for o, cores in zip(mine.tolist(), each.cores.tolist(), strict=True):
                wanted[list(groups)[o]] = int(cores)
        return wanted

    def decide(
        self, cluster: ClusterLoad, state: ResourceCentricState
    ) -> tuple[Plan, ResourceCentricState]:
        """Executors per operator from the Jackson model over operators, then even shares."""
        view = View.of(cluster)
        groups: dict[OperatorId, list[int]] = {}
        for j, part in enumerate(cluster.partitions):
            groups.setdefault(_group(part), []).append(j)
        operators = list(groups)
        members = [np.array(rows) for rows in groups.values()]
        available = int(view.node_cores.sum())
        found = self._allocate(view, members, available)
        wanted = np.ones(len(members), dtype=np.int64)
        for rows, _, each in found:
            wanted[rows] = each.cores
        done = {name: at for name, at in state.repartitioned_s.items() if name in groups}
        held = np.array([int(view.cores[rows].sum()) for rows in members])
        stopped = max(done.values(), default=-np.inf) >= cluster.time_s - cluster.window_s - 1e-9
        targets, surplus = wanted, dict(state.surplus)
        if stopped:
            targets = held
        elif not self.release_surplus:
            targets = _keep_surplus(wanted, held, available)
        else:
            targets, surplus = hold_back(
                operators,
                wanted,
                held,
                surplus,
                cluster.time_s,
                [
                    patience_s(cluster.partitions[int(rows[0])], self.release_after_s)
                    for rows in members
                ],
            )
            targets = _keep_surplus(wanted, targets, available)
        after = view.placement.copy()
        moves: list[ShardMove] = []
        changed = [
            o
            for o in range(len(members))
            if cluster.time_s - done.get(operators[o], -np.inf) >= self.cooldown_s
            and held[o] != targets[o]
        ]
        _revive(view, after)
        # Deletions first: they free the cores that others are created on.
        for o in changed:
            _delete(view, after, members[o], int(targets[o]))
        for o in changed:
            _create(view, after, members[o], int(targets[o]))
        counts, cells = view.changes(after)
        grown = _grown(cluster, after, view)
        for o, rows in enumerate(members):
            if cluster.time_s - done.get(operators[o], -np.inf) < self.cooldown_s:
                continue
            operator_moves = self._repartition(grown, rows, after)
            moves += operator_moves
            if o in changed or operator_moves:
                done[operators[o]] = cluster.time_s
        plan = Plan(
            core_changes=counts,
            placement_changes=cells,
            shard_moves=tuple(moves),
            shortfalls=tuple(
                short
                for rows, _, each in found
                for short in shortfalls_of(
                    each, available, self.target_s, [operators[o] for o in rows.tolist()]
                )
            ),
            notes=(
                (
                    "predicted_latency_mean",
                    mean_latency([(entering, each.sojourn_s) for _, entering, each in found]),
                ),
            ),
        )
        return plan, ResourceCentricState(done, surplus)

    def _allocate(
        self, view: View, members: list[IntArray], available: int
    ) -> list[tuple[IntArray, float, Allocation]]:
        """Of each query: its operators, the rows/s that enter it, executors for each.

        Rates that back-pressure hides are taken higher.
        """
        cluster = view.cluster
        growth = np.array(hidden_growth(cluster, self.saturated_growth))
        rates = view.offered * growth
        offered = np.array([rates[rows].sum() for rows in members])
        demand = np.array([(rates[rows] / view.service[rows]).sum() for rows in members])
        idle = np.array([view.service[rows].mean() for rows in members])
        speed = np.divide(offered, demand, out=idle, where=demand > 0)
        queries: list[tuple[IntArray, float]] = []
        targets = []
        for query, parts in cluster.queries.items():
            mine = np.array([o for o, rows in enumerate(members) if int(rows[0]) in parts])
            targets.append(latency_target([cluster.partitions[i] for i in parts], self.target_s))
            grown = float(growth[list(parts)].max(initial=1.0))
            entering = cluster.external_rate_of(query) * grown
            queries.append((mine, entering if entering > 0 else float(offered[mine].sum())))
        found = allocate_shared(
            [
                Network(entering, offered[mine], speed[mine], target_s)
                for (mine, entering), target_s in zip(queries, targets, strict=True)
            ],
            available,
        )
        return [(*query, each) for query, each in zip(queries, found, strict=True)]

    def _repartition(self, grown: ClusterLoad, rows: IntArray, after: IntArray) -> list[ShardMove]:
        """Moves over all lanes of one operator; lanes that go are emptied."""
        parts = [grown.partitions[j] for j in rows.tolist()]
        if not all(map(_looks_inside, parts)):
            return []
        lanes: list[LaneRef] = []
        stays: list[bool] = []
        for j, part in zip(rows.tolist(), parts, strict=True):
            keep = _kept_lanes(grown, part, after[j])
            for lane in part.lanes:
                lanes.append(LaneRef(part.partition, lane.lane))
                stays.append(lane.lane in keep)
        if not any(stays):
            return []
        shard: list[int] = []
        owner: list[int] = []
        load: list[float] = []
        first = 0
        for part in parts:
            assert part.shards is not None
            rank = {lane.lane: first + i for i, lane in enumerate(part.lanes)}
            first += len(part.lanes)
            table = part.shards
            for name, at, cost in zip(
                table.shard.tolist(), table.lane.tolist(), table.load_cores.tolist(), strict=True
            ):
                if at in rank:  # else its lane has gone: there is none that could hand it over
                    shard.append(name)
                    owner.append(rank[at])
                    load.append(cost)
        if not shard:
            return []
        costs, before = np.array(load), np.array(owner, dtype=np.int64)
        where = drain(costs, before, np.array(stays))
        alive = np.flatnonzero(stays)
        compact = np.zeros(len(lanes), dtype=np.int64)
        compact[alive] = np.arange(alive.size)
        even = balance_batch(
            costs[None, :], compact[where][None, :], np.array([alive.size]), self.imbalance
        )
        goal = alive[even.lane[0]]
        return [
            ShardMove(ShardId(shard[s]), lanes[before[s]], lanes[int(goal[s])], MoveScope.OPERATOR)
            for s in np.flatnonzero(goal != before).tolist()
        ]


def _group(part: PartitionLoad) -> OperatorId:
    """Whose executors share keys: the operator's; a micro-batch's partitions keep their own."""
    return part.operator if part.batch is None else OperatorId(part.partition)


def _keep_surplus(wanted: IntArray, held: IntArray, available: int) -> IntArray:
    """What is held, or more where more is wanted; who holds most too much gives what is lacking."""
    kept = np.maximum(wanted, held)
    while int(kept.sum()) > max(available, int(wanted.sum())):
        kept[int(np.argmax(kept - wanted))] -= 1
    return kept


def _revive(view: View, after: IntArray) -> None:
    """A lane for each partition that has shards and no lane: a node has gone, say."""
    for j, part in enumerate(view.cluster.partitions):
        if part.shards is not None and len(part.shards) and not after[j].any():
            free = view.node_cores - after.sum(axis=0)
            if free.max() > 0:
                after[j, int(free.argmax())] += 1


def _delete(view: View, after: IntArray, rows: IntArray, target: int) -> None:
    parts = view.cluster.partitions
    movable = all(_looks_inside(parts[j]) for j in rows.tolist())
    orphaned = np.array([_is_orphan(parts[j]) for j in rows.tolist()])
    while int(after[rows].sum()) > target:
        total = after[rows].sum(axis=1)
        spare = np.flatnonzero(
            total > np.maximum(view.kept[rows], np.where(orphaned | (not movable), 1, 0))
        )
        if spare.size == 0:
            return
        # The partition with the least load per executor loses one, farthest from home.
        weight = view.offered[rows] / view.service[rows] / np.maximum(total, 1)
        j = int(rows[spare[np.argmin(weight[spare])]])
        remote = np.arange(after.shape[1]) != view.homes[j]
        held = after[j] > np.where(remote, 0, view.kept[j])
        after[j, int(np.lexsort((~remote, ~held))[0])] -= 1


def _looks_inside(part: PartitionLoad) -> bool:
    """Whether lanes and shards are recorded; a partition without cores has no lanes."""
    return part.shards is not None and (bool(part.lanes) or part.cores == 0)


def _is_orphan(part: PartitionLoad) -> bool:
    """Whether shards of it have no lane that could hand them over."""
    if part.shards is None:
        return False
    lanes = {int(lane.lane) for lane in part.lanes}
    return not lanes.issuperset(part.shards.lane.tolist())


def _create(view: View, after: IntArray, rows: IntArray, target: int) -> None:
    while int(after[rows].sum()) < target:
        free = view.node_cores - after.sum(axis=0)
        if view.bound[rows].all():  # of no use but at home
            free = np.where(np.isin(np.arange(len(free)), view.homes[rows]), free, 0)
        node = int(free.argmax())
        if free[node] <= 0:
            return
        total = after[rows].sum(axis=1)
        away = view.homes[rows] != node
        never = away & view.bound[rows]
        after[int(rows[np.lexsort((total, away, total > 0, never))[0]]), node] += 1


def _grown(cluster: ClusterLoad, after: IntArray, view: View) -> ClusterLoad:
    """The cluster load with the new lanes added and none removed."""
    names = [node.node for node in cluster.nodes]
    most = np.maximum(view.placement, after)
    parts = list(cluster.partitions)
    for j in np.flatnonzero((most != view.placement).any(axis=1)).tolist():
        parts[j] = with_lanes(cluster, parts[j], dict(zip(names, most[j].tolist(), strict=True)))
    nodes = tuple(
        replace(node, cores=cores)
        for node, cores in zip(cluster.nodes, most.sum(axis=0).tolist(), strict=True)
    )
    return replace(cluster, nodes=nodes, partitions=tuple(parts))


def _kept_lanes(grown: ClusterLoad, part: PartitionLoad, after: IntArray) -> set[int]:
    """Lanes that stay: per node those with most load; the others hand all of theirs over."""
    assert part.shards is not None
    here: dict[NodeId, list[LaneId]] = {}
    for lane in part.lanes:
        here.setdefault(lane.node, []).append(lane.lane)
    kept: set[int] = set()
    owner, cost = part.shards.lane, part.shards.load_cores
    for i, node in enumerate(grown.nodes):
        lanes, room = here.get(node.node, []), int(after[i])
        if len(lanes) > room:
            load = {lane: float(cost[owner == lane].sum()) for lane in lanes}
            lanes = sorted(lanes, key=lambda lane: (-load[lane], lane))
        kept.update(lanes[:room])
    return kept
