"""Planners: which key (or shard) goes to which target (or lane), and which key is split.

One interface, ``plan(loads, routing, tolerance) -> MovePlan``; planners are found by name:

>>> from laneshift.planner import Loads, Routing, planner
>>> plan = planner("qmmp").plan(Loads.of([6.0, 2.0]), Routing.at_home([0, 1], 2), 0.0)
>>> [(m.key, m.amount, m.source, m.target) for m in plan.moves]
[(0, 2.0, 0, 1)]

Pure numpy; no clock, no randomness, no engine import. One page per planner in ``docs/planners``.
"""

from laneshift.errors import InputError
from laneshift.planner.model import (
    KeyId,
    Loads,
    Move,
    MovePlan,
    Planner,
    Routing,
    Split,
    TargetId,
)
from laneshift.planner.registry import PLANNERS, planner

__all__ = [
    "PLANNERS",
    "InputError",
    "KeyId",
    "Loads",
    "Move",
    "MovePlan",
    "Planner",
    "Routing",
    "Split",
    "TargetId",
    "planner",
]
