"""The ways to an application, each with all its layers above a gateway of no JVM.

py4j, gRPC with the operator's token, and a Spark Connect session with its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import laneshift
from laneshift.control.process import serve  # noqa: F401  imports all of the server
from laneshift.control.running import RunningAutoscalers
from laneshift.control.server import ControlServer
from laneshift.control.service import ControlService
from laneshift.control.settings import ControlSettings, ServerTls
from laneshift.control.tokens import signed
from laneshift.errors import LaneshiftError
from laneshift.plugin.gateway import ALL_PARTITIONS, ENTRY_CLASS
from plugin.fake import FakeGateway

TRANSPORTS = ("py4j", "grpc", "connect")
TOKEN = "a-token-of-the-tests"
TENANT_KEY = "a-key-of-the-tests"


class Namespace:
    def __init__(self, **names: Any) -> None:
        self.__dict__.update(names)


class JavaClass:
    """The plugin's entry class as py4j shows it: it answers in the plugin's JSON."""

    NAMES: ClassVar = {
        "setLanes": "set_lanes",
        "setTasks": "set_tasks",
        "cancelRescale": "cancel_rescale",
        "claimKeys": "claim_keys",
        "moveShard": "move_shard",
        "limitSource": "limit_source",
        "demandExecutors": "demand_executors",
        "awaitPressed": "await_pressed",
    }

    _gateway_client = None

    def __init__(self, gateway: FakeGateway) -> None:
        self._gateway = gateway

    def _many(self, wishes: str) -> str:
        names = ("query", "operator", "partition", "lanes")
        return json.dumps(
            {
                "ok": [
                    self.setLanes(
                        *(wish[name] for name in names),
                        json.dumps(wish["elsewhere"]) if wish["elsewhere"] is not None else "",
                    )
                    for wish in json.loads(wishes)
                ]
            }
        )

    def __getattr__(self, name: str) -> Callable[..., str]:
        if name == "version":
            return self._gateway.version
        if name == "setManyLanes":
            return self._many
        method = getattr(self._gateway, self.NAMES.get(name, name))

        def call(*arguments: Any) -> str:
            if name == "decided":
                arguments = (json.loads(arguments[0]),)
            if name == "demandExecutors":
                *others, back = arguments
                arguments = (*others, json.loads(back))
            if name == "setLanes":
                *others, elsewhere = arguments
                query, operator, partition, lanes = others
                there = None if partition == ALL_PARTITIONS else partition
                hosts = json.loads(elsewhere) if elsewhere else None
                arguments = (query, operator, there, lanes, hosts)
            try:
                return json.dumps({"ok": method(*arguments)})
            except LaneshiftError as problem:
                said = {
                    "condition": problem.condition,
                    "message": str(problem).removeprefix(f"[{problem.condition}] "),
                    "parameters": problem.parameters,
                    "sqlstate": problem.sqlstate,
                }
                return json.dumps({"error": said})

        return call


def session(gateway: FakeGateway) -> Any:
    """A classic session whose plugin is ``gateway``."""
    found: Any = JavaClass(gateway)
    for name in reversed(ENTRY_CLASS.split(".")):
        found = Namespace(**{name: found})
    context = Namespace(_jsc=object(), getConf=lambda: Namespace(get=lambda _, default: default))
    return Namespace(_jvm=found, sparkContext=context)


class Connected:
    """A Spark Connect session: what its server's function gives, and where it is."""

    def __init__(self, *rows: tuple[str, str, str], problem: str = "") -> None:
        self.rows = rows
        self.problem = problem
        self.client = Namespace(host="127.0.0.1")

    def sql(self, text: str) -> Any:
        assert text.endswith("FROM laneshift_control()")
        return self

    def collect(self) -> Any:
        if self.problem:
            raise RuntimeError(self.problem + "\nmore")
        return list(self.rows)


Connected.__module__ = "pyspark.sql.connect.session"


def settings(
    tls: ServerTls | None = None, *, port: int = 0, tenants_share: bool = False
) -> ControlSettings:
    nowhere = Path("/nowhere/token")
    return ControlSettings(port, "127.0.0.1", TOKEN, nowhere, False, tls, TENANT_KEY, tenants_share)


@contextmanager
def serving(
    gateway: Any,
    wanted: ControlSettings | None = None,
    tell: Callable[[str], None] = print,
    policies: RunningAutoscalers | None = None,
) -> Iterator[str]:
    """A control service of ``gateway`` on a free port, and its address."""
    wanted = wanted or settings()
    policies = policies or RunningAutoscalers()
    service = ControlService(gateway, policies, tenants_share=wanted.tenants_share, tell=tell)
    server = ControlServer(wanted, service, tell)
    try:
        yield server.start()
    finally:
        server.stop()
        policies.stop_all()


@contextmanager
def facade(transport: str, gateway: FakeGateway) -> Iterator[laneshift.Application]:
    """The application over a transport."""
    if transport == "py4j":
        yield laneshift.attach(session(gateway))
    else:
        with over_grpc(transport, gateway) as app:
            yield app


@contextmanager
def over_grpc(transport: str, gateway: Any) -> Iterator[laneshift.Application]:
    """The application of an operator, or of a Connect session, for which `gateway` is served."""
    if transport == "grpc":
        with serving(gateway) as address, laneshift.attach(address, TOKEN) as app:
            yield app
        return
    # Queries are not its own here: what a session may steer is in control/test_tenants.py.
    with serving(gateway, settings(tenants_share=True)) as address:
        host, _, port = address.rpartition(":")
        token = f"someone.{signed(TENANT_KEY.encode(), 'someone')}"
        spark: Any = Connected((host, port, token))
        with laneshift.attach(spark) as app:
            yield app
