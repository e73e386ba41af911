"""Elastic stateful operators for Apache Spark Structured Streaming, while the query runs.

``configure(builder)`` puts the plugin into a session, ``attach(session)`` gives its application,
and ``attach("HOST:PORT")`` one that runs elsewhere: ``attach(spark).query("orders").set_lanes(4)``.
All names load on first use: importing laneshift imports neither PySpark nor numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from laneshift.version import __version__

if TYPE_CHECKING:
    from laneshift.api.application import (
        Application,
        attach,
    )
    from laneshift.api.autoscaler import (
        Autoscaler,
    )
    from laneshift.api.change import (
        Change,
    )
    from laneshift.api.query import (
        Query,
    )
    from laneshift.api.rescale import (
        Rescale,
        rescale_checkpoint,
    )
    from laneshift.autoscale.decisions import Decision, LaneChange, SourceLimit
    from laneshift.contract.plan import (
        PartitionsChange,
        TasksChange,
    )
    from laneshift.contract.policy import (
        Policy,
    )
    from laneshift.durations import (
        Duration,
    )
    from laneshift.errors import (
        ArgumentError,
        InputError,
        LaneshiftError,
        NotFoundError,
        SessionError,
        UnsupportedError,
    )
    from laneshift.plugin.gateway import (
        Applied,
    )
    from laneshift.plugin.handoff import (
        Handoff,
    )
    from laneshift.plugin.partition import (
        HotKey,
        Latency,
        PartitionBatch,
        PartitionSnapshot,
        Pauses,
        RemoteLane,
    )
    from laneshift.plugin.rescale import (
        OfflineRescale,
        RescaleProgress,
        RescaleState,
    )
    from laneshift.plugin.snapshot import (
        BatchSnapshot,
        ExecutorSnapshot,
        HandoffMode,
        Mode,
        OperatorSnapshot,
        QuerySnapshot,
        RowWork,
        Snapshot,
        SourceCount,
        SourceSnapshot,
        StoresSnapshot,
        Trigger,
        TriggerKind,
    )
    from laneshift.session.builder import (
        configure,
    )

__all__ = [
    "Application",
    "Applied",
    "ArgumentError",
    "Autoscaler",
    "BatchSnapshot",
    "Change",
    "Decision",
    "Duration",
    "ExecutorSnapshot",
    "Handoff",
    "HandoffMode",
    "HotKey",
    "InputError",
    "LaneChange",
    "LaneshiftError",
    "Latency",
    "Mode",
    "NotFoundError",
    "OfflineRescale",
    "OperatorSnapshot",
    "PartitionBatch",
    "PartitionSnapshot",
    "PartitionsChange",
    "Pauses",
    "Policy",
    "Query",
    "QuerySnapshot",
    "RemoteLane",
    "Rescale",
    "RescaleProgress",
    "RescaleState",
    "RowWork",
    "SessionError",
    "Snapshot",
    "SourceCount",
    "SourceLimit",
    "SourceSnapshot",
    "StoresSnapshot",
    "TasksChange",
    "Trigger",
    "TriggerKind",
    "UnsupportedError",
    "__version__",
    "attach",
    "configure",
    "rescale_checkpoint",
]

# Submodules must not have the names that are exported here, or importing one would hide the export.
_HOME = {
    **dict.fromkeys(("Application", "attach"), "api.application"),
    "Autoscaler": "api.autoscaler",
    "Change": "api.change",
    "Query": "api.query",
    **dict.fromkeys(("Rescale", "rescale_checkpoint"), "api.rescale"),
    "Duration": "durations",
    **dict.fromkeys(
        (
            "ArgumentError",
            "InputError",
            "LaneshiftError",
            "NotFoundError",
            "SessionError",
            "UnsupportedError",
        ),
        "errors",
    ),
    **dict.fromkeys(("Decision", "LaneChange", "SourceLimit"), "autoscale.decisions"),
    "Applied": "plugin.gateway",
    "Handoff": "plugin.handoff",
    **dict.fromkeys(
        (
            "HotKey",
            "Latency",
            "PartitionBatch",
            "PartitionSnapshot",
            "Pauses",
            "RemoteLane",
        ),
        "plugin.partition",
    ),
    **dict.fromkeys(("OfflineRescale", "RescaleProgress", "RescaleState"), "plugin.rescale"),
    **dict.fromkeys(
        (
            "BatchSnapshot",
            "ExecutorSnapshot",
            "HandoffMode",
            "Mode",
            "OperatorSnapshot",
            "QuerySnapshot",
            "RowWork",
            "Snapshot",
            "SourceCount",
            "SourceSnapshot",
            "StoresSnapshot",
            "Trigger",
            "TriggerKind",
        ),
        "plugin.snapshot",
    ),
    **dict.fromkeys(("PartitionsChange", "TasksChange"), "contract.plan"),
    "Policy": "contract.policy",
    "configure": "session.builder",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'laneshift' has no attribute {name!r}")
    value: object = getattr(import_module(f"laneshift.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
