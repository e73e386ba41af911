"""In how many tasks a query's state partitions are computed: what a policy may add to its plans."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.plan import Plan, TasksChange
from laneshift.contract.policy import SizingPolicy
from laneshift.contract.tasks_load import TasksLoad
from laneshift.models.tasks import enough

S = TypeVar("S")

TASKING = ("set_tasks",)
"""What a `TaskingPolicy` has beyond others."""

SETTLED = 3
"""So many batches with the number that there is, before another one is thought of (ours)."""

LOOKS = 10
"""The same in Real-time Mode, in looks (ours)."""


@dataclass(frozen=True, kw_only=True)
class TaskingPolicy(SizingPolicy[S]):
    """A policy that may choose in how many tasks state partitions are computed.

    Attributes:
        set_tasks: whether it does, for the next batch of each query. Off by default. No state is
            written for it, but stores may be loaded where they have not been.
    """

    set_tasks: bool = False

    def answer(self, cluster: ClusterLoad, state: S) -> tuple[Plan, S]:
        """As `Policy.answer`, with numbers of tasks."""
        plan, after = super().answer(cluster, state)
        return self.with_tasks(plan, cluster), after

    def with_tasks(self, plan: Plan, cluster: ClusterLoad) -> Plan:
        """``plan``, with the tasks that queries are to have in their next batch."""
        if not self.set_tasks:
            return plan
        # While its stores are built, a query's batches say nothing of its tasks.
        busy = {load.query for load in cluster.stores if load.under_way}
        found = [self.tasked(load) for load in cluster.tasks if load.query not in busy]
        changes = tuple(change for change in found if change is not None)
        return replace(plan, tasks=changes) if changes else plan

    def tasked(self, load: TasksLoad) -> TasksChange | None:
        """The change that pays, if there is one."""
        have = load.coming or load.tasks
        if load.is_real_time:
            if load.batches < LOOKS:
                return None
            # Batches last: until the next one begins, what is to come may still change.
            after, reason = enough(load.each, have, self.target_utilisation), _cores
        else:
            if load.batches < SETTLED or have != load.tasks:
                return None
            after, reason = load.cost.best(), _seconds
        if after == have:
            return None
        return TasksChange(load.query, have, after, load.partitions, reason(load, after))


def _cores(load: TasksLoad, after: int) -> str:
    """In words, why a Real-time query gets ``after`` tasks."""
    now = load.busiest(load.tasks)
    return (
        f"of {load.tasks} tasks the busiest needs {now:.2g} of its core; with {after},"
        f" {load.busiest(after):.2g}"
    )


def _seconds(load: TasksLoad, after: int) -> str:
    """In words, why a batch is shorter with ``after`` tasks."""
    cost = load.cost
    measured = any(taken.tasks == after for taken in load.known)
    return (
        f"a batch takes {load.took_s:.3g} s with {load.partitions} state partitions in {load.tasks}"
        f" tasks, {load.slots} at a time; with {after}, {cost.batch_s(after):.3g} s"
        f" {'were measured' if measured else 'are expected'}"
    )
