"""The ways to a live object: py4j and gRPC, each with all its layers above a gateway of no JVM."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import laneshift
from laneshift.control.process import serve  # noqa: F401  imports all of the server
from laneshift.control.running import RunningPolicies
from laneshift.control.server import ControlServer
from laneshift.control.service import ControlService
from laneshift.control.settings import ControlSettings, ServerTls
from laneshift.errors import LaneshiftError
from laneshift.plugin.gateway import ENTRY_CLASS
from plugin.fake import FakeGateway

TRANSPORTS = ("py4j", "grpc")
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
        "moveShard": "move_shard",
        "limitSource": "limit_source",
        "configEntries": "config_entries",
    }

    def __init__(self, gateway: FakeGateway) -> None:
        self._gateway = gateway

    def __getattr__(self, name: str) -> Callable[..., str]:
        if name == "version":
            return self._gateway.version
        method = getattr(self._gateway, self.NAMES.get(name, name))

        def call(*arguments: Any) -> str:
            if name == "decided":
                arguments = (json.loads(arguments[0]),)
            if name == "setLanes":
                *others, elsewhere = arguments
                arguments = (*others, json.loads(elsewhere) if elsewhere else None)
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
    policies: RunningPolicies | None = None,
) -> Iterator[str]:
    """A control service of ``gateway`` on a free port, and its address."""
    wanted = wanted or settings()
    policies = policies or RunningPolicies()
    server = ControlServer(
        wanted,
        lambda gate: ControlService(
            gateway, policies, gate.caller, tenants_share=wanted.tenants_share, tell=tell
        ),
        tell,
    )
    try:
        yield server.start()
    finally:
        server.stop()
        policies.stop_all()


@contextmanager
def facade(transport: str, gateway: FakeGateway) -> Iterator[laneshift.Laneshift]:
    """The live object over a transport."""
    if transport == "py4j":
        yield laneshift.attach(session(gateway))
        return
    with serving(gateway) as address, laneshift.attach(address, TOKEN) as live:
        yield live
