"""The plugin as a client of the control service sees it: one call of the service each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import grpc
from google.protobuf.message import Message

from laneshift.autoscale.decisions import Decision
from laneshift.control.address import NO_TLS, Address, ClientTls
from laneshift.control.failures import failure
from laneshift.control.protocol import MOST_REPLY_BYTES, REVISION, SCHEME, TOKEN_KEY
from laneshift.errors import InputError, SessionError, error
from laneshift.plugin.gateway import Gateway
from laneshift.plugin.snapshot import Snapshot
from laneshift.plugin.v1 import control_pb2 as pb
from laneshift.plugin.wire import M, filled
from laneshift.version import __version__

if TYPE_CHECKING:
    from laneshift.autoscale.options import AutoscaleOptions

SERVICE = f"/{pb.DESCRIPTOR.services_by_name['Control'].full_name}/"

TIMEOUT_S = 20.0
"""Of a call that is no stream: executors are asked, and a dead autoscaler's claim is waited for."""

PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""Before each look whether a service that was lost is there again, a minute in all (s, ours)."""

LOST = "LANESHIFT_CONTROL_UNREACHABLE"

OPTIONS: tuple[tuple[str, Any], ...] = (
    ("grpc.max_receive_message_length", MOST_REPLY_BYTES),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # Else gRPC itself looks less and less often, every two minutes in the end.
    ("grpc.max_reconnect_backoff_ms", 5_000),
    # Not from one client object's channel to the next: their certificates may differ.
    ("grpc.use_local_subchannel_pool", 1),
)


def credentials(tls: ClientTls) -> grpc.ChannelCredentials | None:
    """None without TLS. Errors: InputError for a file that is none, a certificate without a key."""
    if tls.ca is None and tls.cert is None and tls.key is None:
        return None
    if (tls.cert is None) != (tls.key is None):
        missing = "cert" if tls.cert is None else "key"
        raise InputError(missing, "nothing", "a PEM file", "A certificate needs its key.")
    return grpc.ssl_channel_credentials(
        _pem("ca", tls.ca), _pem("key", tls.key), _pem("cert", tls.cert)
    )


def _pem(field: str, file: str | Path | None) -> bytes | None:
    if file is None:
        return None
    try:
        text = Path(file).read_bytes()
    except OSError as cause:
        raise InputError(
            field, f"{file} ({cause.strerror})", "a PEM file", "Correct the path."
        ) from cause
    if b"-----BEGIN " not in text:
        raise InputError(field, str(file), "a PEM file: -----BEGIN ...", "Convert it with openssl.")
    return text


class ControlClient(Gateway):
    """A gateway to the application whose control service is at ``address``.

    Every method may be called from any thread, and raises the errors that the plugin's own gateway
    raises, and SessionErrors if the service does not answer or lets nobody in.
    """

    def __init__(
        self,
        address: Address,
        token: str,
        tls: ClientTls = NO_TLS,
        timeout_s: float = TIMEOUT_S,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self.address = address
        self._pause = pause
        self._tls = tls
        self._metadata = ((TOKEN_KEY, SCHEME + token),)
        self._timeout_s = timeout_s
        secured = credentials(tls)
        if secured is None:
            self._channel = grpc.insecure_channel(str(address), OPTIONS)
        else:
            self._channel = grpc.secure_channel(str(address), secured, OPTIONS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection."""
        self._channel.close()

    # ---- as the plugin's own gateway

    def version(self) -> str:
        """Version of the application's laneshift. Errors: SessionError if it is too old."""
        said = self.ask("Hello", pb.HelloRequest(version=__version__), pb.HelloReply)
        if said.revision < REVISION:
            raise error(
                "LANESHIFT_CONTROL_VERSION",
                address=self.address,
                found=f"laneshift {said.version}, revision {said.revision} of the protocol",
                client=f"{__version__} (revision {REVISION})",
            )
        return said.version

    def ask(self, method: str, request: Message, reply: type[M]) -> M:
        call = self._channel.unary_unary(
            SERVICE + method,
            request_serializer=type(request).SerializeToString,
            response_deserializer=reply.FromString,
        )
        try:
            return call(request, metadata=self._metadata, timeout=self._timeout_s)
        except grpc.RpcError as cause:
            raise failure(cause, method, self.address, self._tls) from cause
        except ValueError as cause:  # a channel that was closed
            raise error(
                "LANESHIFT_CONTROL_FAILED", method=method, address=self.address, cause=str(cause)
            ) from cause

    # ---- streams

    def watch(self, interval_s: float) -> Iterator[Snapshot]:
        """A snapshot each interval, for as long as they are taken.

        What is inside one may be the same objects as in the one before.
        """
        request = pb.WatchSnapshotsRequest(interval_s=interval_s)
        last: Snapshot | None = None
        for reply in self._kept("WatchSnapshots", lambda: request, pb.SnapshotReply):
            if not reply.same:
                last = filled(Snapshot, reply)
            elif last is not None:
                last = replace(last, time_ms=reply.time_ms, count_ms=reply.count_ms)
            else:
                raise error(
                    "LANESHIFT_CONTROL_FAILED", method="WatchSnapshots", address=self.address,
                    cause="its first snapshot is said to be that of before",
                )  # fmt: skip
            yield last

    def decisions(
        self, limit: int = 100, *, follow: bool = False, id: str = ""
    ) -> Iterator[Decision]:
        """The newest decisions, oldest first; if ``follow``, then all after them, without a gap.

        The service is asked now, not when the first is taken.
        """
        request = pb.DecisionsRequest(limit=max(limit, 1), id=id)
        newest = list(self._stream("Decisions", request, pb.Decision, timeout_s=self._timeout_s))
        after = newest[-1].number if newest else 0
        shown = map(Decision.of_message, newest[max(0, len(newest) - limit) :])
        return chain(shown, self._following(after, id) if follow else ())

    def _following(self, after: int, id: str) -> Iterator[Decision]:
        last = after

        def request() -> pb.DecisionsRequest:
            return pb.DecisionsRequest(follow=True, id=id, after=last)

        for reply in self._kept("Decisions", request, pb.Decision):
            last = reply.number
            yield Decision.of_message(reply)

    # ---- policies

    def autoscale(
        self,
        policy: str,
        parameters: Mapping[str, str],
        target_latency_s: float | None,
        options: AutoscaleOptions,
    ) -> pb.Autoscaler:
        """Start a policy there; ``parameters`` are JSON texts."""
        request = pb.AutoscaleRequest(
            policy=policy,
            parameters=parameters,
            target_latency_s=target_latency_s,
            interval_s=options.interval_s,
            query=options.query or "",
            cores=options.cores,
            dry_run=options.dry_run,
            max_executors=options.max_executors,
        )
        return self.ask("Autoscale", request, pb.Autoscaler)

    def stop_autoscaler(self, id: str = "") -> pb.Autoscaler:
        """Stop a policy; the only one that runs if ``id`` is empty."""
        return self.ask("StopAutoscaler", pb.StopAutoscalerRequest(id=id), pb.Autoscaler)

    def pause_autoscaler(self, id: str, paused: bool) -> pb.Autoscaler:
        """Let a policy send nothing, or send again."""
        request = pb.PauseAutoscalerRequest(id=id, paused=paused)
        return self.ask("PauseAutoscaler", request, pb.Autoscaler)

    def autoscalers(self) -> tuple[pb.Autoscaler, ...]:
        """Policies that run there, and those that did, oldest first."""
        return tuple(self.ask("Autoscalers", pb.AutoscalersRequest(), pb.AutoscalersReply).runs)

    def _kept(self, method: str, request: Callable[[], Message], reply: type[M]) -> Iterator[M]:
        """A stream without end: asked for again after the connection was lost."""
        while True:
            try:
                yield from self._stream(method, request(), reply)
            except SessionError as lost:
                if lost.condition != LOST:
                    raise
            else:
                return
            self._find_again()

    def _find_again(self) -> None:
        """Wait until the service answers. Errors: what it says of that, or that it does not."""
        for pause in PAUSES_S:
            self._pause(pause)
            try:
                self.version()
            except SessionError as lost:
                if lost.condition != LOST:
                    raise
            else:
                return
        self.version()

    def _stream(
        self, method: str, request: Message, reply: type[M], timeout_s: float | None = None
    ) -> Iterator[M]:
        call = self._channel.unary_stream(
            SERVICE + method,
            request_serializer=type(request).SerializeToString,
            response_deserializer=reply.FromString,
        )(request, metadata=self._metadata, timeout=timeout_s)
        try:
            yield from call
        except grpc.RpcError as cause:
            raise failure(cause, method, self.address, self._tls) from cause
        finally:
            call.cancel()
