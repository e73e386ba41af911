"""One vocabulary of metrics for JVM, Python, UI and documentation: name, unit, one sentence.

The words are data (``laneshift/metrics.json``), which tests of both sides and ``docs/metrics.md``
stand on.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from importlib import resources

from laneshift.inputcheck import choice


class Scope(Enum):
    """What a metric is measured for."""

    CLUSTER = "cluster"
    NODE = "node"
    EXECUTOR = "executor"
    SOURCE = "source"
    RESCALE = "rescale"
    PARTITION = "partition"
    LANE = "lane"
    SHARD = "shard"
    PLAN = "plan"


@dataclass(frozen=True, slots=True)
class Metric:
    """A measured or predicted quantity.

    Attributes:
        name: lower case with underscores; the field name in a cluster load where there is one.
        scope: what it is measured for.
        unit: in words that a person reads; "1" for a ratio.
        sentence: what it is.
        live: whether the plugin measures it on running queries (``Application.snapshot``); else
            it is a policy's word.
        gauge: name of its sum over partitions (of a time or percentile: the largest) in Spark's
            metrics system, or None.
    """

    name: str
    scope: Scope
    unit: str
    sentence: str
    live: bool = False
    gauge: str | None = None


def _table() -> dict[str, Metric]:
    text = resources.files("laneshift").joinpath("metrics.json").read_text(encoding="utf-8")
    metrics = [Metric(**row | {"scope": Scope(row["scope"])}) for row in json.loads(text)]
    return {metric.name: metric for metric in metrics}


METRICS: dict[str, Metric] = _table()
"""All metrics by name."""


def metric(name: str) -> Metric:
    """The metric of that name; raises `InputError` that lists the known names."""
    return METRICS[choice("metric", name, METRICS, remedy="Add it to laneshift/metrics.json.")]
