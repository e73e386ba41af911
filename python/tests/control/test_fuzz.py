"""Garbage, wrong tokens and half-open connections: nobody in, nothing broken. Prints its seed."""

from __future__ import annotations

import os
import random
import socket
import threading

import grpc
import pytest

import laneshift
from autoscale.scripted import until
from laneshift.control.protocol import SCHEME, TOKEN_KEY
from laneshift.plugin.v1 import control_pb2 as pb
from plugin.fake import FakeGateway
from session.transports import TOKEN, serving

SEED = int(os.environ["LANESHIFT_SEED"])
MANY = int(os.environ.get("LANESHIFT_REQUESTS", "5000"))
requests = pytest.mark.parametrize(
    "requests", [100, pytest.param(MANY, marks=pytest.mark.deep("mutants"))]
)
METHODS = [method.name for method in pb.DESCRIPTOR.services_by_name["Control"].methods]
CODES = {
    grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.INTERNAL,
}  # fmt: skip


def garbage(chance: random.Random) -> bytes:
    """Bytes at random, or a request with a few of its bytes changed."""
    if chance.random() < 0.5:
        return chance.randbytes(chance.choice((0, 1, 5, 50, 500)))
    wish = pb.LanesWish(query="running", operator=0, partition=1, lanes=2)
    request = pb.SetLanesRequest(wishes=[wish])
    packed = bytearray(request.SerializeToString())
    for _ in range(chance.randrange(1, 4)):
        packed[chance.randrange(len(packed))] = chance.randrange(256)
    return bytes(packed)


def ended(channel: grpc.Channel, method: str, request: bytes, token: str) -> grpc.StatusCode:
    """How a call of raw bytes ends; a stream is left after its first answer."""
    call = channel.unary_stream(f"/laneshift.control.v1.Control/{method}")(
        request, metadata=((TOKEN_KEY, SCHEME + token),)
    )
    try:
        for _ in call:
            call.cancel()
            return grpc.StatusCode.OK
        return call.code()
    except grpc.RpcError:
        return call.code()


@pytest.fixture
def chance() -> random.Random:
    print(f"LANESHIFT_SEED={SEED}")
    return random.Random(SEED)


@requests
def test_nobody_without_the_token_gets_anything(chance: random.Random, requests: int) -> None:
    gateway, said = FakeGateway(), list[str]()
    with serving(gateway, tell=said.append) as address, grpc.insecure_channel(address) as channel:
        for _ in range(requests):
            token = "".join(chance.choices("abc.-_09" + TOKEN, k=chance.choice((0, 1, 20, 64))))
            method = chance.choice([*METHODS, "Nothing"])
            code = ended(channel, method, garbage(chance), token)
            assert code is grpc.StatusCode.UNAUTHENTICATED, (code, method, token)
        assert gateway.sent == [] and gateway.asked == []
        assert len(said) <= 2
        assert laneshift.attach(address, TOKEN).snapshot().queries


@requests
def test_garbage_with_the_token_breaks_nothing(chance: random.Random, requests: int) -> None:
    methods = [m for m in METHODS if m not in ("WatchSnapshots", "Decisions")]
    with serving(FakeGateway(), tell=lambda _: None) as address:
        before = threading.active_count()
        files = len(os.listdir("/proc/self/fd"))
        with grpc.insecure_channel(address) as channel:
            for _ in range(requests):
                method = chance.choice(methods)
                code = ended(channel, method, garbage(chance), TOKEN)
                assert code in CODES, (code, method)
            watch = pb.WatchSnapshotsRequest(interval_s=1).SerializeToString()
            for method in ("WatchSnapshots", "Decisions"):
                for _ in range(20):
                    ended(channel, method, watch, TOKEN)
            too_large = ended(channel, "SetLanes", bytes(1 << 20), TOKEN)
            assert too_large is grpc.StatusCode.RESOURCE_EXHAUSTED
        with laneshift.attach(address, TOKEN) as app:
            assert app.query("running").set_lanes(2, partition=0).applied == "now"
        assert threading.active_count() <= before + 140
        assert len(os.listdir("/proc/self/fd")) <= files + 20


def test_raw_bytes_and_half_open_connections(chance: random.Random) -> None:
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    with serving(FakeGateway(), tell=lambda _: None) as address:
        host, _, port = address.rpartition(":")
        files = len(os.listdir("/proc/self/fd"))
        held = []
        for _ in range(150):
            raw = socket.create_connection((host, int(port)))
            raw.sendall(
                chance.choice((b"", preface, b"GET / HTTP/1.1\r\n\r\n", chance.randbytes(99)))
            )
            held.append(raw)
        with laneshift.attach(address, TOKEN) as app:  # while they are open
            assert app.query("running").set_lanes(2, partition=0).applied == "now"
        for raw in held:
            raw.close()
        until(lambda: len(os.listdir("/proc/self/fd")) <= files + 20)  # or connections leak


def test_more_watchers_than_there_is_room_for_are_refused() -> None:
    from laneshift.control.server import CALLS

    with serving(FakeGateway()) as address:
        clients = [laneshift.attach(address, TOKEN) for _ in range(2)]
        streams = [clients[i % 2].watch(60) for i in range(CALLS)]
        for stream in streams:
            next(stream)
        with pytest.raises(laneshift.SessionError, match=r"resource exhausted|Concurrent RPC"):
            clients[0].snapshot()
        for stream in streams:
            stream.close()  # type: ignore[attr-defined]

        def answers() -> bool:
            try:
                return bool(clients[0].snapshot())
            except laneshift.SessionError:
                return False

        until(answers)
        for client in clients:
            client.close()
