"""What is measured of the tasks that compute a query's state partitions (ours [D])."""

from __future__ import annotations

from dataclasses import dataclass

from laneshift.contract.ids import OperatorId, QueryId
from laneshift.contract.measured import REMEDY
from laneshift.errors import InputError
from laneshift.inputcheck import number, whole
from laneshift.models.tasks import Taken, TaskCost, busiest


@dataclass(frozen=True, slots=True)
class TasksLoad:
    """The tasks of a query's elastic operators: each has as many.

    Attributes:
        query: whose.
        operators: its elastic operators with state.
        batch_id: the batch that was measured; in Real-time Mode the one that runs.
        tasks: that each of them has (1 to the number of state partitions).
        slots: tasks that the cluster runs at a time (>= 1).
        batches: batches that were measured with that number; in Real-time Mode looks (>= 1).
        each: of each state partition, (partitions,): task-seconds in a batch (s, >= 0); in
            Real-time Mode cores that its first lane needs, of the operator that needs most of them,
            lately (cores, >= 0).
        took_s, rows, by_rows: in micro-batches, what a batch takes, its rows, and which share of
            the time goes by rows, as in :class:`laneshift.models.tasks.Taken`; 0 in Real-time Mode.
        known: the same with other numbers of tasks that this run has had.
        coming: tasks that were asked for, and come with the next batch; None if none were.
    """

    query: QueryId
    operators: tuple[OperatorId, ...]
    batch_id: int
    tasks: int
    slots: int
    batches: int
    each: tuple[float, ...]
    took_s: float = 0.0
    rows: float = 0.0
    by_rows: float = 0.0
    known: tuple[Taken, ...] = ()
    coming: int | None = None

    def __post_init__(self) -> None:
        of = f"of query {self.query}"
        if not self.each:
            raise InputError(f"each {of}", 0, "a value for each state partition", REMEDY)
        whole(f"tasks {of}", self.tasks, low=1, high=len(self.each), unit="tasks")
        if self.coming is not None:
            whole(f"coming {of}", self.coming, low=1, high=len(self.each), unit="tasks")
        whole(f"slots {of}", self.slots, low=1, unit="tasks")
        whole(f"batches {of}", self.batches, low=1, unit="batches")
        number(f"took_s {of}", self.took_s, low=0, unit="s", remedy=REMEDY)
        for value in self.each:
            number(f"each {of}", value, low=0, remedy=REMEDY)

    @property
    def partitions(self) -> int:
        """State partitions that it has."""
        return len(self.each)

    @property
    def is_real_time(self) -> bool:
        """Whether its batches are not measured by how long they take."""
        return self.took_s == 0.0

    @property
    def cost(self) -> TaskCost:
        """What a micro-batch takes with another number of tasks."""
        now = Taken(self.tasks, self.took_s, self.rows, self.by_rows)
        return TaskCost(self.each, self.slots, now, self.known)

    def busiest(self, tasks: int) -> float:
        """Of so many tasks, what the busiest needs: task-seconds in a batch, or cores."""
        return busiest(self.each, tasks)
