"""Key-group ranges, owners, and the default max parallelism (Key groups, 2020).

m = max parallelism = number of key groups; p = parallelism; i = subtask index.
"""

from __future__ import annotations

from dataclasses import dataclass

from laneshift import inputcheck
from laneshift.errors import InputError

LOWER_BOUND, UPPER_BOUND = 128, 32768


def check_max_parallelism(max_parallelism: int) -> int:
    """m in [1, 32768] [XF], else ``InputError``."""
    return inputcheck.whole(
        "max_parallelism", max_parallelism, "Flink allows no more.", low=1, high=UPPER_BOUND
    )


def _check(max_parallelism: int, parallelism: int) -> None:
    m = check_max_parallelism(max_parallelism)
    inputcheck.whole(
        "parallelism", parallelism, "Max parallelism is a hard ceiling; it cannot be raised later.",
        low=1, high=m,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class KeyGroupRange:
    """Key groups ``start`` to ``end``, both INCLUSIVE [S]; the empty range is (0, -1)."""

    start: int
    end: int

    @classmethod
    def of(cls, start: int, end: int) -> KeyGroupRange:
        """The range; empty if start > end [S]. Errors: a negative start or end of a real range."""
        if start > end:
            return cls(0, -1)
        inputcheck.whole("start", start, "Key groups start at 0.", low=0)
        return cls(start, end)

    def __len__(self) -> int:
        return 1 + self.end - self.start

    def __contains__(self, group: int) -> bool:
        return self.start <= group <= self.end

    def intersection(self, other: KeyGroupRange) -> KeyGroupRange:
        """Groups in both, or the empty range."""
        return KeyGroupRange.of(max(self.start, other.start), min(self.end, other.end))

    def group(self, index: int) -> int:
        """The index-th key group; Flink's own check is off by one (idx == size passes)."""
        if not 0 <= index < len(self):
            raise InputError("index", index, f"[0, {len(self)})", "The range has no such group.")
        return self.start + index


def owner(group: int, max_parallelism: int, parallelism: int) -> int:
    """Subtask that owns a key group: g * p / m [XF]."""
    _check(max_parallelism, parallelism)
    inputcheck.whole(
        "group", group, "Groups are 0..max_parallelism-1.", low=0, high=max_parallelism - 1
    )
    return group * parallelism // max_parallelism


def key_group_range(max_parallelism: int, parallelism: int, index: int) -> KeyGroupRange:
    """Range of subtask ``index`` [S]: ceil(i*m/p) to ((i+1)*m - 1) / p, inclusive.

    >>> [key_group_range(10, 3, i) for i in range(3)]  # doctest: +NORMALIZE_WHITESPACE
    [KeyGroupRange(start=0, end=3), KeyGroupRange(start=4, end=6), KeyGroupRange(start=7, end=9)]
    """
    _check(max_parallelism, parallelism)
    inputcheck.whole("index", index, "Subtasks are 0..p-1.", low=0, high=parallelism - 1)
    m, p = max_parallelism, parallelism
    return KeyGroupRange.of((index * m + p - 1) // p, ((index + 1) * m - 1) // p)


def key_group_ranges(max_parallelism: int, parallelism: int) -> tuple[KeyGroupRange, ...]:
    """The ranges of all subtasks, in order; they partition [0, m - 1]."""
    _check(max_parallelism, parallelism)
    return tuple(key_group_range(max_parallelism, parallelism, i) for i in range(parallelism))


def default_max_parallelism(parallelism: int) -> int:
    """min(max(roundUpToPowerOfTwo(p + p/2), 128), 32768) [S].

    Used only when the user sets none. It depends on the FIRST parallelism used (85 -> 128,
    86 -> 256), so set it explicitly at first launch [D].

    >>> default_max_parallelism(85), default_max_parallelism(86)
    (128, 256)
    """
    p = inputcheck.whole(
        "parallelism", parallelism, "Flink allows 1 to 32768.", low=1, high=UPPER_BOUND
    )
    wanted = p + p // 2
    return min(max(1 << (wanted - 1).bit_length(), LOWER_BOUND), UPPER_BOUND)


def prefix_bytes(max_parallelism: int) -> int:
    """Bytes of the big-endian key-group prefix of a RocksDB key: 1 if m <= 128, else 2 [XF]."""
    return 1 if check_max_parallelism(max_parallelism) <= 128 else 2
