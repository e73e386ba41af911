"""One way to give a duration: seconds as a number, ``"50ms"``, or a ``timedelta``."""

from __future__ import annotations

import math
import re
from datetime import timedelta

from laneshift.errors import InputError

Duration = float | str | timedelta
"""Seconds as a number, text with a unit (``"500us"``, ``"50ms"``, ``"1.5s"``, ``"2min"``,
``"1h"``) or a ``timedelta``."""

UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_NUMBER = r"\d+(?:\.\d+)?"
_TEXT = re.compile(rf"({_NUMBER})\s*({'|'.join(UNITS)})")


def seconds(
    field: str,
    value: object,
    *,
    low: float = 0.0,
    high: float = math.inf,
    low_open: bool = False,
) -> float:
    """The duration ``value`` in seconds, from ``low`` to ``high``, without ``low`` if it is open.

    Errors: :class:`~laneshift.errors.InputError` that names ``field``.
    """
    found = _read(value)
    inside = low < found if low_open else low <= found
    if math.isfinite(found) and inside and found <= high:
        return found
    bounds = f"{'>' if low_open else '>='} {low:g} s"
    if high < math.inf:
        bounds += f" and <= {high:g} s"
    remedy = "Give seconds as a number, text with a unit (50ms, 1.5s, 2min, 1h) or a timedelta."
    if isinstance(value, str) and re.fullmatch(_NUMBER, bare := value.strip()):
        remedy += f" This text has no unit: {bare}ms or {bare}s?"
    raise InputError(field, value, f"a duration {bounds}", remedy)


def _read(value: object) -> float:
    """Seconds; NaN for what is no duration."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, str):
        match = _TEXT.fullmatch(value.strip())
        return math.nan if match is None else float(match[1]) * UNITS[match[2]]
    if isinstance(value, bool):
        return math.nan
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return math.nan
