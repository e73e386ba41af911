"""What feeds partitions (sources, each other, operators elsewhere), and limits of sources.

A limit is the only brake there is. A partition takes rows as its lanes go; it cannot be slower than
that by itself. Its input can: where the source feeds it, the same share of the source's rows comes
to it at any speed, for hash shuffles and filters go by what is in a row. That share is counted over
rows of the last minutes, at whatever speed they came: what a limit does to it does not change the
next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from laneshift.autoscale.cores import Island
from laneshift.autoscale.decisions import Note, SourceLimit
from laneshift.autoscale.pictures import Seen, query_name
from laneshift.contract.cluster_load import ClusterLoad, Edge, SourceLoad
from laneshift.contract.ids import OperatorId, PartitionId, SourceId
from laneshift.contract.partition_load import PartitionLoad
from laneshift.contract.plan import Plan
from laneshift.errors import LaneshiftError
from laneshift.plugin.gateway import Gateway
from laneshift.plugin.snapshot import Mode, QuerySnapshot

SOURCE, ELSEWHERE = ":source", ":elsewhere"
"""What follows a query's name in the id of its source, and of its operators on other executors."""

FEW_SOURCE_ROWS = 100
"""With fewer rows counted, it is not known how many of the source's come to a partition (ours)."""

SHARE_MS = 60_000
"""A share is of the rows of one to two such times (ms, ours): what was hot an hour ago says nothing
of now, and a minute has rows enough."""


class SourceShare:
    """How many rows came to a partition per row that its query's sources gave, lately."""

    def __init__(self) -> None:
        # What the sources had given, and what had come, when the partition began to count; the two
        # begins of the last times with enough rows, each with when it was.
        self._marks: tuple[tuple[int, int, int], ...] = ()
        self._began = 0
        self.share: float | None = None
        """None as long as too few rows came."""

    def begin(self, seen: Seen) -> None:
        """The partition has moved: it counts from nothing."""
        self._began = seen.query.given.rows if seen.query.given else 0
        self._marks = ()

    def count(self, seen: Seen, now_ms: int) -> None:
        """What came of what the sources gave."""
        given, part = seen.query.given, seen.part
        if given is None or (given.batch_id is not None and part.batch_id > given.batch_id):
            return  # the partition has counted rows of a batch that the source has not
        now = (now_ms, given.rows, part.rows_in)
        # The first picture has all since the query started.
        marks = self._marks or ((now_ms, self._began, 0), now)
        if now_ms - marks[-1][0] >= SHARE_MS and now[2] - marks[-1][2] >= FEW_SOURCE_ROWS:
            marks = (marks[-1], now)
        self._marks = marks
        _, rows, came = marks[0]
        if part.rows_in - came >= FEW_SOURCE_ROWS and given.rows > rows:
            self.share = (part.rows_in - came) / (given.rows - rows)


def entering(
    here: Sequence[Seen],
    measured: Sequence[PartitionLoad],
    inner: Sequence[Edge],
) -> list[tuple[SourceLoad, QuerySnapshot]]:
    """What enters the island: of each query its source and, apart, other executors' operators."""
    rates = {part.partition: part.offered_rate for part in measured}
    fed = {edge.downstream for edge in inner}
    queries: dict[SourceId, QuerySnapshot] = {}
    feeds: dict[SourceId, list[PartitionId]] = {}
    for seen in here:
        name = seen.name
        if name in rates and seen.operator_name not in fed:
            kind = ELSEWHERE if seen.operator.upstream else SOURCE
            source = SourceId(query_name(seen.query) + kind)
            queries[source] = seen.query
            feeds.setdefault(source, []).append(name)
    return [
        (
            SourceLoad(
                source,
                sum(rates[p] for p in parts),
                backlog_rows=_backlog(queries[source]) if source.endswith(SOURCE) else 0.0,
                feeds=tuple(parts),
            ),
            queries[source],
        )
        for source, parts in feeds.items()
    ]


def _backlog(query: QuerySnapshot) -> float:
    """Rows that waited at a query's sources when its newest batch ended; 0 if they do not tell."""
    if query.batch is None or query.mode is Mode.REAL_TIME:
        return 0.0  # a batch of Real-time Mode may have ended minutes ago
    return float(sum(source.backlog_rows or 0 for source in query.batch.sources))


def edges(here: Sequence[Seen], measured: Sequence[PartitionLoad]) -> tuple[Edge, ...]:
    """Each partition of an operator feeds each one of another its share: a hash shuffle."""
    seen = {part.operator for part in measured}
    found: dict[tuple[OperatorId, OperatorId], Edge] = {}
    for s in here:
        down = s.operator_name
        for number in s.operator.upstream if down in seen else ():
            up = OperatorId(f"{query_name(s.query)}:{number}")
            if up in seen and (up, down) not in found:
                found[up, down] = Edge(up, down, ratio=1 / len(s.operator.partitions))
    return tuple(found.values())


GRACE_S = 10.0
"""A limit whose autoscaler has gone ends by itself so long after its time (s, ours)."""


def source_limits(
    plan: Plan, cluster: ClusterLoad, island: Island
) -> tuple[dict[str, SourceLimit], tuple[Note, ...]]:
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
        elif reach.given is None:
            why = "its source does not count rows (laneshift's own do)"
        elif not island.shares.keys() >= set(parts):
            why = f"fewer than {FEW_SOURCE_ROWS} rows that came to it have been counted so far"
        else:
            share = sum(island.shares[part] for part in parts)
            rate = throttle.rate / share
            reason = (
                f"{throttle.target} is to get {throttle.rate:,.0f} rows/s at most,"
                f" {share:.3g} of the source's rows"
            )
            lowest = limits.get(reach.id)
            if lowest is None or rate < lowest.rate:
                limits[reach.id] = SourceLimit(query_name(reach), rate, throttle.windows, reason)
            continue
        text = f"{throttle.target} cannot be slowed down to {throttle.rate:,.0f} rows/s: {why}"
        notes.append(Note(text, f"{throttle.target} {why}"))
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

    def turn(
        self, plan: Plan, cluster: ClusterLoad, island: Island, *, sends: bool
    ) -> tuple[tuple[SourceLimit, ...], tuple[Note, ...]]:
        """Send the limits of a plan, if it sends; those that were taken, and why others were not.

        A limit replaces one of an earlier turn. Where executors ask for several in one turn, the
        lowest holds.
        """
        limits, notes = source_limits(plan, cluster, island)
        if not sends:
            return tuple(limits.values()), notes
        taken = []
        for query, limit in limits.items():
            held = self._held.get(query)
            same_turn = held is not None and held.turn == self._turn
            rate = min(limit.rate, held.rate) if held and same_turn else limit.rate
            try:
                self._gateway.limit_source(query, rate, limit.windows * cluster.window_s + GRACE_S)
                self._held[query] = _Held(rate, self._turn, self._turn + limit.windows)
                taken.append(limit)
            except LaneshiftError as problem:
                text = f"the source of {limit.query} is not slowed down: "
                notes += (Note.failed(problem, text, text),)
        return tuple(taken), notes

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
