"""The application: its elastic queries, looked at and changed while they run.

Arguments are checked here, against a fresh snapshot, before a command is sent: a wrong one never
reaches a running query. The plugin checks again, since a query may end in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laneshift.api.autoscaler import Autoscaler, Here, Host, Wanted
from laneshift.api.lookup import QueryRef, query_key
from laneshift.api.query import Query, moves
from laneshift.contract.policy import Policy
from laneshift.control.address import Address, ClientTls
from laneshift.control.tokens import client_token
from laneshift.durations import Duration, seconds
from laneshift.errors import error
from laneshift.plugin.gateway import Py4jGateway
from laneshift.plugin.handoff import Handoff
from laneshift.plugin.snapshot import Snapshot
from laneshift.session.connect import of_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXTRA = ("google", "grpc", "grpc_status")
"""Packages that only clients of a control service need."""


def attach(
    target: SparkSession | str,
    token: str | None = None,
    *,
    token_file: str | Path | None = None,
    ca: str | Path | None = None,
    cert: str | Path | None = None,
    key: str | Path | None = None,
) -> Application:
    """The elastic queries of a Spark application.

        app = laneshift.attach(spark)
        app.query("orders").set_lanes(4)

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
    return Application(Here(Py4jGateway(target)))


def attached(address: Address, token: str, tls: ClientTls) -> Application:
    """The application whose control service is at ``address``.

    Errors: :class:`~laneshift.errors.SessionError`.
    """
    try:
        from laneshift.api.there import There
        from laneshift.control.client import ControlClient
    except ImportError as cause:
        # One of our own modules that is missing is no package to install.
        if (cause.name or "").partition(".")[0] not in EXTRA:
            raise
        raise error("LANESHIFT_NO_GRPC", missing=cause.name) from cause
    client = ControlClient(address, token, tls)
    try:
        return Application(There(client))
    except BaseException:
        client.close()
        raise


class Application:
    """Elastic queries of one Spark application. Made by :func:`attach`. Any thread may call it.

        with laneshift.attach(spark) as app:
            print(app.version, app.snapshot())

    Methods raise :class:`~laneshift.errors.SessionError` if the session has stopped or nobody
    answers any more.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._gateway = host.gateway
        self._version = host.version()
        self._autoscalers: list[tuple[str | None, Autoscaler]] = []

    @property
    def version(self) -> str:
        """Version of the plugin's jar, or of the control service."""
        return self._version

    @property
    def queries(self) -> tuple[Query, ...]:
        """The elastic queries that run now.

            print([each.name for each in app.queries])

        Each goes on over its restarts.
        """
        return tuple(Query(self, q.id) for q in self.snapshot().queries if q.active)

    def query(self, query: QueryRef) -> Query:
        """A query by its StreamingQuery, id or name; it need not run yet.

        Errors: :class:`~laneshift.errors.ArgumentError` for anything else.
        """
        return Query(self, query_key(query))

    def snapshot(self) -> Snapshot:
        """What every elastic query of the application does right now."""
        return self._gateway.snapshot()

    def watch(self, interval: Duration = "1s") -> Iterator[Snapshot]:
        """A snapshot every ``interval`` (0.1 s to 1 h).

            for snapshot in app.watch("100ms"):
                print(snapshot.time_ms, snapshot.queries)
                break

        It goes on for as long as they are taken.
        """
        interval_s = seconds("interval", interval, low=0.1, high=3600.0)
        return self._host.watch(interval_s)

    def handoffs(self, *, limit: int = 1000) -> tuple[Handoff, ...]:
        """The newest ``limit`` handoffs (1 to 100,000) of all queries, oldest first."""
        return moves(self._gateway, "", limit)

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
        """Let a policy set the lanes of all queries, those that start later included.

            with app.autoscale(target_latency="50ms", dry_run=True) as autoscaler:
                print(autoscaler.policy, autoscaler.is_running)

        Args:
            policy: a name, as ``laneshift policies`` lists them, or a policy.
            target_latency: latency that the policy is to keep to (> 0), for those that have a
                target; None leaves the policy's own.
            interval: time from one turn to the next (0.1 s to 1 h).
            cores: most cores of an executor that lanes may use (count, >= 1); None for all that
                Spark's other tasks leave. A partition always keeps one.
            max_executors: executors on demand: the most that the application may have (count; not
                fewer than it has without an autoscaler), for policies that place lanes. None for
                what ``spark.sql.laneshift.executors.max`` says, 0 to ask for none.
            dry_run: decide and report, but change nothing.
            trace: a new file for what was measured, for ``laneshift-lab replay``.
            parameters: parameters of the policy by name.

        Errors: :class:`~laneshift.errors.InputError` for an unknown policy or parameter and values
        out of range, FileExistsError if ``trace`` exists, :class:`~laneshift.errors.SessionError`
        if this object has an autoscaler that drives one of the queries, another one does, or there
        cannot be so many executors on demand. One that has died is waited for, 5 s at most.

        With a session of this process the policy runs here, and ends with this process. Attached by
        an address it runs in the application's control process, and goes on until it is stopped
        there: ``policy`` has to be installed there, and ``trace`` is not possible.
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
        return self._autoscale(wanted, None)

    def _autoscale(self, wanted: Wanted, query: Query | None) -> Autoscaler:
        """Start what is wanted, for one query or all."""
        key: str | None = None

        def followed() -> str | None:
            nonlocal key
            key = None if query is None else query.id
            for other, started in self._autoscalers:
                if (key is None or other in (None, key)) and started.is_running:
                    raise error("LANESHIFT_AUTOSCALER_RUNS", policy=started.policy)
            return key

        made = Autoscaler(self._host.start(wanted, followed))
        self._autoscalers = [*((k, a) for k, a in self._autoscalers if a.is_running), (key, made)]
        return made

    def close(self) -> None:
        """End the connection to a control service; a session of this process is left as it is."""
        self._host.close()

    def __enter__(self) -> Application:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<laneshift {self._version}>"
