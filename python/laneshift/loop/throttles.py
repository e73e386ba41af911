"""What a policy wants slowed down becomes limits of queries' sources, the only brake there is.

A partition takes rows as its lanes go; it cannot be slower than that by itself. Its input can:
where the source feeds it, the same share of the source's rows comes to it at any speed, for hash
shuffles and filters go by what is in a row. That share is counted over rows of the last minutes
(``topology``), at whatever speed they came: what a limit does to it does not change the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from laneshift.errors import LaneshiftError
from laneshift.loop.decision import SourceLimit
from laneshift.loop.island import Island
from laneshift.loop.topology import FEW_SOURCE_ROWS
from laneshift.plugin.gateway import Gateway
from laneshift.scheduler.cluster_load import ClusterLoad
from laneshift.scheduler.ids import PartitionId, SourceId
from laneshift.scheduler.plan import Plan

GRACE_S = 10.0
"""A limit whose scheduler has gone ends by itself so long after its time (s, ours)."""


def source_limits(
    plan: Plan, cluster: ClusterLoad, island: Island
) -> tuple[dict[str, SourceLimit], tuple[str, ...]]:
    """Limits by query id, the lowest of each, and notes on throttles that no source can bring.

    ``cluster`` is what the policy decided on: of ``island``.
    """
    fed = {part: source for source in cluster.sources for part in source.feeds}
    named = {source.source: source for source in cluster.sources}
    limits: dict[str, SourceLimit] = {}
    notes = []
    for throttle in plan.throttles:
        source = named.get(SourceId(throttle.target))
        parts = (PartitionId(throttle.target),) if source is None else source.feeds
        source = source or fed.get(parts[0])
        reach = None if source is None else island.sources.get(source.source)
        if reach is None:
            why = "it is fed by another operator, and back-pressure holds that"
        elif not reach.counted:
            why = "its source does not count rows (laneshift-workload and laneshift-replay do)"
        elif not island.shares.keys() >= set(parts):
            why = f"fewer than {FEW_SOURCE_ROWS} rows that came to it have been counted so far"
        else:
            share = sum(island.shares[part] for part in parts)
            rate = throttle.rate / share
            reason = (
                f"{throttle.target} is to get {throttle.rate:,.0f} rows/s at most,"
                f" {share:.3g} of the source's rows"
            )
            lowest = limits.get(reach.query_id)
            if lowest is None or rate < lowest.rate:
                limits[reach.query_id] = SourceLimit(reach.query, rate, throttle.windows, reason)
            continue
        notes.append(
            f"{throttle.target} cannot be slowed down to {throttle.rate:,.0f} rows/s: {why}"
        )
    return limits, tuple(notes)


@dataclass(frozen=True, slots=True)
class _Held:
    """A limit (rows/s) that was sent in one turn and is ended at the end of another."""

    rate: float
    turn: int
    last: int


class Brakes:
    """Limits in force. One window is from one turn to the next, however late that is: a limit that
    goes on has no gap, in which a source that is late would give all that it has.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._held: dict[str, _Held] = {}
        self._turn = 0

    def hold(
        self, limits: Mapping[str, SourceLimit], window_s: float
    ) -> tuple[dict[str, SourceLimit], tuple[str, ...]]:
        """Send limits, by query id; those that were taken, and why others were not.

        A limit replaces one of an earlier turn. Where executors ask for several in one turn, the
        lowest holds.
        """
        taken, notes = {}, []
        for query, limit in limits.items():
            held = self._held.get(query)
            same_turn = held is not None and held.turn == self._turn
            rate = min(limit.rate, held.rate) if held and same_turn else limit.rate
            try:
                self._gateway.limit_source(query, rate, limit.windows * window_s + GRACE_S)
                self._held[query] = _Held(rate, self._turn, self._turn + limit.windows)
                taken[query] = limit
            except LaneshiftError as problem:
                notes.append(f"the source of {limit.query} is not slowed down: {problem}")
        return taken, tuple(notes)

    def __enter__(self) -> None:
        """A turn begins."""

    def __exit__(self, *_: object) -> None:
        """It is over, however that came: end the limits whose last window is."""
        self._release([query for query, held in self._held.items() if held.last <= self._turn])
        self._turn += 1

    def release(self) -> None:
        """End all limits."""
        self._release(list(self._held))

    def _release(self, queries: list[str]) -> None:
        for query in queries:
            del self._held[query]
            with suppress(LaneshiftError):  # the query has ended, and its limit with it
                self._gateway.limit_source(query, 0.0, 0.0)
