"""The gRPC server: what it listens on, and the threads that it has."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable
from concurrent import futures
from contextlib import suppress
from typing import Any

import grpc

from laneshift.control.calls import Calls
from laneshift.control.service import ControlService
from laneshift.control.settings import PREFIX, ControlSettings, ServerTls
from laneshift.control.tokens import Tokens
from laneshift.errors import InputError, error

THREADS, CALLS = 136, 128
"""Calls at a time, watchers included; more are refused (ours). A thread starts when needed."""

MOST_REQUEST_BYTES = 256 << 10
"""Of a request: a wish for each of a few thousand partitions (ours)."""
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


class ControlServer:
    """Listens and answers until it is stopped."""

    def __init__(
        self, settings: ControlSettings, service: ControlService, tell: Callable[[str], None]
    ) -> None:
        self._service = service
        self._settings = settings
        self._tell = tell
        self._pool = futures.ThreadPoolExecutor(THREADS, thread_name_prefix="laneshift control")
        self._calls = Calls(service, Tokens(settings.token, settings.tenant_key), tell)
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(self._pool)
        self._thread = threading.Thread(target=self._run, name="laneshift control", daemon=True)
        self._server: grpc.aio.Server | None = None

    def start(self) -> str:
        """Listen; returns HOST:PORT. Errors: SessionError if the port is taken, InputError."""
        self._thread.start()
        try:
            return asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()
        except BaseException:
            self._end()
            raise

    async def _start(self) -> str:
        settings = self._settings
        where = f"{settings.address}:{settings.port}"
        server = grpc.aio.server(
            handlers=[self._calls], options=OPTIONS, maximum_concurrent_rpcs=CALLS
        )
        try:
            if settings.tls is None:
                port = server.add_insecure_port(where)
            else:
                port = server.add_secure_port(where, Certificates(settings.tls, self._tell).shown())
        except (RuntimeError, ValueError) as cause:
            raise _not_listening(settings, where, cause) from cause
        if port == 0:
            raise _not_listening(settings, where, RuntimeError("it cannot be bound"))
        await server.start()
        self._server = server
        return f"{settings.address}:{port}"

    def stop(self) -> None:
        """End all calls; returns once they have ended, 2 s at most."""
        if self._server is None:
            return
        server, self._server = self._server, None
        self._service.close()
        with suppress(futures.TimeoutError):
            asyncio.run_coroutine_threadsafe(server.stop(grace=0.5), self._loop).result(2.0)
        self._end()

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.close()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(2.0)
        self._pool.shutdown(wait=False, cancel_futures=True)


class Certificates:
    """What the server shows of itself: its files are looked at for each client that comes, so that
    a certificate is renewed by other files of the same names.
    """

    def __init__(self, tls: ServerTls, tell: Callable[[str], None]) -> None:
        self._tls = tls
        self._tell = tell
        self._told = ""
        self._texts = tls.texts()

    def shown(self) -> grpc.ServerCredentials:
        """For gRPC."""
        return grpc.dynamic_ssl_server_credentials(
            self._of(self._texts),
            self._renewed,  # type: ignore[arg-type]  # None is allowed: no others than before
            self._tls.client_ca is not None,
        )

    def _renewed(self) -> grpc.ServerCertificateConfiguration | None:
        """The files, if they are others than before, and a whole: they come one after the other."""
        try:
            texts = self._tls.texts()
            if texts == self._texts:
                return None
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
                self._tls.certificate, self._tls.key
            )
        except (InputError, OSError) as problem:  # an SSLError is an OSError
            if str(problem) != self._told:
                self._told = str(problem)
                self._tell(f"control: the certificate of before is shown on: {problem}")
            return None
        self._texts, self._told = texts, ""
        self._tell(f"control: shows the new certificate of {self._tls.certificate}")
        return self._of(texts)

    def _of(self, texts: tuple[bytes, bytes, bytes | None]) -> grpc.ServerCertificateConfiguration:
        key, certificate, client_ca = texts
        return grpc.ssl_server_certificate_configuration([(key, certificate)], client_ca)


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
