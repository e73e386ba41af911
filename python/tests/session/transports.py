"""The ways to an application, each with all its layers above a gateway of no JVM.

py4j, gRPC with the operator's token, and a Spark Connect session with its own.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

import laneshift
from laneshift.control.calls import SERVICE
from laneshift.control.running import RunningAutoscalers
from laneshift.control.server import ControlServer
from laneshift.control.service import ControlService
from laneshift.control.settings import ControlSettings, ServerTls
from laneshift.control.tokens import signed
from laneshift.errors import LaneshiftError
from laneshift.plugin.gateway import ENTRY_CLASS
from laneshift.plugin.v1 import control_pb2 as pb
from laneshift.plugin.wire import failure
from plugin.fake import FakeGateway

TRANSPORTS = ("py4j", "grpc", "connect")
TOKEN = "a-token-of-the-tests"
TENANT_KEY = "a-key-of-the-tests"


REQUESTS: dict[str, Any] = {
    "Claim": pb.ClaimRequest,
    "Release": pb.ReleaseRequest,
    "ClaimKeys": pb.ClaimKeysRequest,
    "DemandExecutors": pb.DemandExecutorsRequest,
    "AwaitPressed": pb.AwaitPressedRequest,
    "Decided": pb.Decision,
} | {each.name: getattr(pb, each.input_type.name) for each in SERVICE.methods}
REPLIES: dict[str, Any] = {
    "Claim": pb.DoneReply,
    "Release": pb.DoneReply,
    "ClaimKeys": pb.AppliedReply,
    "DemandExecutors": pb.DemandExecutorsReply,
    "AwaitPressed": pb.AwaitPressedReply,
    "Decided": pb.DoneReply,
} | {each.name: getattr(pb, each.output_type.name) for each in SERVICE.methods}


class Namespace:
    def __init__(self, **names: Any) -> None:
        self.__dict__.update(names)


class JavaClass:
    """The plugin's entry class as py4j shows it."""

    _gateway_client = None

    def __init__(self, gateway: FakeGateway) -> None:
        self._gateway = gateway

    def version(self) -> str:
        return self._gateway.version()

    def ask(self, method: str, request: str) -> str:
        try:
            asked = REQUESTS[method].FromString(b64decode(request))
            reply = self._gateway.ask(method, asked, REPLIES[method])
            answer = pb.Answer(reply=reply.SerializeToString())
        except LaneshiftError as problem:
            answer = pb.Answer(failure=failure(problem))
        return b64encode(answer.SerializeToString()).decode()


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


@contextmanager
def another_service(**methods: Callable[[Any], Any]) -> Iterator[str]:
    """The address of a service of another release, which has these methods, each of a request."""
    handlers = {}
    for name, answer in methods.items():
        found = SERVICE.methods_by_name[name]
        handler = grpc.unary_stream_rpc_method_handler
        if not found.server_streaming:
            handler = grpc.unary_unary_rpc_method_handler
        handlers[name] = handler(
            lambda request, _, answer=answer: answer(request),
            request_deserializer=REQUESTS[name].FromString,
            response_serializer=REPLIES[name].SerializeToString,
        )
    server = grpc.server(futures.ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(SERVICE.full_name, handlers),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()
