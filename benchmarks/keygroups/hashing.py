"""Key -> key group, equal to Flink's: the key's Java hashCode, then murmur, then modulo.

Source: Key groups, 2020; murmur is [XF] (run against Flink 1.20.0 classes), the Java hash
codes are [XK] checked against Java. Spark's own hash partitioning uses seed 42 and a positive
modulo [XK]: never mix the two hashes [D].
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from keygroups.ranges import check_max_parallelism
from laneshift import inputcheck
from laneshift.errors import InputError
from laneshift.inputcheck import IntArray

JavaKey = bool | int | float | str | Sequence["JavaKey"]
INT_MIN, INT_MAX = -(2**31), 2**31 - 1


def _signed(x: int) -> int:
    x &= 0xFFFFFFFF
    return x - 2**32 if x >= 2**31 else x


def _long_hash(bits: int) -> int:
    bits &= 2**64 - 1
    return _signed(bits ^ (bits >> 32))


def java_hash_code(key: JavaKey, *, long: bool = False) -> int:
    """Java's hashCode of a key, as a signed 32-bit int.

    str -> String, bool -> Boolean, float -> Double, int -> Integer (Long if ``long``),
    list or tuple -> List of those. Errors: ``InputError`` for None (Flink rejects null keys), for
    ints that do not fit, and for types without a stable hash (e.g. bytes: an identity hash [XK]).

    >>> java_hash_code("flink"), java_hash_code(-1, long=True), java_hash_code((1, 2))
    (97520992, 0, 994)
    """
    if isinstance(key, bool):
        return 1231 if key else 1237
    if isinstance(key, int):
        bits = 64 if long else 32
        low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        inputcheck.whole("key", key, "Use long=True for 64-bit keys.", low=low, high=high)
        return _long_hash(key) if long else key
    if isinstance(key, float):
        bits = 0x7FF8000000000000 if key != key else struct.unpack(">q", struct.pack(">d", key))[0]
        return _long_hash(bits)
    if isinstance(key, str):
        h = 0
        units = key.encode("utf-16-be", "surrogatepass")
        for i in range(0, len(units), 2):
            h = (31 * h + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
        return _signed(h)
    if isinstance(key, list | tuple):
        h = 1
        for element in key:
            h = (31 * h + java_hash_code(element, long=long)) & 0xFFFFFFFF
        return _signed(h)
    raise InputError(
        "key", key, "bool, int, float, str or a list of those",
        "A key needs a hash that is the same in every process; null keys are not allowed.",
    )  # fmt: skip


def murmur(codes: ArrayLike) -> IntArray:
    """Flink's murmur of int32 codes: MurmurHash3 x86_32 with seed 0, then absolute value [XF].

    codes: any shape, whole numbers in int32; returns int64 of that shape in [0, 2^31).
    """
    x = np.asarray(codes)
    if not np.issubdtype(x.dtype, np.integer) or ((x < INT_MIN) | (x > INT_MAX)).any():
        raise InputError(
            "codes", codes, f"whole numbers in [{INT_MIN}, {INT_MAX}]", "Hash the key first."
        )
    mask = np.uint64(0xFFFFFFFF)
    h = x.astype(np.int64).astype(np.uint64) & mask

    def rotl(v: np.ndarray, bits: int) -> np.ndarray:
        left: np.ndarray = ((v << np.uint64(bits)) | (v >> np.uint64(32 - bits))) & mask
        return left

    h = h * np.uint64(0xCC9E2D51) & mask
    h = rotl(h, 15) * np.uint64(0x1B873593) & mask
    h = rotl(h, 13) * np.uint64(5) + np.uint64(0xE6546B64) & mask
    h = h ^ np.uint64(4)
    h = (h ^ (h >> np.uint64(16))) * np.uint64(0x85EBCA6B) & mask
    h = (h ^ (h >> np.uint64(13))) * np.uint64(0xC2B2AE35) & mask
    h = h ^ (h >> np.uint64(16))
    signed = h.astype(np.int64)
    signed = np.where(signed >= 2**31, signed - 2**32, signed)
    result: IntArray = np.where(signed == INT_MIN, 0, np.abs(signed))
    return result


def key_group(key: JavaKey, max_parallelism: int, *, long: bool = False) -> int:
    """Key group in [0, m) of one key; m = ``max_parallelism`` (1..32768)."""
    m = check_max_parallelism(max_parallelism)
    return int(murmur(java_hash_code(key, long=long))) % m


def key_groups(codes: ArrayLike, max_parallelism: int) -> IntArray:
    """Key groups of many Java hash codes at once, same shape as ``codes``."""
    groups: IntArray = murmur(codes) % check_max_parallelism(max_parallelism)
    return groups
