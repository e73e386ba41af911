"""The plugin's snapshot for many who look: one call of the plugin serves all of an interval."""

from __future__ import annotations

import threading
import time
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class PackedQuery:
    """A query whose owner, if it has one, is ``tenant``. ``field`` is it in a SnapshotReply."""

    id: str
    run_id: str
    name: str | None
    tenant: str | None
    field: bytes


@dataclass(frozen=True, slots=True)
class Content:
    """What a snapshot says: a SnapshotReply's bytes, but for its time.

    ``number`` is the plugin's: as long as nothing changes it stays, and so does the object.
    """

    number: int
    head: bytes
    queries: tuple[PackedQuery, ...]

    @staticmethod
    def of(said: Mapping[str, Any]) -> Content:
        """Read the plugin's answer. Errors: KeyError, TypeError, ValueError if malformed."""
        packed = b64decode(said["content"])
        at = int(said["head"])
        head, queries = packed[:at], []
        for query in said["queries"]:
            end = at + int(query["bytes"])
            queries.append(
                PackedQuery(
                    str(query["id"]),
                    str(query["run_id"]),
                    query["name"],
                    query["tenant"],
                    packed[at:end],
                )
            )
            at = end
        if at != len(packed):
            raise ValueError(f"{len(packed)} bytes of a snapshot, of which {at} are known")
        return Content(int(said["number"]), head, tuple(queries))


@dataclass(frozen=True, slots=True)
class Look:
    """What there was at ``time_ms`` (milliseconds since 1970, UTC)."""

    time_ms: int
    content: Content


class SnapshotFeed:
    """Keeps the newest snapshot. Every method may be called from any thread.

    Args:
        ask: asks the plugin, by the number of the content that is known; 0 for none.
        clock: monotonic time (s).
    """

    def __init__(
        self, ask: Callable[[int], Mapping[str, Any]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ask = ask
        self._clock = clock
        self._lock = threading.Lock()
        self._newest: Look | None = None
        self._at = 0.0

    def newest(self, oldest_s: float = 0.0) -> Look:
        """A snapshot asked for at most ``oldest_s`` ago; 0 asks anew."""
        asked = self._clock()
        with self._lock:
            if self._newest is None or self._at < asked - oldest_s:
                at = self._clock()
                self._newest = self._look(self._newest)
                self._at = at
            return self._newest

    def _look(self, before: Look | None) -> Look:
        said = self._ask(0 if before is None else before.content.number)
        if before is not None and said["content"] is None:
            return Look(int(said["time_ms"]), before.content)
        return Look(int(said["time_ms"]), Content.of(said))
