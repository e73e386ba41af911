"""One entry of the plugin's history of handoffs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Handoff:
    """One shard that moved. Times in microseconds; ``pause_us`` is what the shard's rows waited.

    Attributes:
        seq: its number within its executor, from 0, rising.
        time_ms: when it ended (milliseconds since 1970, UTC).
        query_id, operator_id, partition, shard: what moved.
        source, target: lane that gave and lane that took it.
        reason: ``balance``, ``motion``, ``user``, ``scale``, or ``host-lost`` if the lane's
            executor was lost.
        batch_id: the batch in which it moved.
        drain_us: how long the source lane took to come to the end of a row; the shard's rows went
            on meanwhile.
        flush_us, switch_us: the pause is their sum: the source lane's outputs are put out; the
            rows go to the new lane.
        moved_rows: rows that went along, worked on by neither lane yet.
        source_executor, target_executor: the other executor that ran the lane; None for lanes at
            home. Such lanes have numbers from the partition's ``max_lanes`` on.
    """

    seq: int
    time_ms: int
    query_id: str
    operator_id: int
    partition: int
    shard: int
    source: int
    target: int
    reason: str
    batch_id: int
    drain_us: float
    flush_us: float
    switch_us: float
    pause_us: float
    moved_rows: int
    source_executor: str | None = None
    target_executor: str | None = None
