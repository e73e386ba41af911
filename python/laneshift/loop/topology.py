"""What feeds the partitions of an executor: each other, sources, and operators elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from laneshift.loop.seen import Seen, query_name
from laneshift.plugin.snapshot import QuerySnapshot
from laneshift.scheduler.cluster_load import Edge, SourceLoad
from laneshift.scheduler.ids import OperatorId, PartitionId, SourceId
from laneshift.scheduler.partition_load import PartitionLoad

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
    if query.batch is None or query.mode == "real-time":
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
