"""The plugin as a client of the control service sees it: one call of the service each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import grpc
from google.protobuf.message import Message

from laneshift.control.address import NO_TLS, Address, ClientTls
from laneshift.control.codec import snapshot_json, to_json
from laneshift.control.failures import failure
from laneshift.control.protocol import MOST_REPLY_BYTES, REVISION, SCHEME, TOKEN_KEY
from laneshift.control.v1 import control_pb2 as pb
from laneshift.control.v1.control_pb2_grpc import ControlStub
from laneshift.errors import InputError, SessionError, error
from laneshift.version import __version__

if TYPE_CHECKING:
    from laneshift.autoscale.options import AutoscaleOptions

Q = TypeVar("Q", bound=Message)
R = TypeVar("R", bound=Message)

TIMEOUT_S = 20.0
"""Of a call that is no stream: executors are asked, and a dead scheduler's claim is waited for."""

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


class ControlClient:
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
        self._stub = ControlStub(self._channel)

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
        said = self._call("Hello", self._stub.Hello, pb.HelloRequest(version=__version__))
        if said.revision < REVISION:
            raise error(
                "LANESHIFT_CONTROL_VERSION",
                address=self.address,
                found=f"laneshift {said.version}, revision {said.revision} of the protocol",
                client=f"{__version__} (revision {REVISION})",
            )
        return said.version

    def snapshot(self) -> dict[str, Any]:
        return snapshot_json(self._call("Snapshot", self._stub.Snapshot, pb.SnapshotRequest()))

    def set_lanes(
        self,
        query: str,
        operator: int,
        partition: int | None,
        lanes: int,
        elsewhere: Mapping[str, int] | None = None,
    ) -> dict[str, Any]:
        request = pb.SetLanesRequest(
            query=query,
            operator=operator,
            partition=partition,
            lanes=lanes,
            elsewhere=elsewhere or {},
            keep_elsewhere=elsewhere is None,
        )
        return to_json(self._call("SetLanes", self._stub.SetLanes, request))

    def set_tasks(self, query: str, operator: int, tasks: str) -> dict[str, Any]:
        request = pb.SetTasksRequest(query=query, operator=operator, tasks=tasks)
        return to_json(self._call("SetTasks", self._stub.SetTasks, request))

    def rescale(self, query: str, partitions: int) -> dict[str, Any]:
        request = pb.RescaleRequest(query=query, partitions=partitions)
        return to_json(self._call("Rescale", self._stub.Rescale, request))

    def rescaling(self, query: str) -> dict[str, Any]:
        request = pb.RescalingRequest(query=query)
        return to_json(self._call("Rescaling", self._stub.Rescaling, request))

    def cancel_rescale(self, query: str) -> dict[str, Any]:
        request = pb.CancelRescaleRequest(query=query)
        return to_json(self._call("CancelRescale", self._stub.CancelRescale, request))

    def move_shard(
        self, query: str, operator: int, partition: int, shard: int, lane: int
    ) -> dict[str, Any]:
        request = pb.MoveRequest(
            query=query, operator=operator, partition=partition, shard=shard, to_lane=lane
        )
        return to_json(self._call("Move", self._stub.Move, request))

    def handoffs(self, query: str, limit: int) -> list[dict[str, Any]]:
        request = pb.HandoffsRequest(query=query, limit=limit)
        return [to_json(h) for h in self._call("Handoffs", self._stub.Handoffs, request).handoffs]

    def limit_source(self, query: str, rate: float, seconds: float) -> dict[str, Any]:
        request = pb.LimitSourceRequest(query=query, rows_per_second=rate, duration_s=seconds)
        return to_json(self._call("LimitSource", self._stub.LimitSource, request))

    # ---- streams

    def watch(self, interval_s: float) -> Iterator[dict[str, Any]]:
        """A snapshot each interval, for as long as they are taken.

        What is inside one may be the same objects as in the one before.
        """
        request = pb.WatchSnapshotsRequest(interval_s=interval_s, may_say_same=True)

        def opened() -> Any:
            return self._stub.WatchSnapshots(request, metadata=self._metadata)

        last: dict[str, Any] | None = None
        for reply in self._kept("WatchSnapshots", opened):
            if not reply.same:
                last = snapshot_json(reply)
            elif last is not None:
                last = last | {"time_ms": reply.time_ms}
            else:
                raise error(
                    "LANESHIFT_CONTROL_FAILED", method="WatchSnapshots", address=self.address,
                    cause="its first snapshot is said to be that of before",
                )  # fmt: skip
            yield last

    def decisions(
        self, limit: int = 100, *, follow: bool = False, id: str = ""
    ) -> Iterator[dict[str, Any]]:
        """The newest decisions, oldest first; if ``follow``, then all after them, without a gap.

        The service is asked now, not when the first is taken.
        """
        request = pb.DecisionsRequest(limit=max(limit, 1), id=id)
        call = self._stub.Decisions(request, metadata=self._metadata, timeout=self._timeout_s)
        newest = list(self._stream("Decisions", call))
        after = newest[-1].number if newest else 0
        shown = map(to_json, newest[max(0, len(newest) - limit) :])
        return chain(shown, self._following(after, id) if follow else ())

    def _following(self, after: int, id: str) -> Iterator[dict[str, Any]]:
        last = after

        def opened() -> Any:
            request = pb.DecisionsRequest(follow=True, id=id, after=last)
            return self._stub.Decisions(request, metadata=self._metadata)

        for reply in self._kept("Decisions", opened):
            last = reply.number
            yield to_json(reply)

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
        return self._call("Autoscale", self._stub.Autoscale, request)

    def stop_autoscaler(self, id: str = "") -> pb.Autoscaler:
        """Stop a policy; the only one that runs if ``id`` is empty."""
        return self._call(
            "StopAutoscaler", self._stub.StopAutoscaler, pb.StopAutoscalerRequest(id=id)
        )

    def pause_autoscaler(self, id: str, paused: bool) -> pb.Autoscaler:
        """Let a policy send nothing, or send again."""
        request = pb.PauseAutoscalerRequest(id=id, paused=paused)
        return self._call("PauseAutoscaler", self._stub.PauseAutoscaler, request)

    def autoscalers(self) -> tuple[pb.Autoscaler, ...]:
        """Policies that run there, and those that did, oldest first."""
        return tuple(
            self._call("Autoscalers", self._stub.Autoscalers, pb.AutoscalersRequest()).runs
        )

    def _call(self, method: str, call: grpc.UnaryUnaryMultiCallable[Q, R], request: Q) -> R:
        try:
            return call(request, metadata=self._metadata, timeout=self._timeout_s)
        except grpc.RpcError as cause:
            raise failure(cause, method, self.address, self._tls) from cause
        except ValueError as cause:  # a channel that was closed
            raise error(
                "LANESHIFT_CONTROL_FAILED", method=method, address=self.address, cause=str(cause)
            ) from cause

    def _kept(self, method: str, opened: Callable[[], Any]) -> Iterator[Any]:
        """A stream without end: ``opened`` again after the connection was lost."""
        while True:
            try:
                yield from self._stream(method, opened())
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

    def _stream(self, method: str, call: Any) -> Iterator[Any]:
        try:
            yield from call
        except grpc.RpcError as cause:
            raise failure(cause, method, self.address, self._tls) from cause
        finally:
            call.cancel()
