"""Those who watch: what they see, what they cost each other, and what they leave behind."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest

import laneshift
from autoscale.scripted import until
from laneshift.control.feed import SnapshotFeed
from laneshift.control.replies import Ready, Replies, SharedReplies, next_tick
from laneshift.control.running import RunningAutoscalers
from laneshift.control.server import ControlServer
from laneshift.control.service import ControlService
from laneshift.errors import SessionError
from laneshift.plugin.v1 import control_pb2 as pb
from plugin.fake import FakeGateway, query, wide
from session.transports import TOKEN, settings

FOREVER_S = 3600.0


class Numbered(FakeGateway):
    """Each snapshot has its number everywhere; several after each other may be of one time.

    ``size`` is of partitions, 2 or 200; ``asking`` is called by each ask.
    """

    def __init__(
        self, size: int = 2, same: int = 1, asking: Callable[[], object] = lambda: None
    ) -> None:
        super().__init__()
        self.asked_for = 0
        self._same = same
        self._asking = asking
        if size == 200:
            self.data = wide()

    def on_snapshot(self) -> dict[str, Any]:
        self.asked_for += 1
        number = (self.asked_for + self._same - 1) // self._same
        self._asking()
        self.data["time_ms"] = number
        for one in self.data["queries"]:
            for part in one["operators"][0]["partitions"]:
                part["rows_in"] = number
        # Its lists are made anew, as JSON's are.
        return super().on_snapshot()


@contextmanager
def served(gateway: Any) -> Iterator[tuple[str, ControlServer, ControlService]]:
    service = ControlService(gateway, RunningAutoscalers())
    server = ControlServer(settings(), service, print)
    try:
        yield server.start(), server, service
    finally:
        server.stop()


def at_once(count: int, call: Any) -> list[Any]:
    """What so many threads get that call at the same time."""
    found: list[Any] = []
    gate = threading.Barrier(count)

    def one() -> None:
        gate.wait()
        found.append(call())

    threads = [threading.Thread(target=one, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_one_ask_and_one_message_serve_all_of_a_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    ready_of = Ready.of

    def pause() -> None:
        time.sleep(0.2)  # the others have come by then

    def slow(times: pb.SnapshotReply, body: bytes) -> Ready:
        made.append(times.time_ms)
        pause()
        return ready_of(times, body)

    monkeypatch.setattr(Ready, "of", slow)
    gateway = Numbered(asking=pause)
    ready = Replies(SnapshotFeed(gateway.said, clock=lambda: 1.0))
    found: list[Ready] = at_once(20, lambda: ready.newest(None, 0.5))
    assert gateway.asked_for == 1 and made == [1]
    assert len(found) == 20 and all(each is found[0] for each in found)


def test_watchers_on_a_loop_have_one_thread_that_asks() -> None:
    """Who goes meanwhile leaves the answer to the others."""
    gone = threading.Event()
    gateway = Numbered(asking=gone.wait)
    ready = Replies(SnapshotFeed(gateway.said, clock=lambda: 1.0))

    async def watch() -> list[Ready | BaseException]:
        shared = SharedReplies(ready)
        asking = [asyncio.ensure_future(shared.newest(None, 0.5)) for _ in range(20)]
        while gateway.asked_for == 0:
            await asyncio.sleep(0)
        asking[0].cancel()
        gone.set()
        found = await asyncio.gather(*asking, return_exceptions=True)
        return [*found, await shared.newest(None, 0.5)]

    first, *others = asyncio.run(watch())
    assert isinstance(first, asyncio.CancelledError)
    assert gateway.asked_for == 1
    assert len(others) == 20 and all(each is others[0] for each in others)


def test_an_ask_that_fails_is_no_answer_for_later() -> None:
    failing = [True]

    def ask(request: pb.SnapshotRequest) -> pb.SnapshotReply:
        if failing.pop():
            raise RuntimeError("the plugin says nothing")
        return FakeGateway().said(request)

    async def watch() -> Ready:
        shared = SharedReplies(Replies(SnapshotFeed(ask)))
        failed = await asyncio.gather(
            *(shared.newest(None, 0.5) for _ in range(5)), return_exceptions=True
        )
        assert all(isinstance(each, RuntimeError) for each in failed)
        failing.append(False)
        return await shared.newest(None, 0.5)

    assert asyncio.run(watch()).whole


def test_each_tenant_has_bytes_of_its_own() -> None:
    gateway = FakeGateway()
    gateway.data["queries"][0]["tenant"] = "t1"
    gateway.data["queries"].append(query("4" * 8, "others", active=True) | {"tenant": "t2"})
    ready = Replies(SnapshotFeed(gateway.said, clock=lambda: 1.0))
    names = {
        tenant: [q.name for q in pb.SnapshotReply.FromString(ready.newest(tenant).whole).queries]
        for tenant in ("t1", "t2", "t3", None)
    }
    assert names == {"t1": ["running"], "t2": ["others"], "t3": [], None: ["running", "others"]}


@pytest.mark.parametrize("interval_s", [0.1, 1.0, 7.3, 3600.0])
def test_watchers_of_an_interval_look_at_the_same_times(interval_s: float) -> None:
    begun = 12_345.678
    ticks = {next_tick(begun + late * interval_s, interval_s) for late in (0.01, 0.2, 0.4)}
    again = {next_tick(tick + 0.3 * interval_s, interval_s) for tick in ticks}
    assert len(ticks) <= 2 and all(tick > begun for tick in ticks)
    assert max(ticks) - min(ticks) <= interval_s * 1.001
    assert {round(t / interval_s, 6) % 1 for t in ticks | again} <= {0.0, 1.0}
    # Missed ticks are not made up for.
    late = next_tick(begun + 10.5 * interval_s, interval_s)
    assert begun + 10.5 * interval_s < late <= begun + 11.5 * interval_s


def test_every_watcher_sees_whole_snapshots_in_their_order() -> None:
    gateway = Numbered(same=2)
    with served(gateway) as (address, _, _), laneshift.attach(address, TOKEN) as app:

        def watch() -> list[int]:
            seen = []
            for snapshot in app.watch(0.1):
                parts = snapshot.queries[0].operators[0].partitions
                assert {p.rows_in for p in parts} == {snapshot.time_ms}
                seen.append(snapshot.time_ms)
                if len(seen) == 8:
                    return seen
            return seen

        found = at_once(12, watch)
    assert len(found) == 12
    for seen in found:
        assert len(seen) == 8 and all(a < b for a, b in pairwise(seen)), seen


@pytest.mark.deep("surface")
def test_a_slow_watcher_holds_nobody_up_and_then_has_the_newest() -> None:
    gateway = Numbered(200)
    with (
        served(gateway) as (address, _, _),
        laneshift.attach(address, TOKEN) as one,
        laneshift.attach(address, TOKEN) as other,
    ):
        slow = one.watch(0.1)
        next(slow)
        # Until transport and windows are full many times over.
        for snapshot in other.watch(0.1):
            if snapshot.time_ms >= 60:
                break
        seen: list[int] = []
        while not seen or seen[-1] < 60:
            seen.append(next(slow).time_ms)
        slow.close()  # type: ignore[attr-defined]
    assert all(a < b for a, b in pairwise(seen))
    assert len(seen) < 40, seen  # what did not fit was never made for it


def test_watchers_that_go_leave_nothing_behind() -> None:
    gateway = Numbered()
    with served(gateway) as (address, _, service):
        clients = [laneshift.attach(address, TOKEN) for _ in range(3)]
        streams = [clients[i % 3].watch(FOREVER_S) for i in range(30)]
        for stream in streams:
            next(stream)
        assert service.streams == 30
        for stream in streams[:20]:
            stream.close()  # type: ignore[attr-defined]
        until(lambda: service.streams == 10)
        for client in clients:  # without a word to their streams
            client._gateway.close()  # type: ignore[attr-defined]
        until(lambda: service.streams == 0)


def test_a_service_that_stops_ends_its_streams_at_once() -> None:
    ends: list[str] = []
    with (
        served(Numbered()) as (address, server, service),
        laneshift.attach(address, TOKEN) as app,
    ):
        begun = threading.Semaphore(0)

        def watch() -> None:
            try:
                for _ in app.watch(FOREVER_S):
                    begun.release()
            except SessionError as problem:
                ends.append(problem.condition)

        threads = [threading.Thread(target=watch) for _ in range(5)]
        for thread in threads:
            thread.start()
        for _ in threads:
            assert begun.acquire()
        server.stop()
        for thread in threads:
            thread.join()
        assert ends == ["LANESHIFT_SESSION_STOPPED"] * 5
        assert service.streams == 0
