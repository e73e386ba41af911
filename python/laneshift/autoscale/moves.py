"""What a trace has of the loop: loads, decisions, and shards that moved, summed up."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from laneshift.autoscale.decisions import Decision, Note
from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.trace import TraceWriter
from laneshift.errors import LaneshiftError
from laneshift.plugin.gateway import Gateway
from laneshift.plugin.snapshot import Snapshot

TRACE_BYTES = 1 << 29
"""Of a trace so much, and the same again of what was before it, is kept (bytes, ours)."""

MOST = 10_000
"""Handoffs that are read in one turn, the newest (ours): more would make the turn slow."""

SLACK_MS = 10_000
"""A handoff may be told so late, since executors answer one after the other (ours)."""


@dataclass(frozen=True, slots=True)
class Moves:
    """Handoffs for one reason between two turns.

    Attributes:
        time_s: end of the interval (s since 1970, UTC).
        reason: as in :class:`laneshift.Handoff`.
        count: handoffs.
        paused: how many of them made rows wait; the others happened between two batches.
        p50_ms, p99_ms, max_ms: pauses of those (ms), 0 if there are none.
    """

    time_s: float
    reason: str
    count: int
    paused: int
    p50_ms: float
    p99_ms: float
    max_ms: float

    @classmethod
    def of(cls, time_s: float, reason: str, pauses_us: list[float]) -> Moves:
        """The sum of handoffs with these pauses (us).

        >>> Moves.of(7.0, "user", [0.0, 1000.0, 3000.0])
        Moves(time_s=7.0, reason='user', count=3, paused=2, p50_ms=2.0, p99_ms=2.98, max_ms=3.0)
        """
        waited = [us / 1000 for us in pauses_us if us > 0]
        p50, p99, most = np.percentile(waited, (50, 99, 100)).tolist() if waited else (0.0,) * 3
        return cls(time_s, reason, len(pauses_us), len(waited), p50, p99, most)

    def to_json(self) -> dict[str, Any]:
        """As a trace keeps it."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Moves:
        """Read what :meth:`to_json` wrote. Errors: KeyError, TypeError, ValueError if malformed."""
        return cls(
            float(data["time_s"]),
            str(data["reason"]),
            int(data["count"]),
            int(data["paused"]),
            *(float(data[name]) for name in ("p50_ms", "p99_ms", "max_ms")),
        )


class MoveLog:
    """Finds in the plugin's history what is new since the last look.

    Args:
        gateway: the plugin.
        only: run id of the only query to look at, empty for all.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self.only = ""
        self._counts: dict[tuple[str, int, int], int] | None = None
        self._since_ms = 0
        self._seen: dict[tuple[int, int, str, int, int], int] = {}

    def since_last(self, live: Snapshot) -> tuple[Moves, ...]:
        """Handoffs since the last call, one entry per reason; none at the first call."""
        counts = {
            (query.run_id, operator.operator_id, part.partition): part.handoffs
            for query in live.queries
            for operator in query.operators
            for part in operator.partitions
        }
        before, self._counts = self._counts, counts
        now_ms = live.time_ms - live.set_back_ms  # handoffs are told with their clock's time
        since, self._since_ms = self._since_ms, now_ms
        if before is None:
            self._since_ms += SLACK_MS  # what went before the start is not ours
            return ()
        risen = 0
        for key, count in counts.items():
            was = before.get(key, 0)
            risen += count - was if count >= was else count  # on another executor: from 0 again
        if risen == 0:
            return ()
        return self._sum(live, since - SLACK_MS, min(MOST, risen + len(self._seen)))

    def _sum(self, live: Snapshot, oldest_ms: int, limit: int) -> tuple[Moves, ...]:
        try:
            told = self._gateway.handoffs(self.only, limit)
        except LaneshiftError:
            return ()  # the query has just gone; a trace is no reason to fail the turn
        pauses: dict[str, list[float]] = {}
        for handoff in told:
            key = (handoff.time_ms, handoff.seq, handoff.query_id, handoff.operator_id,
                   handoff.partition)  # fmt: skip
            if handoff.time_ms > oldest_ms and key not in self._seen:
                self._seen[key] = handoff.time_ms
                pauses.setdefault(handoff.reason, []).append(handoff.pause_us)
        now_ms = live.time_ms - live.set_back_ms
        self._seen = {k: at for k, at in self._seen.items() if at > now_ms - SLACK_MS}
        time_s = live.time_ms / 1000
        return tuple(Moves.of(time_s, reason, found) for reason, found in sorted(pauses.items()))


class Trace:
    """The file that a loop records in, or none. Used on the loop's thread but for its end.

    A disk that is full is no reason to leave queries with the lanes that they have: what cannot be
    written is missing, and ``gap`` is a note on that until something can be again.
    """

    def __init__(self, gateway: Gateway, path: str | Path | None) -> None:
        """Errors: FileExistsError, OSError if the file cannot be made."""
        self._out = None if path is None else TraceWriter(path, TRACE_BYTES)
        self.moves = MoveLog(gateway)
        self.gap: tuple[Note, ...] = ()

    def load(self, cluster: ClusterLoad) -> None:
        """What a policy is shown."""
        if self._out is None:
            return
        try:
            self._out.record(cluster)
            self.gap = ()
        except OSError as problem:
            self.gap = (Note(f"the trace cannot be written, and has a gap: {problem}"),)

    def decision(self, decision: Decision) -> None:
        """What was decided."""
        self._note("decision", decision)

    def moved(self, live: Snapshot) -> None:
        """The shards that have moved since the last call."""
        for moves in () if self._out is None else self.moves.since_last(live):
            self._note("moves", moves)

    def _note(self, event: str, what: Decision | Moves) -> None:
        if self._out is not None:
            with suppress(OSError):  # recording the load has told of it
                self._out.note(event, what.to_json())

    def close(self) -> None:
        """Nothing more will be recorded."""
        if self._out is not None:
            self._out.close()

    def discard(self) -> None:
        """Close the file and remove it: nothing came of the recording."""
        if self._out is not None:
            self._out.discard()
