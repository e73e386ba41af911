"""The live object: look at elastic queries and change them while they run.

Arguments are checked here, against a fresh snapshot, before a command is sent: a wrong one never
reaches a running query. The plugin checks again, since a query may end in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from laneshift.control.address import Address, ClientTls
from laneshift.control.tokens import client_token
from laneshift.errors import NotFoundError, error, shown
from laneshift.inputcheck import number
from laneshift.loop.start import check_turns
from laneshift.plugin.gateway import Commands, Gateway, Py4jGateway, connect
from laneshift.plugin.handoff import Handoff
from laneshift.plugin.snapshot import QuerySnapshot, Snapshot
from laneshift.scheduler.policies.base import Policy
from laneshift.session.connect import of_connect
from laneshift.session.host import Here, Host, Scheduler
from laneshift.session.lookup import (
    QueryRef,
    check_hosts,
    check_tasks,
    find_operator,
    find_partition,
    find_query,
    query_key,
    stopped,
    whole_numbers,
)
from laneshift.session.rescale import Rescale, bar, cancelled
from laneshift.session.rescale import wait as wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

HANDOFF_LIMIT = 100_000
ALL_PARTITIONS = -1


def attach(
    target: SparkSession | str,
    token: str | None = None,
    *,
    token_file: str | Path | None = None,
    ca: str | Path | None = None,
    cert: str | Path | None = None,
    key: str | Path | None = None,
) -> Laneshift:
    """The live object of a Spark application.

    Args:
        target: a session that was built with :func:`laneshift.configure`; a Spark Connect session
            whose server has the plugin and ``spark.sql.laneshift.control.port``; or ``"HOST:PORT"``
            of such an application's control service.
        token: for HOST:PORT; left out, ``token_file`` or the environment's ``LANESHIFT_TOKEN`` or
            ``LANESHIFT_TOKEN_FILE`` has it. A Connect session brings its own.
        token_file: a file with the token.
        ca: PEM file of who has signed the service's certificate; without it there is no TLS.
        cert, key: PEM files of this client's own certificate, if the service asks for one.

    Errors: :class:`~laneshift.errors.ArgumentError` for a target, token or file that is none,
    :class:`~laneshift.errors.SessionError` if the session has stopped, the plugin is not loaded or
    of another version than this package, nobody answers at the address or lets nobody in.
    """
    tls = ClientTls(ca, cert, key)
    if isinstance(target, str):
        address = Address.of(target, "target")
        return attached(address, client_token(token, token_file), tls)
    kind = type(target)
    if kind.__module__.startswith("pyspark.sql.connect"):
        address, own = of_connect(target)
        given = token is not None or token_file is not None
        return attached(address, client_token(token, token_file) if given else own, tls)
    if not hasattr(target, "_jvm") or not hasattr(target, "sparkContext"):
        raise error("LANESHIFT_NOT_A_SESSION", value=shown(target), type=kind.__name__)
    return Laneshift(Py4jGateway(target))


def attached(address: Address, token: str, tls: ClientTls) -> Laneshift:
    """The live object of the application whose control service is at ``address``.

    Errors: :class:`~laneshift.errors.SessionError`.
    """
    try:
        from laneshift.control.client import ControlClient
        from laneshift.session.there import There
    except ImportError as cause:
        raise error("LANESHIFT_NO_GRPC", missing=cause.name) from cause
    client = ControlClient(address, token, tls)
    try:
        return Laneshift(client, There(client))
    except BaseException:
        client.close()
        raise


class Laneshift:
    """Elastic queries of one Spark application. Made by :func:`attach`.

    ``query`` is a StreamingQuery, its id or its name; ``operator`` an elastic operator's id and
    ``partition`` one of its partitions, as :meth:`snapshot` shows them. Methods raise
    :class:`~laneshift.errors.NotFoundError` for what does not exist,
    :class:`~laneshift.errors.ArgumentError` for a value of the wrong type or range, and
    :class:`~laneshift.errors.SessionError` if the query or the session has stopped.
    """

    @overload
    def __init__(self, gateway: Gateway) -> None: ...

    @overload
    def __init__(self, gateway: Commands, host: Host) -> None: ...

    def __init__(self, gateway: Any, host: Host | None = None) -> None:
        self._gateway: Commands = gateway
        self._host = host if host is not None else Here(gateway)
        # A control service may be of another version: its protocol says what it can do.
        self._version = gateway.version() if host is not None else connect(gateway)
        self._scheduler: Scheduler | None = None

    @property
    def version(self) -> str:
        """Version of the plugin's jar, or of the control service."""
        return self._version

    def snapshot(self) -> Snapshot:
        """What every elastic query of the application does right now."""
        return _read("snapshot", Snapshot.from_json, self._gateway.snapshot())

    def watch(self, interval_s: float = 1.0) -> Iterator[Snapshot]:
        """A snapshot every ``interval_s`` (0.1 to 3600), for as long as they are taken."""
        check_turns(interval_s)
        return _watched(self._host.watch(interval_s))

    def set_lanes(
        self,
        query: QueryRef,
        operator: int,
        partition: int,
        n: int,
        *,
        on: Mapping[str, int] | None = None,
    ) -> str:
        """Give a partition ``n`` lanes (1 to its ``max_lanes``); partition -1 means all of them.

        That is all that were computed since the query started, ``partition_count`` as a rule.
        ``on`` is how many more it shall have on which other executors, ``{"2": 4}`` for four on
        executor 2 (``snapshot().executors`` names them); without it, it has none elsewhere.
        Stages without state (``rowWise``) have all their lanes on their own executor.

        Returns ``now`` or ``next-batch``: when the plugin applies it.
        """
        key = query_key(query)
        operator, partition, n = whole_numbers(operator=operator, partition=partition, n=n)
        found = self._running(query, key)
        chosen = find_operator(found, operator)
        if partition == ALL_PARTITIONS:
            most = min((p.max_lanes for p in chosen.partitions), default=1)
        else:
            most = find_partition(chosen, partition, also="-1 for all").max_lanes
        if not 1 <= n <= most:
            raise error(
                "LANESHIFT_LANES_OUT_OF_RANGE",
                value=n,
                range=f"1 to {most}",
                partition="-1 (all)" if partition == ALL_PARTITIONS else partition,
                operator=operator,
            )
        hosts = check_hosts(on)
        return str(self._gateway.set_lanes(found.id, operator, partition, n, hosts)["applied"])

    def set_tasks(self, query: QueryRef, tasks: int | str, *, operator: int | None = None) -> str:
        """Compute the state partitions of ``query`` in so many Spark tasks, a range in each.

        ``tasks``: 1 to the number of state partitions; ``auto``, as many as suit the slots of the
        cluster; ``stock``, one for each partition, as Spark has it. ``operator`` None means every
        operator with state. No state is rewritten, and the checkpoint stays as stock Spark writes
        it. It holds until the query stops; ``laneshift.configure(builder, tasks=...)`` is for
        queries to come.

        Returns ``next-batch``: when the plugin applies it.
        """
        key = query_key(query)
        text = check_tasks(tasks)
        found = self._running(query, key)
        if operator is None:
            chosen = [o for o in found.operators if not o.is_dealt]
            if not chosen:
                raise error("LANESHIFT_NO_STATE_PARTITIONS", value="So far the query")
        else:
            chosen = [find_operator(found, whole_numbers(operator=operator)[0])]
        applied = ""
        for one in chosen:
            answer = self._gateway.set_tasks(found.id, one.operator_id, text)
            applied = str(answer["applied"])
        return applied

    def move_shard(
        self, query: QueryRef, operator: int, partition: int, shard: int, lane: int
    ) -> str:
        """Hand a shard of a partition over to another of its lanes.

        Returns ``now`` or ``next-batch``: when the plugin applies it.
        """
        key = query_key(query)
        operator, partition, shard, lane = whole_numbers(
            operator=operator, partition=partition, shard=shard, lane=lane
        )
        found = self._running(query, key)
        chosen = find_partition(find_operator(found, operator), partition)
        for name, value, size in (("shard", shard, chosen.shards), ("lane", lane, chosen.lanes)):
            if not 0 <= value < size:
                raise error(
                    f"LANESHIFT_NO_SUCH_{name.upper()}",
                    value=value,
                    range=f"0 to {size - 1}",
                    partition=partition,
                    operator=operator,
                )
        return str(self._gateway.move_shard(found.id, operator, partition, shard, lane)["applied"])

    def limit_source(self, query: QueryRef, rows_per_second: float, seconds: float) -> str:
        """Hold a query's source to ``rows_per_second`` (>= 0) at most for ``seconds`` (to 3600).

        In Real-time Mode ``laneshift-workload`` and ``laneshift-replay`` can wait; each of their
        partitions gets an equal part of the rate. In micro-batch these and Kafka read fewer rows,
        at least one, in batches from the next on: as many as the rate gives in the time from one
        such batch to the next. A limit is for a whole batch at least. Rows are late, none is lost:
        a source with a schedule gives late ones at full speed afterwards. A new limit replaces one
        that is in force; 0 seconds end that.

        Returns ``now`` or ``next-batch``: when the plugin applies it. Errors:
        :class:`~laneshift.errors.SessionError` for another source, or several.
        """
        key = query_key(query)
        number("rows_per_second", rows_per_second, low=0, unit="rows/s")
        number("seconds", seconds, low=0, high=3600.0, unit="s")
        found = self._running(query, key)
        return str(self._gateway.limit_source(found.id, rows_per_second, seconds)["applied"])

    def rescale(
        self,
        query: QueryRef,
        partitions: int,
        *,
        wait: bool = True,
        timeout_s: float = 3600.0,
        progress: bool = False,
    ) -> Rescale:
        """Give a query another number of state partitions (>= 1) while it runs.

        New stores are written in the background and take over between two batches; see
        docs/rescale.md. It begins and ends between batches: a query without data waits for some.

        Args:
            query: a stateful query that keeps its state in RocksDB.
            partitions: another number than now.
            wait: return when it is over, at most after ``timeout_s`` (s); otherwise at once.
            progress: show a bar on standard error meanwhile.

        Errors: :class:`~laneshift.errors.ArgumentError` for the number,
        :class:`~laneshift.errors.SessionError` for a query that cannot be rescaled, is being
        rescaled, or when the rescale has failed or was cancelled: the query is as it was in each
        case.
        """
        key = query_key(query)
        (partitions,) = whole_numbers(partitions=partitions)
        found = self._running(query, key)
        asked = _read("rescale", Rescale.from_json, self._gateway.rescale(found.id, partitions))
        if not wait:
            return asked
        return wait_for(self._gateway, found.id, asked, timeout_s, bar if progress else None)

    def rescaling(self, query: QueryRef) -> Rescale:
        """How the newest rescale of a running query stands.

        Errors: :class:`~laneshift.errors.NotFoundError` if none was asked for.
        """
        found = self._running(query, query_key(query))
        said = self._gateway.rescaling(found.id)
        return _read("rescaling", Rescale.from_json, said)

    def cancel_rescale(self, query: QueryRef) -> Rescale:
        """Give the rescale of a running query up, which keeps its partitions.

        Errors: :class:`~laneshift.errors.NotFoundError` if none was asked for,
        :class:`~laneshift.errors.SessionError` if it is over.
        """
        found = self._running(query, query_key(query))
        return cancelled(self._gateway, found.id)

    def handoffs(self, query: QueryRef | None = None, limit: int = 1000) -> tuple[Handoff, ...]:
        """The newest ``limit`` handoffs (1 to 100,000), oldest first; of one query or of all.

        A query that has stopped may be asked for as well.
        """
        (limit,) = whole_numbers(limit=limit)
        if not 1 <= limit <= HANDOFF_LIMIT:
            raise error(
                "LANESHIFT_OUT_OF_RANGE",
                argument="limit",
                value=limit,
                range=f"1 to {HANDOFF_LIMIT}",
                remedy="The plugin keeps the newest 100,000.",
            )
        wanted = ""
        if query is not None:
            wanted = query_key(query)
        rows = self._gateway.handoffs(wanted, limit)
        return _read("handoffs", lambda data: tuple(map(Handoff.from_json, data)), rows)

    def start(
        self,
        policy: str | Policy[Any] = "laneshift",
        *,
        target_latency_ms: float | None = None,
        interval_s: float = 1.0,
        query: QueryRef | None = None,
        cores: int | None = None,
        dry_run: bool = False,
        trace: str | Path | None = None,
        max_executors: int | None = None,
        **parameters: Any,
    ) -> Scheduler:
        """Let a policy set the lanes of running queries, once per interval, until it is stopped.

        Args:
            policy: a name, as ``laneshift policies`` lists them, or a policy.
            target_latency_ms: latency that the policy is to keep to (ms, > 0), for those that have
                a target; None leaves the policy's own.
            interval_s: time from one turn to the next (s, 0.1 to 3600).
            query: the only query to drive; None for all, those that start later included.
            cores: most cores of an executor that lanes may use (count, >= 1); None for all that
                Spark's other tasks leave. A partition always keeps one.
            dry_run: decide and report, but change nothing.
            trace: a new file for what was measured, for ``laneshift-lab replay``.
            max_executors: executors on demand: the most that the application may have (count; not
                fewer than it has without a scheduler), for policies that place lanes. None for what
                ``spark.sql.laneshift.executors.max`` says, 0 to ask for none.
            parameters: parameters of the policy by name.

        Errors: :class:`~laneshift.errors.InputError` for an unknown policy or
        parameter and values out of range, FileExistsError if ``trace`` exists, the errors of
        :meth:`set_lanes` for ``query``, :class:`~laneshift.errors.SessionError` if this object has
        a scheduler that runs, another one drives one of the queries, or there cannot be so many
        executors on demand. A scheduler that has died
        is waited for, 5 s at most.

        With a session of this process the policy runs here, as a
        :class:`~laneshift.loop.scheduler.LiveScheduler`, and ends with this process. Attached by an
        address it runs in the application's control process, and goes on until it is stopped there:
        ``policy`` has to be installed there, and ``trace`` is not possible.
        """

        def followed() -> str | None:
            only = None if query is None else self._running(query, query_key(query)).id
            if self._scheduler is not None and self._scheduler.is_running:
                raise error("LANESHIFT_SCHEDULER_RUNS", policy=self._scheduler.name)
            return only

        self._scheduler = self._host.start(
            policy,
            parameters,
            target_latency_ms=target_latency_ms,
            interval_s=interval_s,
            followed=followed,
            cores=cores,
            dry_run=dry_run,
            trace=trace,
            max_executors=max_executors,
        )
        return self._scheduler

    @property
    def scheduler(self) -> Scheduler | None:
        """What :meth:`start` has returned last."""
        return self._scheduler

    def close(self) -> None:
        """End the connection to a control service; a session of this process is left as it is."""
        self._host.close()

    def __enter__(self) -> Laneshift:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _running(self, query: QueryRef, key: str) -> QuerySnapshot:
        snapshot = self.snapshot()
        try:
            return find_query(snapshot, query, key)
        except NotFoundError:
            # A snapshot may leave out what has stopped; the plugin remembers its handoffs.
            self._gateway.handoffs(key, 1)
            raise stopped(snapshot, key) from None

    def __repr__(self) -> str:
        return f"<laneshift {self._version}>"


def _watched(said: Iterator[Mapping[str, Any]]) -> Iterator[Snapshot]:
    """Snapshots of what was said; what is the same objects as before is not read again."""
    before: Mapping[str, Any] = {}
    made: Snapshot | None = None
    for data in said:
        if made is not None and all(data[k] is before.get(k) for k in data if k != "time_ms"):
            made = replace(made, time_ms=int(data["time_ms"]))
        else:
            made = _read("watch", Snapshot.from_json, data)
        before = data
        yield made


def _read(method: str, reader: Callable[[Any], T], data: object) -> T:
    try:
        return reader(data)
    except (KeyError, TypeError, ValueError) as cause:
        problem = f"{type(cause).__name__} {cause}"
        raise error("LANESHIFT_BAD_REPLY", method=method, problem=problem) from cause
