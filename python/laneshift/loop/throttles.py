"""What a policy wants slowed down becomes limits of queries' sources, the only brake there is.

A partition takes rows as its lanes go; it cannot be slower than that by itself. Its input can:
where the source feeds it, a share of the source's rate is the same share of the partition's and of
its siblings', since a hash shuffle gives to all. What lies between, such as a filter, does not
matter to a share.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from laneshift.loop.decision import SourceLimit
from laneshift.loop.meter import SourceRef
from laneshift.scheduler.ids import PartitionId, SourceId
from laneshift.scheduler.plan import Plan
from laneshift.scheduler.snapshot import Snapshot, SourceSnapshot

SHORTEST_S = 0.1
"""The plugin's shortest limit."""

GRACE_WINDOWS = 0.5
"""A limit lasts so much longer than asked for (ours): one that goes on must not have gaps, in which
a source that is late would give all that it has."""


def source_limits(
    plan: Plan,
    snapshot: Snapshot,
    sources: Mapping[SourceId, SourceRef],
    held: Collection[str] = (),
) -> tuple[dict[str, SourceLimit], tuple[str, ...]]:
    """Limits by query id, the lowest of each, and notes on throttles that no source can bring.

    Args:
        plan: what the policy decided.
        snapshot: what it decided on.
        sources: the snapshot's sources that a command can reach.
        held: ids of queries whose source was held back in the snapshot's window: what came then is
            no more than was let in.
    """
    fed = {part: source for source in snapshot.sources for part in source.feeds}
    named = {source.source: source for source in snapshot.sources}
    limits: dict[str, SourceLimit] = {}
    notes = []
    for throttle in plan.throttles:
        source = named.get(SourceId(throttle.target)) or fed.get(PartitionId(throttle.target))
        reach = None if source is None else sources.get(source.source)
        if source is None or reach is None:
            notes.append(
                f"{throttle.target} cannot be slowed down to {throttle.rate:,.0f} rows/s:"
                " it is fed by another operator, and back-pressure holds that"
            )
            continue
        coming = _coming(snapshot, source, throttle.target)
        if coming == 0 or (throttle.rate >= coming and reach.query_id not in held):
            continue
        share = throttle.rate / coming
        seconds = max(SHORTEST_S, (throttle.windows + GRACE_WINDOWS) * snapshot.window_s)
        reason = (
            f"{throttle.target} is to get {throttle.rate:,.0f} rows/s at most, {coming:,.0f} came"
        )
        lowest = limits.get(reach.query_id)
        if lowest is None or share < lowest.share:
            limits[reach.query_id] = SourceLimit(reach.query, share, seconds, reason)
    return limits, tuple(notes)


def _coming(snapshot: Snapshot, source: SourceSnapshot, target: str) -> float:
    """Rows per second that came to the target."""
    if target == source.source:
        return source.rate
    return snapshot.partition(PartitionId(target)).offered_rate
