"""Who watches what does not change is told so, and by whom that is not understood, is not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest

import laneshift
from laneshift.control.address import Address
from laneshift.control.client import ControlClient
from laneshift.control.feed import SnapshotFeed
from laneshift.control.protocol import SCHEME, TOKEN_KEY
from laneshift.control.replies import Replies
from laneshift.control.tokens import signed
from laneshift.errors import SessionError, error
from laneshift.plugin.v1 import control_pb2 as pb
from plugin.fake import FakeGateway, query
from session.transports import TENANT_KEY, TOKEN, another_service, serving

WATCH = "/laneshift.control.v1.Control/WatchSnapshots"
OTHERS = "44444444-4444-4444-8444-444444444444"


class Still(FakeGateway):
    """Each snapshot is a second later than the one before; ``rows`` are all that changes."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = 7

    def on_snapshot(self) -> dict[str, Any]:
        self.data["time_ms"] += 1000
        self.data["queries"][0]["operators"][0]["partitions"][1]["rows_in"] = self.rows
        return super().on_snapshot()


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
    request = pb.WatchSnapshotsRequest(interval_s=0.1)
    with raw(address, request.SerializeToString()) as stream:
        first = pb.SnapshotReply.FromString(next(stream))
        assert rows(first) == 7 and not first.same
        last = first
        for _ in range(3):
            packed = next(stream)
            same = pb.SnapshotReply.FromString(packed)
            assert same == pb.SnapshotReply(time_ms=same.time_ms, same=True, number=same.number)
            assert len(packed) < 24
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


def test_a_first_snapshot_that_says_nothing_is_an_error() -> None:
    wrong = another_service(WatchSnapshots=lambda _: iter([pb.SnapshotReply(time_ms=1, same=True)]))
    with (
        wrong as address,
        ControlClient(Address.of(address), TOKEN) as client,
        pytest.raises(SessionError, match=r"WatchSnapshots has failed .* that of before"),
    ):
        next(client.watch(0.1))


def test_another_sessions_query_is_no_change(gateway: Still) -> None:
    gateway.data["queries"][0]["tenant"] = "t1"
    gateway.data["queries"].append(query(OTHERS, "others", active=True) | {"tenant": "t2"})
    replies = Replies(SnapshotFeed(gateway.said))
    first = {tenant: replies.newest(tenant) for tenant in ("t1", "t2", None)}
    gateway.rows += 1
    then = {tenant: replies.newest(tenant) for tenant in ("t1", "t2", None)}
    same = {tenant: then[tenant].body is first[tenant].body for tenant in first}
    assert same == {"t1": False, "t2": True, None: False}
    assert [q.id for q in pb.SnapshotReply.FromString(then["t2"].whole).queries] == [OTHERS]
    assert then["t2"].time_ms > first["t2"].time_ms

    token = f"t2.{signed(TENANT_KEY.encode(), 't2')}"
    request = pb.WatchSnapshotsRequest(interval_s=0.1).SerializeToString()
    with serving(gateway) as address, raw(address, request, token) as stream:
        assert not pb.SnapshotReply.FromString(next(stream)).same
        for _ in range(3):
            gateway.rows += 1
            assert pb.SnapshotReply.FromString(next(stream)).same


def test_the_plugin_is_told_what_is_known(gateway: Still) -> None:
    asked: list[int] = []

    def ask(request: pb.SnapshotRequest) -> pb.SnapshotReply:
        asked.append(request.known)
        if len(asked) == 3:
            raise error("LANESHIFT_SESSION_STOPPED", method="snapshot")
        return gateway.said(request)

    now = [0.0]
    feed = SnapshotFeed(ask, clock=lambda: now[0])
    first = feed.newest()
    now[0] = 1.0
    second = feed.newest(0.5)
    assert second.content is first.content and second.times.time_ms > first.times.time_ms
    gateway.rows += 1
    now[0] = 2.0
    with pytest.raises(SessionError):
        feed.newest(0.5)
    third = feed.newest(0.5)  # what has failed is not what was asked for last
    assert third.content.number == 2 and third.content is not first.content
    assert asked == [0, 1, 1, 1]


def test_who_names_a_number_is_told_what_is_new(gateway: Still, address: str) -> None:
    with ControlClient(Address.of(address), TOKEN) as client:
        first = client.ask("Snapshot", pb.SnapshotRequest(), pb.SnapshotReply)
        known = pb.SnapshotRequest(known=first.number)
        same = client.ask("Snapshot", known, pb.SnapshotReply)
        assert same.same and not same.queries and same.time_ms > first.time_ms
        gateway.rows += 1
        changed = client.ask("Snapshot", known, pb.SnapshotReply)
    assert rows(changed) == gateway.rows and changed.number > first.number and not changed.same
