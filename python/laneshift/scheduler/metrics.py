"""One vocabulary of metrics for JVM, Python, UI and documentation: name, unit, one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from laneshift.inputcheck import choice


class Scope(Enum):
    """What a metric is measured for."""

    CLUSTER = "cluster"
    NODE = "node"
    SOURCE = "source"
    PARTITION = "partition"
    LANE = "lane"
    SHARD = "shard"
    PLAN = "plan"


@dataclass(frozen=True, slots=True)
class Metric:
    """A measured or predicted quantity.

    Attributes:
        name: lower case with underscores; the field name in a snapshot where there is one.
        scope: what it is measured for.
        unit: in words that a person reads; "1" for a ratio.
        sentence: what it is.
    """

    name: str
    scope: Scope
    unit: str
    sentence: str


def _table() -> dict[str, Metric]:
    rows = (
        (Scope.CLUSTER, "time_s", "s", "End of the measuring window on the stream's own clock."),
        (Scope.CLUSTER, "window_s", "s", "Length of the measuring window."),
        (Scope.CLUSTER, "external_rate", "rows/s", "Rows that enter the topology per second."),
        (Scope.CLUSTER, "latency_mean_s", "s", "Mean end-to-end latency in the window."),
        (Scope.CLUSTER, "latency_p99_s", "s", "99th percentile of end-to-end latency."),
        (Scope.NODE, "cores", "cores", "Cores that partitions may hold or do hold."),
        (Scope.NODE, "network_bytes_per_s", "bytes/s", "Rate of the node's network link."),
        (Scope.SOURCE, "rate", "rows/s", "Rows that the source delivers per second."),
        (Scope.SOURCE, "backlog_rows", "rows", "Rows that wait outside, such as Kafka lag."),
        (Scope.SOURCE, "limit", "rows/s", "Throttle in force at the source."),
        (Scope.PARTITION, "offered_rate", "rows/s", "Rows that arrive, counted before any queue."),
        (
            Scope.PARTITION,
            "service_rate_per_core",
            "rows/s",
            "Rows that one busy core processes: 1 / mean CPU time of a row, waiting excluded.",
        ),
        (Scope.PARTITION, "offered_load", "cores", "Demand: offered rate / rate per core."),
        (Scope.PARTITION, "saturated", "0 or 1", "Back-pressure acted: the rate is a lower bound."),
        (Scope.PARTITION, "queue_capacity_rows", "rows", "Rows that the queue can hold."),
        (Scope.PARTITION, "queue_occupancy", "1", "Rows waiting / rows that the queue can hold."),
        (Scope.PARTITION, "selectivity", "1", "Rows out per row in."),
        (Scope.PARTITION, "efficiency", "1", "Share of the cores' rate that a throttle leaves."),
        (Scope.PARTITION, "output_rate", "rows/s", "Rows emitted per second."),
        (Scope.PARTITION, "state_bytes", "bytes", "Size of the state, of a partition or a shard."),
        (Scope.PARTITION, "input_bytes_per_s", "bytes/s", "Bytes that arrive per second."),
        (Scope.PARTITION, "output_bytes_per_s", "bytes/s", "Bytes emitted per second."),
        (Scope.PARTITION, "data_intensity", "bytes/s per core", "Bytes in and out per core."),
        (Scope.PARTITION, "max_cores", "cores", "Most cores that the partition can use."),
        (Scope.PARTITION, "rows_lost", "rows", "Rows dropped in the window."),
        (Scope.LANE, "busy_share", "1", "Share of the window spent processing rows."),
        (Scope.LANE, "queue_rows", "rows", "Rows waiting, of a lane or in a whole partition."),
        (Scope.SHARD, "load_cores", "cores", "CPU seconds per second, of a shard or a key."),
        (Scope.PLAN, "predicted_latency_mean", "s", "Mean latency that the model predicts."),
        (Scope.PLAN, "predicted_latency_p99", "s", "99th percentile that the model predicts."),
        (Scope.PLAN, "data_intensity_threshold", "bytes/s per core", "phi at which it fitted."),
        (Scope.PLAN, "migration_bytes", "bytes", "State that the plan moves between nodes."),
        (Scope.PLAN, "cancelled_adjustments", "count", "Adjustments that a trend check stopped."),
        (Scope.PLAN, "feedback_requests", "count", "Partitions that asked upstreams to slow down."),
        (Scope.PLAN, "forecast_rate", "rows/s", "Entering rate that the plan provides for."),
    )
    return {name: Metric(name, scope, unit, text) for scope, name, unit, text in rows}


METRICS: dict[str, Metric] = _table()
"""All metrics by name."""


def metric(name: str) -> Metric:
    """The metric of that name; raises `InputError` that lists the known names."""
    return METRICS[choice("metric", name, METRICS, remedy="Add it to laneshift.scheduler.metrics.")]
