"""Input checks whose errors name the field, the value found, the range expected and the way out.

Used by the whole package. Every check raises :class:`~laneshift.errors.InputError`
before any work is done: a wrong input never reaches a plan.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from laneshift.errors import InputError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def number(
    field: str,
    value: float,
    remedy: str = "Correct the value.",
    *,
    low: float = -math.inf,
    high: float = math.inf,
    low_open: bool = False,
    high_open: bool = False,
    unit: str = "",
    finite: bool = True,
) -> float:
    """Return ``value`` as a float between ``low`` and ``high``, which belong to it unless open.

    Errors: :class:`InputError` for bools, NaN, values outside, and infinities if ``finite``.
    """
    numeric = isinstance(value, int | float | np.integer | np.floating)
    if numeric and not isinstance(value, bool):
        x = float(value)
        above = x > low or (x == low and not low_open)
        below = x < high or (x == high and not high_open)
        if above and below and not (finite and math.isinf(x)):
            return x
    kind = "a finite number" if finite else "a number or inf"
    raise InputError(field, value, kind + _bounds(low, high, low_open, high_open, unit), remedy)


def whole(
    field: str,
    value: int,
    remedy: str = "Correct the value.",
    *,
    low: int = 0,
    high: int = 2**63 - 1,
    unit: str = "",
) -> int:
    """Return ``value`` as an int in ``[low, high]``; bools, floats and NaN are refused."""
    integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not integer or not low <= int(value) <= high:
        expected = "a whole number" + _bounds(low, high, unit=unit)
        raise InputError(field, value, expected, remedy)
    return int(value)


def vector(
    field: str,
    values: ArrayLike,
    remedy: str = "Correct the entries.",
    *,
    size: int | None = None,
    low: float = 0.0,
    low_open: bool = False,
    finite: bool = True,
    unit: str = "",
) -> FloatArray:
    """Return a new 1-d float64 array of values from ``low`` on, of length ``size`` if given.

    Errors: :class:`InputError` naming the first wrong element as ``field[index]``.
    """
    try:
        x = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as cause:
        raise InputError(field, values, "an array of numbers", remedy) from cause
    if x.ndim != 1:
        raise InputError(field, f"shape {x.shape}", "a 1-d array", remedy)
    if size is not None and x.size != size:
        raise InputError(field, f"length {x.size}", f"length {size}", remedy)
    bad = np.isnan(x) | (x < low)
    if finite:
        bad |= np.isinf(x)
    if low_open:
        bad |= x == low
    if bad.any():
        i = int(np.argmax(bad))
        number(
            f"{field}[{i}]", float(x[i]), remedy, low=low, low_open=low_open, finite=finite,
            unit=unit,
        )  # fmt: skip
    return x


def indices(
    field: str, values: ArrayLike, remedy: str, *, below: int, size: int | None = None
) -> IntArray:
    """Return a 1-d int64 array of indices in ``[0, below)``, of length ``size`` if given."""
    x = np.asarray(values)
    if x.size == 0:
        x = x.astype(np.int64)
    if x.ndim != 1 or not np.issubdtype(x.dtype, np.integer):
        raise InputError(field, f"{x.dtype} {x.shape}", "a 1-d array of integers", remedy)
    if size is not None and x.size != size:
        raise InputError(field, f"length {x.size}", f"length {size}", remedy)
    bad = (x < 0) | (x >= below)
    if bad.any():
        i = int(np.argmax(bad))
        raise InputError(f"{field}[{i}]", int(x[i]), f"an index in [0, {below})", remedy)
    return x.astype(np.int64, copy=False)


def choice(
    field: str, value: str, known: Iterable[str], remedy: str = "Choose one of these."
) -> str:
    """Return ``value`` if it is one of ``known``; the error lists them all."""
    names = sorted(known)
    if value not in names:
        raise InputError(field, value, "one of " + ", ".join(names), remedy)
    return value


def unique(field: str, values: Iterable[str], remedy: str = "Give each one its own id.") -> None:
    """Raise `InputError` if an id occurs twice."""
    seen: set[str] = set()
    for value in values:
        if value in seen:
            raise InputError(field, value, "ids that occur once", remedy)
        seen.add(value)


def sums(index: IntArray, weights: FloatArray, size: int) -> FloatArray:
    """(size,) sum of ``weights`` per value of ``index``: a bincount that is float64 in name too."""
    return np.bincount(index, weights=weights, minlength=size).astype(np.float64, copy=False)


def _bounds(
    low: float, high: float, low_open: bool = False, high_open: bool = False, unit: str = ""
) -> str:
    text = ""
    if low > -math.inf:
        text += f" {'>' if low_open else '>='} {_short(low)}"
    if high < 2**63 - 1:
        text += " and" if text else ""
        text += f" {'<' if high_open else '<='} {_short(high)}"
    return text + (f" {unit}" if unit else "")


def _short(bound: float) -> str:
    return str(bound) if isinstance(bound, int) else f"{bound:g}"
