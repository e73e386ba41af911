"""Who watches what does not change is told so, and by whom that is not understood, is not."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import laneshift
from control.test_codec import without_nothing
from laneshift.control.address import Address
from laneshift.control.client import ControlClient
from laneshift.control.codec import snapshot_json, to_message
from laneshift.control.feed import Content, SnapshotFeed
from laneshift.control.protocol import REVISION, SCHEME, TOKEN_KEY
from laneshift.control.replies import Replies
from laneshift.control.tokens import signed
from laneshift.control.v1 import control_pb2 as pb
from laneshift.control.v1.control_pb2_grpc import ControlServicer, add_ControlServicer_to_server
from laneshift.errors import SessionError, error
from plugin.fake import RUNNING, FakeGateway, query
from session.transports import TENANT_KEY, TOKEN, serving

WATCH = "/laneshift.control.v1.Control/WatchSnapshots"
NEW = {("WatchSnapshotsRequest", "may_say_same"), ("SnapshotReply", "same")}
"""What the protocol did not have when it could not tell that all is the same."""
OTHERS = "44444444-4444-4444-8444-444444444444"


def before() -> dict[str, Any]:
    """The messages of the protocol as they were without that, by name."""
    file = descriptor_pb2.FileDescriptorProto()
    pb.DESCRIPTOR.CopyToProto(file)
    for message in file.message_type:
        kept = [field for field in message.field if (message.name, field.name) not in NEW]
        assert len(message.field) - len(kept) == sum(message.name == name for name, _ in NEW)
        del message.field[:]
        message.field.extend(kept)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    made = message_factory.GetMessageClassesForFiles([file.name], pool)
    return {name.rpartition(".")[2]: kind for name, kind in made.items()}


class Still(FakeGateway):
    """Each snapshot is a second later than the one before; ``rows`` are all that changes."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = 7

    def snapshot(self) -> dict[str, Any]:
        self.data["time_ms"] += 1000
        self.data["queries"][0]["operators"][0]["partitions"][1]["rows_in"] = self.rows
        return super().snapshot()


@pytest.fixture
def gateway() -> Still:
    return Still()


@pytest.fixture
def address(gateway: Still) -> Iterator[str]:
    with serving(gateway) as found:
        yield found


@contextmanager
def raw(address: str, request: bytes, token: str = TOKEN) -> Iterator[Iterator[bytes]]:
    """The stream as bytes."""
    with grpc.insecure_channel(address) as channel:
        call = channel.unary_stream(WATCH)(request, metadata=((TOKEN_KEY, SCHEME + token),))
        yield call
        call.cancel()


def rows(said: pb.SnapshotReply) -> int:
    return said.queries[0].operators[0].partitions[1].rows_in


def test_what_is_the_same_is_not_sent_again(gateway: Still, address: str) -> None:
    request = pb.WatchSnapshotsRequest(interval_s=0.1, may_say_same=True)
    with raw(address, request.SerializeToString()) as stream:
        first = pb.SnapshotReply.FromString(next(stream))
        assert rows(first) == 7 and not first.same
        last = first
        for _ in range(3):
            packed = next(stream)
            same = pb.SnapshotReply.FromString(packed)
            assert same == pb.SnapshotReply(time_ms=same.time_ms, same=True) and len(packed) < 16
            assert same.time_ms > last.time_ms
            last = same
        for count in (8, 7):  # the way back is a change, too
            gateway.rows = count
            found = [last]
            while not found[-1].queries:
                assert len(found) < 50, "the change is never told"
                found.append(pb.SnapshotReply.FromString(next(stream)))
            assert rows(found[-1]) == count
            last = pb.SnapshotReply.FromString(next(stream))
            assert last.same


def test_a_watcher_sees_each_change_at_its_time(gateway: Still, address: str) -> None:
    with laneshift.attach(address, TOKEN) as app:
        seen: list[tuple[int, int]] = []
        reused = 0
        last: laneshift.Snapshot | None = None
        for asked, snapshot in enumerate(app.watch(0.1), 1):
            parts = snapshot.queries[0].operators[0].partitions
            assert (
                [p.partition for p in parts] == [0, 1] and snapshot.version and snapshot.executors
            )
            assert not seen or snapshot.time_ms > seen[-1][0]
            reused += last is not None and snapshot.queries is last.queries
            last = snapshot
            seen.append((snapshot.time_ms, parts[1].rows_in))
            if asked % 4 == 0:
                gateway.rows += 1
            # What was on its way is seen first.
            if asked >= 16 and parts[1].rows_in >= 9:
                break
    assert asked / 2 <= reused < asked - 2  # what is the same is not read again
    counts = [count for _, count in seen]
    assert counts == sorted(counts) and set(counts) >= {7, 8, 9}


def test_a_client_of_before_gets_whole_snapshots(gateway: Still, address: str) -> None:
    older = before()
    request = older["WatchSnapshotsRequest"](interval_s=0.1)
    with raw(address, request.SerializeToString()) as stream:
        for _ in range(4):
            packed = next(stream)
            said = older["SnapshotReply"].FromString(packed)
            assert rows(said) == 7 and said.executors[0].cores == 8
            assert not pb.SnapshotReply.FromString(packed).same


def test_a_service_of_before_is_watched_as_before() -> None:
    older, gateway = before(), Still()

    class Older(ControlServicer):
        def Hello(self, request: Any, context: Any) -> pb.HelloReply:  # noqa: N802
            return pb.HelloReply(version="0.0.1", revision=REVISION)

        def WatchSnapshots(self, request: Any, context: Any) -> Iterator[pb.SnapshotReply]:  # noqa: N802
            known = older["WatchSnapshotsRequest"].FromString(request.SerializeToString())
            assert known.interval_s == 0.1
            for _ in range(3):
                said = to_message(older["SnapshotReply"](), gateway.snapshot())
                yield pb.SnapshotReply.FromString(said.SerializeToString())

    server = grpc.server(futures.ThreadPoolExecutor(2))
    add_ControlServicer_to_server(Older(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with laneshift.attach(f"127.0.0.1:{port}", TOKEN) as app:
        assert [len(s.queries[0].operators[0].partitions) for s in app.watch(0.1)] == [2] * 3
    server.stop(None).wait()


def test_a_first_snapshot_that_says_nothing_is_an_error() -> None:
    class Wrong(ControlServicer):
        def WatchSnapshots(self, request: Any, context: Any) -> Iterator[pb.SnapshotReply]:  # noqa: N802
            yield pb.SnapshotReply(time_ms=1, same=True)

    server = grpc.server(futures.ThreadPoolExecutor(2))
    add_ControlServicer_to_server(Wrong(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with (
        ControlClient(Address.of(f"127.0.0.1:{port}"), TOKEN) as client,
        pytest.raises(SessionError, match=r"WatchSnapshots has failed .* that of before"),
    ):
        next(client.watch(0.1))
    server.stop(None).wait()


def test_another_sessions_query_is_no_change(gateway: Still) -> None:
    gateway.data["queries"][0]["tenant"] = "t1"
    gateway.data["queries"].append(query(OTHERS, "others", active=True) | {"tenant": "t2"})
    replies = Replies(SnapshotFeed(gateway.packed_snapshot))
    first = {tenant: replies.newest(tenant) for tenant in ("t1", "t2", None)}
    gateway.rows += 1
    then = {tenant: replies.newest(tenant) for tenant in ("t1", "t2", None)}
    same = {tenant: then[tenant].body is first[tenant].body for tenant in first}
    assert same == {"t1": False, "t2": True, None: False}
    assert [q.id for q in pb.SnapshotReply.FromString(then["t2"].whole).queries] == [OTHERS]
    assert then["t2"].time_ms > first["t2"].time_ms

    token = f"t2.{signed(TENANT_KEY.encode(), 't2')}"
    request = pb.WatchSnapshotsRequest(interval_s=0.1, may_say_same=True).SerializeToString()
    with serving(gateway) as address, raw(address, request, token) as stream:
        assert not pb.SnapshotReply.FromString(next(stream)).same
        for _ in range(3):
            gateway.rows += 1
            assert pb.SnapshotReply.FromString(next(stream)).same


def test_the_plugin_is_told_what_is_known(gateway: Still) -> None:
    asked: list[int] = []

    def ask(known: int) -> dict[str, Any]:
        asked.append(known)
        if len(asked) == 3:
            raise error("LANESHIFT_SESSION_STOPPED", method="snapshot")
        return gateway.packed_snapshot(known)

    now = [0.0]
    feed = SnapshotFeed(ask, clock=lambda: now[0])
    first = feed.newest()
    now[0] = 1.0
    second = feed.newest(0.5)
    assert second.content is first.content and second.time_ms > first.time_ms
    gateway.rows += 1
    now[0] = 2.0
    with pytest.raises(SessionError):
        feed.newest(0.5)
    third = feed.newest(0.5)  # what has failed is not what was asked for last
    assert third.content.number == 2 and third.content is not first.content
    assert asked == [0, 1, 1, 1]


def test_what_is_packed_is_what_is_said(gateway: Still) -> None:
    content = Content.of(gateway.packed_snapshot(0))
    whole = pb.SnapshotReply.FromString(content.head + content.queries[0].field)
    whole.time_ms = gateway.data["time_ms"]
    assert without_nothing(snapshot_json(whole)) == without_nothing(gateway.data)
    assert (content.queries[0].id, content.queries[0].name) == (RUNNING, "running")
    broken = gateway.packed_snapshot(0)
    broken["queries"][0]["bytes"] -= 1
    with pytest.raises(ValueError, match="bytes of a snapshot"):
        Content.of(broken)
