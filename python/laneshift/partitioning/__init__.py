"""Partitioners: which key (or shard) goes to which target (or lane), and which key is split.

One interface, ``plan(loads, routing, tolerance) -> MovePlan``:

>>> from laneshift.partitioning import Loads, Routing
>>> from laneshift.partitioning.qmmp import Qmmp
>>> plan = Qmmp().plan(Loads.of([6.0, 2.0]), Routing.at_home([0, 1], 2), 0.0)
>>> [(m.key, m.amount, m.source, m.target) for m in plan.moves]
[(0, 2.0, 0, 1)]

Pure numpy; no clock, no randomness, no engine import. ``docs/partitioners`` has a page of each.
The papers behind them have short titles and years, explained in ``docs/papers.md``.
"""

from laneshift.partitioning.model import (
    KeyIndex,
    Loads,
    Move,
    MovePlan,
    Partitioner,
    Routing,
    Split,
    TargetId,
)

__all__ = [
    "KeyIndex",
    "Loads",
    "Move",
    "MovePlan",
    "Partitioner",
    "Routing",
    "Split",
    "TargetId",
]
