"""Checks of scalars and arrays with units; errors are `laneshift.inputcheck.InputError`.

They name the field, what was found, the allowed range with its unit, and the way out.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
from numpy.typing import ArrayLike, NDArray

from laneshift.inputcheck import InputError

__all__ = ["InputError", "array", "integer", "number", "one_of", "unique"]


def number(
    field: str,
    value: float,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    low_open: bool = False,
    high_open: bool = False,
    unit: str = "",
    finite: bool = True,
    remedy: str = "Correct the value.",
) -> float:
    """Return ``value`` as float if it is in the given interval, else raise `InputError`."""
    numeric = isinstance(value, int | float | np.integer | np.floating)
    if numeric and not isinstance(value, bool):
        x = float(value)
        above = x > low or (x == low and not low_open)
        below = x < high or (x == high and not high_open)
        if above and below and not (finite and math.isinf(x)):
            return x
    allowed = _interval(low, high, low_open, high_open, unit, finite)
    raise InputError(field, value, allowed, remedy)


def integer(
    field: str,
    value: int,
    *,
    low: int | None = None,
    high: int | None = None,
    unit: str = "",
    remedy: str = "Correct the value.",
) -> int:
    """Return ``value`` as int if it is an integer in [low, high], else raise `InputError`."""
    lower = -math.inf if low is None else low
    upper = math.inf if high is None else high
    allowed = "an integer" + _bounds(lower, upper, False, False, unit)
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputError(field, value, allowed, remedy)
    if value < lower or value > upper:
        raise InputError(field, value, allowed, remedy)
    return int(value)


def one_of(
    field: str,
    value: str,
    known: Collection[str],
    *,
    remedy: str = "Choose one of these.",
) -> str:
    """Return ``value`` if it is one of ``known``, else raise `InputError` that lists them."""
    if value not in known:
        raise InputError(field, value, "one of " + ", ".join(sorted(known)), remedy)
    return value


def unique(
    field: str, values: Collection[str], *, remedy: str = "Give each one its own id."
) -> None:
    """Raise `InputError` if an id occurs twice."""
    seen: set[str] = set()
    for value in values:
        if value in seen:
            raise InputError(field, value, "ids that occur once", remedy)
        seen.add(value)


def array(
    field: str,
    values: ArrayLike,
    *,
    low: float = -math.inf,
    low_open: bool = False,
    length: int | None = None,
    finite: bool = True,
    unit: str = "",
    remedy: str = "Correct the entries.",
) -> NDArray[np.float64]:
    """Return ``values`` as a new 1-d float array; every entry in range, length as given."""
    out = np.array(values, dtype=np.float64)
    if out.ndim != 1 or (length is not None and out.size != length):
        wanted = "a 1-d array" + (f" of length {length}" if length is not None else "")
        raise InputError(field, f"an array of shape {out.shape}", wanted, remedy)
    bad = np.isnan(out) | (out < low)
    if finite:
        bad |= np.isinf(out)
    if low_open:
        bad |= out == low
    if bad.any():
        where = int(np.argmax(bad))
        allowed = _interval(low, math.inf, low_open, False, unit, finite)
        raise InputError(f"{field}[{where}]", float(out[where]), allowed, remedy)
    return out


def _interval(
    low: float, high: float, low_open: bool, high_open: bool, unit: str, finite: bool
) -> str:
    kind = "a finite number" if finite else "a number or inf"
    return kind + _bounds(low, high, low_open, high_open, unit)


def _bounds(low: float, high: float, low_open: bool, high_open: bool, unit: str) -> str:
    text = ""
    if low > -math.inf:
        text += f" {'>' if low_open else '>='} {low:g}"
    if high < math.inf:
        text += " and" if text else ""
        text += f" {'<' if high_open else '<='} {high:g}"
    return text + (f" {unit}" if unit else "")
