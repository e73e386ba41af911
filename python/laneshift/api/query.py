"""A streaming query by name or id: looked at and changed while it runs, over its restarts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laneshift.api.autoscaler import Autoscaler, Wanted
from laneshift.api.change import Change
from laneshift.api.lookup import (
    check_hosts,
    check_tasks,
    find_operator,
    find_partition,
    find_query,
    stopped,
    whole_numbers,
)
from laneshift.api.rescale import Rescale
from laneshift.contract.policy import Policy
from laneshift.durations import Duration, seconds
from laneshift.errors import NotFoundError, error
from laneshift.inputcheck import number
from laneshift.plugin.gateway import Applied, Gateway, the_one
from laneshift.plugin.handoff import Handoff
from laneshift.plugin.partition import PartitionSnapshot
from laneshift.plugin.snapshot import OperatorSnapshot, QuerySnapshot
from laneshift.plugin.v1 import control_pb2 as pb

if TYPE_CHECKING:
    from laneshift.api.application import Application

HANDOFF_LIMIT = 100_000


class Query:
    """A streaming query with elastic operators. Made by :meth:`laneshift.Application.query`.

        orders = app.query("orders")  # or the StreamingQuery, or its id
        print(orders.id, orders.name)

    It is found anew at each call, so it goes on over restarts from the same checkpoint, or under
    the same name. ``operator`` is the id or the name of an elastic operator, ``partition`` the
    number of one of its partitions, as :meth:`snapshot` shows them. Any thread may call it.

    Methods raise :class:`~laneshift.errors.NotFoundError` for what does not exist,
    :class:`~laneshift.errors.ArgumentError` for a value of the wrong type or range, and
    :class:`~laneshift.errors.SessionError` if the query or the session has stopped.
    """

    def __init__(self, application: Application, key: str) -> None:
        self._application = application
        self._gateway = application._gateway
        self._key = key

    @property
    def id(self) -> str:
        """Its id, which its checkpoint keeps. Errors: those of :meth:`snapshot`."""
        return self.snapshot().id

    @property
    def name(self) -> str | None:
        """Its name, None without. Errors: those of :meth:`snapshot`."""
        return self.snapshot().name

    def snapshot(self) -> QuerySnapshot:
        """What it does right now.

            print(query.snapshot())
            print(query.snapshot().to_pandas()["lanes"].sum())

        It prints as a table, a row for each partition.
        """
        found = self._application.snapshot()
        try:
            return find_query(found, self._key)
        except NotFoundError:
            # A snapshot may leave out what has stopped; the plugin remembers its handoffs.
            self._gateway.handoffs(self._key, 1)
            raise stopped(found, self._key) from None

    def watch(self, interval: Duration = "1s") -> Iterator[QuerySnapshot]:
        """A snapshot every ``interval`` (0.1 s to 1 h), for as long as they are taken.

        Nothing comes while the query does not run; it goes on once the query is started again.
        """
        snapshots = self._application.watch(interval)
        query_id = self.id
        return (q for s in snapshots for q in s.queries if q.id == query_id and q.active)

    def set_lanes(
        self,
        lanes: int,
        *,
        partition: int | None = None,
        operator: int | str | None = None,
        on: Mapping[str, int] | None = None,
    ) -> Change:
        """Give partitions so many lanes each.

            query.set_lanes(4)
            query.set_lanes(2, partition=1).wait("10s")
            query.set_lanes(2, partition=1, on={"2": 4})

        Args:
            lanes: 1 to the partition's ``max_lanes`` (count).
            partition: None for all that were computed since the query started,
                ``partition_count`` as a rule.
            operator: None for the only one with state.
            on: how many more it shall have on which other executors, by executor id
                (``snapshot().executors`` of the application names them); None for none elsewhere.
                Stages without state (``rowWise``) have all their lanes on their own executor.
        """
        (lanes,) = whole_numbers(lanes=lanes)
        found = self.snapshot()
        chosen = find_operator(found, operator)
        if partition is None:
            most = min((p.max_lanes for p in chosen.partitions), default=1)
        else:
            part = find_partition(chosen, partition)
            partition, most = part.partition, part.max_lanes
        if not 1 <= lanes <= most:
            raise error(
                "LANESHIFT_LANES_OUT_OF_RANGE",
                value=lanes,
                range=f"1 to {most}",
                partition="each partition" if partition is None else f"partition {partition}",
                operator=chosen.operator_id,
            )
        hosts = check_hosts(on)

        def has(part: PartitionSnapshot) -> bool:
            # Between two tasks no lane is open: what is wanted is what the next one begins with.
            there = Counter(lane.executor for lane in part.elsewhere if lane.open)
            shown = there if part.running else part.wanted_elsewhere
            return part.home_lanes == lanes and dict(shown) == hosts

        def is_shown(now: OperatorSnapshot) -> bool:
            parts = [p for p in now.partitions if partition in (None, p.partition)]
            return all(map(has, parts))

        wish = pb.LanesWish(
            query=found.id,
            operator=chosen.operator_id,
            partition=partition,
            lanes=lanes,
            elsewhere=pb.Elsewhere(lanes=hosts),
        )
        applied = the_one(self._gateway.set_lanes([wish]))
        what = f"{lanes} lanes for {_partitions(partition)} of operator {chosen.operator_id}"
        return self._change(what, applied, found, [chosen], is_shown)

    def set_tasks(self, tasks: int | str, *, operator: int | str | None = None) -> Change:
        """Compute the state partitions in so many Spark tasks, a range in each.

            query.set_tasks("auto")

        Args:
            tasks: 1 to the number of state partitions; ``auto``, as many as suit the slots of the
                cluster; ``stock``, one for each partition, as Spark has it.
            operator: None for every operator with state.

        No state is rewritten, and the checkpoint stays as stock Spark writes it. It holds until the
        query stops; ``laneshift.configure(builder, tasks=...)`` is for queries to come. A wait for
        ``auto`` ends with the next batch.
        """
        text = check_tasks(tasks)
        found = self.snapshot()
        if operator is None:
            chosen = [o for o in found.operators if not o.is_dealt]
            if not chosen:
                raise error("LANESHIFT_NO_STATE_PARTITIONS", value="So far the query")
        else:
            chosen = [find_operator(found, operator)]
        before = _newest_batch(found)

        def is_shown(now: OperatorSnapshot) -> bool:
            if text == "auto":
                return any(p.batch_id > before for p in now.partitions)
            return now.tasks == (now.partition_count if text == "stock" else int(text))

        wishes = [
            pb.TasksWish(query=found.id, operator=one.operator_id, tasks=text) for one in chosen
        ]
        for outcome in self._gateway.set_tasks(wishes):
            applied = the_one([outcome])
        return self._change(f"{text} tasks", applied, found, chosen, is_shown)

    def move(
        self, *, shard: int, to_lane: int, partition: int, operator: int | str | None = None
    ) -> Change:
        """Hand a shard of a partition over to another of its lanes.

            query.move(shard=7, to_lane=1, partition=1)

        Shards and lanes are numbered from 0; the partition keeps as many lanes.
        """
        shard, to_lane = whole_numbers(shard=shard, to_lane=to_lane)
        found = self.snapshot()
        chosen = find_operator(found, operator)
        part = find_partition(chosen, partition)
        for name, value, size in (("SHARD", shard, part.shards), ("LANE", to_lane, part.lanes)):
            if not 0 <= value < size:
                raise error(
                    f"LANESHIFT_NO_SUCH_{name}",
                    value=value,
                    range=f"0 to {size - 1}",
                    partition=part.partition,
                    operator=chosen.operator_id,
                )
        wish = pb.MoveWish(
            query=found.id,
            operator=chosen.operator_id,
            partition=part.partition,
            shard=shard,
            to_lane=to_lane,
        )
        applied = the_one(self._gateway.move([wish]))

        def is_shown(now: OperatorSnapshot) -> bool:
            parts = (p for p in now.partitions if p.partition == part.partition)
            return all(p.lane_of_shard[shard] == to_lane for p in parts)

        what = f"shard {shard} of partition {part.partition} on lane {to_lane}"
        return self._change(what, applied, found, [chosen], is_shown)

    def limit_source(self, rows_per_second: float, *, duration: Duration) -> Applied:
        """Hold the source to ``rows_per_second`` (>= 0) at most for ``duration`` (to 1 h).

            query.limit_source(1000, duration="10s")

        In Real-time Mode laneshift's own sources (``laneshift-workload``, ``laneshift-replay``,
        ``laneshift-nexmark``) can wait; each of their partitions gets an equal part of the
        rate. In micro-batch these and Kafka read fewer rows,
        at least one, in batches from the next on: as many as the rate gives in the time from one
        such batch to the next. A limit is for a whole batch at least. Rows are late, none is lost:
        a source with a schedule gives late ones at full speed afterwards. A new limit replaces one
        that is in force; a duration of 0 ends that.

        Errors: :class:`~laneshift.errors.SessionError` for another source, or several.
        """
        number("rows_per_second", rows_per_second, low=0, unit="rows/s")
        duration_s = seconds("duration", duration, high=3600.0)
        found = self.snapshot()
        return self._gateway.limit_source(found.id, rows_per_second, duration_s)

    def rescale(self, partitions: int) -> Rescale:
        """Give it another number of state partitions (>= 1) while it runs; returns at once.

            rescale = query.rescale(16)
            print(rescale.progress)

        New stores are written in the background and take over between two batches
        (docs/parallelism.md). It begins and ends between batches: a query without data waits for
        some. The query has to keep its state in RocksDB.

        Errors: :class:`~laneshift.errors.ArgumentError` for the number,
        :class:`~laneshift.errors.SessionError` for a query that cannot be rescaled or is being
        rescaled: it is as it was in each case.
        """
        (partitions,) = whole_numbers(partitions=partitions)
        found = self.snapshot()
        return Rescale(self._gateway, found.id, self._gateway.rescale(found.id, partitions))

    @property
    def rescaling(self) -> Rescale | None:
        """The newest rescale of the query's run, which may be over; None if there was none."""
        found = self.snapshot()
        try:
            newest = self._gateway.rescaling(found.id)
        except NotFoundError as none:
            if none.condition != "LANESHIFT_NO_RESCALE":
                raise
            return None
        return Rescale(self._gateway, found.id, newest)

    def handoffs(self, *, limit: int = 1000) -> tuple[Handoff, ...]:
        """Its newest ``limit`` handoffs (1 to 100,000), oldest first.

            print(max(moved.pause_us for moved in query.handoffs(limit=100)))

        Those of a query that has stopped, too.
        """
        return moves(self._gateway, self._key, limit)

    def autoscale(
        self,
        policy: str | Policy[Any] = "laneshift",
        *,
        target_latency: Duration | None = None,
        interval: Duration = "1s",
        cores: int | None = None,
        max_executors: int | None = None,
        dry_run: bool = False,
        trace: str | Path | None = None,
        **parameters: Any,
    ) -> Autoscaler:
        """Let a policy set its lanes, over its restarts too, until the autoscaler is stopped.

            query.autoscale(policy="elasticutor", interval="500ms", cores=4).stop()

        Arguments and errors are those of :meth:`laneshift.Application.autoscale`.
        """
        wanted = Wanted(
            policy=policy,
            parameters=parameters,
            target_latency=target_latency,
            interval=interval,
            cores=cores,
            max_executors=max_executors,
            dry_run=dry_run,
            trace=trace,
        )
        return self._application._autoscale(wanted, self)

    def _change(
        self,
        what: str,
        applied: Applied,
        before: QuerySnapshot,
        operators: list[OperatorSnapshot],
        is_shown: Callable[[OperatorSnapshot], bool],
    ) -> Change:
        """What a command has changed in operators of a run, which is ``applied`` then."""
        ids = {o.operator_id for o in operators}

        def look() -> QuerySnapshot:
            now = self._application.snapshot()
            for query in now.queries:
                if query.run_id == before.run_id and query.active:
                    return query
            raise stopped(now, self._key)

        def all_shown(now: QuerySnapshot) -> bool:
            return all(is_shown(o) for o in now.operators if o.operator_id in ids)

        return Change(what, applied, look, all_shown)

    def __repr__(self) -> str:
        return f"<laneshift query {self._key}>"


def moves(gateway: Gateway, query: str, limit: int) -> tuple[Handoff, ...]:
    """The newest handoffs of a query, of all if empty."""
    (limit,) = whole_numbers(limit=limit)
    if not 1 <= limit <= HANDOFF_LIMIT:
        raise error(
            "LANESHIFT_OUT_OF_RANGE",
            argument="limit",
            value=limit,
            range=f"1 to {HANDOFF_LIMIT}",
            remedy="The plugin keeps the newest 100,000.",
        )
    return gateway.handoffs(query, limit)


def _newest_batch(query: QuerySnapshot) -> int:
    return max((p.batch_id for o in query.operators for p in o.partitions), default=-1)


def _partitions(partition: int | None) -> str:
    return "all partitions" if partition is None else f"partition {partition}"
