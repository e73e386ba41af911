"""What wrong measurements are told, the same for every part of a cluster load."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Any, TypeVar

from laneshift.inputcheck import number

T = TypeVar("T")

REMEDY = "Clean the measurement: keep the last valid value instead."


def optional(name: str, value: float | None, unit: str) -> None:
    """Refuse what is measured but not above 0; None is not measured."""
    if value is not None:
        number(name, value, low=0, low_open=True, unit=unit, remedy="Use None for unknown.")


def changed(made: T, **values: Any) -> T:
    """``made``, a frozen dataclass without slots, with other values that are known to fit.

    As `dataclasses.replace`, which checks all of it again: that is most of the time of a turn that
    looks at a thousand partitions.
    """
    out = object.__new__(type(made))
    kind: Any = type(made)
    known = made.__dict__
    out.__dict__.update({name: known[name] for name in _names(kind)}, **values)
    return out


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))
