"""What wrong measurements are told, the same for every part of a cluster load."""

from __future__ import annotations

from laneshift.inputcheck import number

REMEDY = "Clean the measurement: keep the last valid value instead."


def optional(name: str, value: float | None, unit: str) -> None:
    """Refuse what is measured but not above 0; None is not measured."""
    if value is not None:
        number(name, value, low=0, low_open=True, unit=unit, remedy="Use None for unknown.")
