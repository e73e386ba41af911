"""A small recorded trace, for tests of whatever reads one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from laneshift.contract.cluster_load import ClusterLoad, SourceLoad
from laneshift.contract.ids import KeyId, SourceId
from laneshift.contract.partition_load import HotKey
from laneshift.contract.trace import TraceWriter
from laneshift_lab.samples import cluster, partition, with_shards


def sample(time_s: float = 0.0, rate: float = 0.1 + 0.2) -> ClusterLoad:
    part = partition("p", {"a": 2}, offered_rate=rate, service_rate=10, queue_capacity_rows=50)
    part = replace(with_shards(part, [0.1, 0.25]), hot_keys=(HotKey(KeyId("k"), 0.2, ways=2),))
    other = partition("q", {"b": 1}, offered_rate=5, max_cores=3, saturated=True)
    snap = cluster({"a": 4, "b": 8}, [part, other], edges=[("p", "q", 0.5)], time_s=time_s)
    return replace(snap, sources=(SourceLoad(SourceId("s"), 9.0, feeds=(part.partition,)),))


def write(path: Path, recorded: list[ClusterLoad]) -> Path:
    with TraceWriter(path) as trace:
        for each in recorded:
            trace.record(each)
    return path


BAD = [
    (None, ["trace", "expected a file", "autoscale(trace=FILE)"]),
    ("hello\n", ["first line", "hello", "laneshift_trace"]),
    ('{"laneshift_trace":1}\n', ["no cluster load", "at least one"]),
    ('{"laneshift_trace":1}\n{"time_s":1}\n', ["line 2"]),
]
"""Texts of files that are no trace, or no file; and what is said of each."""
