"""Input checks whose errors name the field, the value found, the range expected and the way out.

Used by the planners, the key groups and the simulator. Every check raises :class:`InputError`, a
``ValueError``, before any work is done: a wrong input never reaches a plan.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


class InputError(ValueError):
    """A wrong argument: ``field``, ``found``, ``expected`` and ``remedy`` are attributes too."""

    def __init__(self, field: str, found: object, expected: str, remedy: str) -> None:
        self.field = field
        self.found = found
        self.expected = expected
        self.remedy = remedy
        super().__init__(f"{field}: found {found!r}, expected {expected}. {remedy}")


def number(
    field: str,
    value: float,
    remedy: str,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    open_low: bool = False,
) -> float:
    """Return ``value`` as a finite float in ``[low, high]`` (``(low, high]`` if ``open_low``).

    Errors: :class:`InputError` for NaN, infinities and values outside the range.
    """
    bracket = "(" if open_low else "["
    expected = f"a finite number in {bracket}{low:g}, {high:g}]"
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InputError(field, value, expected, remedy)
    x = float(value)
    if not math.isfinite(x) or x < low or x > high or (open_low and x == low):
        raise InputError(field, value, expected, remedy)
    return x


def whole(field: str, value: int, remedy: str, *, low: int = 0, high: int = 2**63 - 1) -> int:
    """Return ``value`` as an int in ``[low, high]``; bools, floats and NaN are refused."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputError(field, value, f"a whole number in [{low}, {high}]", remedy)
    if not low <= int(value) <= high:
        raise InputError(field, value, f"a whole number in [{low}, {high}]", remedy)
    return int(value)


def vector(
    field: str, values: ArrayLike, remedy: str, *, size: int | None = None, low: float = 0.0
) -> FloatArray:
    """Return a 1-d float64 array of finite values ``>= low``, of length ``size`` if given.

    Errors: :class:`InputError` naming the first wrong element as ``field[index]``.
    """
    try:
        x = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as cause:
        raise InputError(field, values, "an array of numbers", remedy) from cause
    if x.ndim != 1:
        raise InputError(field, f"shape {x.shape}", "a 1-d array", remedy)
    if size is not None and x.size != size:
        raise InputError(field, f"length {x.size}", f"length {size}", remedy)
    bad = ~np.isfinite(x) | (x < low)
    if bad.any():
        i = int(np.argmax(bad))
        raise InputError(f"{field}[{i}]", float(x[i]), f"a finite number >= {low:g}", remedy)
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


def choice(field: str, value: str, known: Iterable[str], remedy: str) -> str:
    """Return ``value`` if it is one of ``known``; the error lists them all."""
    names = sorted(known)
    if value not in names:
        raise InputError(field, value, "one of " + ", ".join(names), remedy)
    return value


def sums(index: IntArray, weights: FloatArray, size: int) -> FloatArray:
    """(size,) sum of ``weights`` per value of ``index``: a bincount that is float64 in name too."""
    return np.bincount(index, weights=weights, minlength=size).astype(np.float64, copy=False)
