"""Elastic stateful operators for Apache Spark Structured Streaming, while the query runs.

``configure(builder)`` puts the plugin into a session, ``attach(session)`` gives the live object,
and ``attach("HOST:PORT")`` that of an application elsewhere.
All names load on first use: importing laneshift imports neither PySpark nor numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from laneshift.version import __version__

if TYPE_CHECKING:
    from laneshift.errors import (
        ArgumentError,
        InputError,
        LaneshiftError,
        NotFoundError,
        SessionError,
        UnsupportedError,
    )
    from laneshift.loop.decision import Decision, LaneChange
    from laneshift.loop.scheduler import LiveScheduler
    from laneshift.plugin.handoff import Handoff
    from laneshift.plugin.partition import (
        Latency,
        PartitionBatch,
        PartitionSnapshot,
        Pauses,
    )
    from laneshift.plugin.snapshot import (
        BatchSnapshot,
        ExecutorSnapshot,
        OperatorSnapshot,
        QuerySnapshot,
        Snapshot,
        SourceSnapshot,
        StoresSnapshot,
        Trigger,
    )
    from laneshift.session.builder import configure
    from laneshift.session.host import Scheduler
    from laneshift.session.live import Laneshift, attach

__all__ = [
    "ArgumentError",
    "BatchSnapshot",
    "Decision",
    "ExecutorSnapshot",
    "Handoff",
    "InputError",
    "LaneChange",
    "Laneshift",
    "LaneshiftError",
    "Latency",
    "LiveScheduler",
    "NotFoundError",
    "OperatorSnapshot",
    "PartitionBatch",
    "PartitionSnapshot",
    "Pauses",
    "QuerySnapshot",
    "Scheduler",
    "SessionError",
    "Snapshot",
    "SourceSnapshot",
    "StoresSnapshot",
    "Trigger",
    "UnsupportedError",
    "__version__",
    "attach",
    "configure",
]

# Submodules must not have the names that are exported here, or importing one would hide the export.
_HOME = {
    "configure": "session.builder",
    **dict.fromkeys(("Laneshift", "attach"), "session.live"),
    **dict.fromkeys((n for n in __all__ if n.endswith("Error")), "errors"),
    **dict.fromkeys((n for n in __all__ if n.endswith("Snapshot")), "plugin.snapshot"),
    **dict.fromkeys(
        ("Latency", "PartitionBatch", "PartitionSnapshot", "Pauses"), "plugin.partition"
    ),
    "Trigger": "plugin.snapshot",
    "Handoff": "plugin.handoff",
    **dict.fromkeys(("Decision", "LaneChange"), "loop.decision"),
    "LiveScheduler": "loop.scheduler",
    "Scheduler": "session.host",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'laneshift' has no attribute {name!r}")
    value: object = getattr(import_module(f"laneshift.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
