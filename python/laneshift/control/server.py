"""The gRPC server: what it listens on, and who gets through to the service."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any

import grpc

from laneshift.control.protocol import SCHEME, TOKEN_KEY
from laneshift.control.service import READY, ControlService
from laneshift.control.settings import PREFIX, ControlSettings, ServerTls
from laneshift.control.tokens import Caller, Tokens
from laneshift.control.v1.control_pb2_grpc import add_ControlServicer_to_server
from laneshift.errors import InputError, error

THREADS, CALLS = 136, 128
"""Calls at a time, watchers included; more are refused (ours). A thread starts when needed."""

MOST_REQUEST_BYTES = 64 << 10
TOLD = 1000
"""Peers whose refusals are remembered as told (ours)."""

OPTIONS: tuple[tuple[str, Any], ...] = (
    # Or a second server would share the port of the first without a word.
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", MOST_REQUEST_BYTES),
    ("grpc.max_metadata_size", 16 << 10),
    # Who has gone without a word is noticed.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
)


class Gate(grpc.ServerInterceptor):
    """Refuses every call without a valid token; says so once for each peer and reason."""

    def __init__(self, tokens: Tokens, tell: Callable[[str], None]) -> None:
        self._tokens = tokens
        self._tell = tell
        self._told: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def intercept_service(self, continuation: Any, details: Any) -> Any:
        presented = _presented(details.invocation_metadata)
        if presented and self._tokens.caller(presented) is not None:
            return continuation(details)
        why = "the token is not its own" if presented else "the call has no token"

        def refuse(request: bytes, context: grpc.ServicerContext) -> None:
            self._log(context.peer(), why)
            context.abort(grpc.StatusCode.UNAUTHENTICATED, why)

        return grpc.unary_unary_rpc_method_handler(refuse)

    def caller(self, context: grpc.ServicerContext) -> Caller:
        """Who has got through."""
        found = self._tokens.caller(_presented(context.invocation_metadata()))
        if found is None:
            raise error("LANESHIFT_CONTROL_REFUSED", address="this port", cause="no token")
        return found

    def _log(self, peer: str, why: str) -> None:
        host = peer.rpartition(":")[0] or peer
        with self._lock:
            if (host, why) in self._told or len(self._told) >= TOLD:
                return
            self._told.add((host, why))
        self._tell(f"control: refused {peer}: {why} (told once for {host})")


class ReadyReplies(grpc.ServerInterceptor):
    """Sends what the service has as bytes already without making bytes of it for each caller."""

    def intercept_service(self, continuation: Any, details: Any) -> Any:
        found = continuation(details)
        if found is None or details.method.rpartition("/")[2] not in READY:
            return found
        if found.unary_stream is not None:
            return grpc.unary_stream_rpc_method_handler(
                found.unary_stream, found.request_deserializer
            )
        return grpc.unary_unary_rpc_method_handler(found.unary_unary, found.request_deserializer)


def _presented(metadata: Any) -> str:
    for key, value in metadata or ():
        if key == TOKEN_KEY and isinstance(value, str) and value.startswith(SCHEME):
            return value[len(SCHEME) :].strip()
    return ""


class ControlServer:
    """Listens and answers until it is stopped."""

    def __init__(
        self,
        settings: ControlSettings,
        service: Callable[[Gate], ControlService],
        tell: Callable[[str], None],
    ) -> None:
        gate = Gate(Tokens(settings.token, settings.tenant_key), tell)
        self._service = service(gate)
        self._settings = settings
        self._pool = futures.ThreadPoolExecutor(THREADS, thread_name_prefix="laneshift control")
        self._server = grpc.server(
            self._pool,
            interceptors=[gate, ReadyReplies()],
            options=OPTIONS,
            maximum_concurrent_rpcs=CALLS,
        )
        add_ControlServicer_to_server(self._service, self._server)

    def start(self) -> str:
        """Listen; returns HOST:PORT. Errors: SessionError if the port is taken, InputError."""
        settings = self._settings
        where = f"{settings.address}:{settings.port}"
        try:
            if settings.tls is None:
                port = self._server.add_insecure_port(where)
            else:
                port = self._server.add_secure_port(where, _credentials(settings.tls))
        except (RuntimeError, ValueError) as cause:
            raise _not_listening(settings, where, cause) from cause
        if port == 0:
            raise _not_listening(settings, where, RuntimeError("it cannot be bound"))
        self._server.start()
        return f"{settings.address}:{port}"

    def stop(self) -> None:
        """End all calls; returns once they have ended, 2 s at most."""
        self._service.close()
        self._server.stop(grace=0.5).wait(2.0)
        self._pool.shutdown(wait=False, cancel_futures=True)


def _credentials(tls: ServerTls) -> grpc.ServerCredentials:
    return grpc.ssl_server_credentials(
        [(tls.key, tls.certificate)],
        root_certificates=tls.client_ca,
        require_client_auth=tls.client_ca is not None,
    )


def _not_listening(settings: ControlSettings, where: str, cause: Exception) -> Exception:
    """What an address that cannot be had says: a port may be free again later, the rest not."""
    import socket

    host = settings.address.strip("[]")
    try:
        family, kind, proto, _, at = socket.getaddrinfo(
            host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, proto) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(at)
    except socket.gaierror:
        return InputError(
            PREFIX + "address", settings.address, "a host name or IP address of this machine",
            "Use 127.0.0.1 for this machine only, or 0.0.0.0 for all its networks.",
        )  # fmt: skip
    except OSError as problem:
        if problem.errno == 98 or "in use" in str(problem):
            return error("LANESHIFT_CONTROL_PORT", address=where, cause="another process has it")
        if isinstance(problem, PermissionError):
            return error(
                "LANESHIFT_CONTROL_PORT", address=where, cause="ports below 1024 are root's"
            )
        return InputError(
            PREFIX + "address", settings.address, "an address of this machine",
            "Use 127.0.0.1 for this machine only, or 0.0.0.0 for all its networks.",
        )  # fmt: skip
    if settings.tls is not None:
        return InputError(
            PREFIX + "tls", str(cause)[:200], "a certificate and its own key, as PEM files",
            "Check them with openssl x509 -in FILE and openssl pkey -in FILE.",
        )  # fmt: skip
    return error("LANESHIFT_CONTROL_PORT", address=where, cause=str(cause)[:200])
