"""Snapshots as they are sent: asked for and put together once for all who look."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from math import floor

from laneshift.control.feed import Look, SnapshotFeed
from laneshift.plugin.v1 import control_pb2 as pb


@dataclass(frozen=True, slots=True)
class Ready:
    """A snapshot that can be sent. Nobody changes it.

    Attributes:
        time_ms: when it was so.
        number: the plugin's, of what all of it says.
        body: what it says, but for the times; the same object as long as nothing changes.
        whole: a serialised SnapshotReply.
        same: one for who has a reply of the same ``body``.
    """

    time_ms: int
    number: int
    body: bytes
    whole: bytes
    same: bytes

    @staticmethod
    def of(times: pb.SnapshotReply, body: bytes) -> Ready:
        # Of two messages behind each other the fields of the second count.
        whole = body + times.SerializeToString()
        same = pb.SnapshotReply(same=True)
        same.MergeFrom(times)
        return Ready(times.time_ms, times.number, body, whole, same.SerializeToString())


class Replies:
    """The newest snapshot for each tenant, None for all. Any thread may call."""

    def __init__(self, feed: SnapshotFeed) -> None:
        self._feed = feed
        self._lock = threading.Lock()
        self._look: Look | None = None
        self._made: dict[str | None, Ready] = {}
        self._bodies: dict[str | None, bytes] = {}
        self._before: dict[str | None, bytes] = {}

    def newest(self, tenant: str | None, oldest_s: float = 0.0) -> Ready:
        """What was asked for at most ``oldest_s`` ago; the same object for all who call then."""
        look = self._feed.newest(oldest_s)
        with self._lock:  # the others of this tick wait for the first one's bytes
            if self._look is not look:
                if self._look is None or self._look.content is not look.content:
                    self._before, self._bodies = self._bodies, {}
                self._look, self._made = look, {}
            if tenant not in self._made:
                self._made[tenant] = Ready.of(look.times, self._body(tenant, look.content))
            return self._made[tenant]

    def _body(self, tenant: str | None, content: pb.SnapshotReply) -> bytes:
        """The object of before if it says the same: what has changed may be of others only."""
        if tenant not in self._bodies:
            body = _of_tenant(tenant, content).SerializeToString()
            before = self._before.get(tenant)
            self._bodies[tenant] = before if before == body else body
        return self._bodies[tenant]


def _of_tenant(tenant: str | None, content: pb.SnapshotReply) -> pb.SnapshotReply:
    """What is the tenant's of a snapshot, all for None; without times and number."""
    return pb.SnapshotReply(
        version=content.version,
        executors=content.executors,
        silent=content.silent,
        queries=[q for q in content.queries if tenant is None or q.tenant == tenant],
    )


class SharedReplies:
    """The same for who must not block: on one event loop's thread.

    One of those who ask at the same time has a thread that asks, and all have its answer.
    """

    def __init__(self, replies: Replies) -> None:
        self._replies = replies
        self._asking: dict[tuple[str | None, float], asyncio.Future[Ready]] = {}

    async def newest(self, tenant: str | None, oldest_s: float) -> Ready:
        """As :meth:`Replies.newest`."""
        key = (tenant, oldest_s)
        asking = self._asking.get(key)
        if asking is None:
            loop = asyncio.get_running_loop()
            asking = loop.run_in_executor(None, self._replies.newest, tenant, oldest_s)
            self._asking[key] = asking
            asking.add_done_callback(lambda _: self._asking.pop(key))
        return await asyncio.shield(asking)  # who goes leaves it to the others


def next_tick(now_s: float, interval_s: float) -> float:
    """When a watcher looks again: those of one interval at the same times, so one ask serves all.

    Who is late looks at the next tick, and has then the newest, not what it has missed.
    """
    return (floor(now_s / interval_s) + 1) * interval_s
