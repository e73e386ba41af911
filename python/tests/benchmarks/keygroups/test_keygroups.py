"""Vectors that Flink 1.20.0 gave, and its properties P1 to P6."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keygroups import (
    KeyGroupRange,
    default_max_parallelism,
    java_hash_code,
    key_group,
    key_group_range,
    key_group_ranges,
    key_groups,
    murmur,
    owner,
    prefix_bytes,
    rescale_plan,
    restore,
    shards_of_executor,
)
from laneshift.errors import InputError

#: h, murmur, groups for m = 10, 128, 1024, 32768, subtask for m = 128 with p = 3 and 4.
INTS = [
    (0, 593689054, 4, 94, 478, 31198, 2, 2),
    (1, 68075478, 8, 86, 982, 16342, 2, 2),
    (2, 1085422463, 3, 127, 895, 15231, 2, 3),
    (42, 1134849565, 5, 29, 541, 28189, 0, 0),
    (100, 616682048, 8, 64, 576, 21056, 1, 2),
    (128, 132521001, 1, 41, 41, 7209, 0, 1),
    (1000, 3506311, 1, 7, 135, 135, 0, 0),
    (123456789, 1088346449, 9, 81, 337, 22865, 1, 2),
    (-1, 1982413648, 8, 80, 848, 15184, 1, 2),
    (-128, 1319572171, 1, 75, 715, 4811, 1, 2),
    (2147483647, 1653689534, 4, 62, 190, 19646, 1, 1),
    (-2147483648, 1718298732, 2, 108, 108, 10348, 2, 3),
]
#: key, is a Long, hashCode, murmur, groups for m = 10, 128, subtask for m = 128 with p = 3 and 4.
KEYS = [
    ("", False, 0, 593689054, 4, 94, 2, 2),
    ("a", False, 97, 1455541201, 1, 81, 1, 2),
    ("key", False, 106079, 801471432, 2, 72, 1, 2),
    ("hello", False, 99162322, 1715862179, 9, 35, 0, 1),
    ("flink", False, 97520992, 1330823394, 4, 98, 2, 3),
    ("spark", False, 109638365, 34841607, 7, 7, 0, 0),
    ("user-1", False, -836031825, 1662039673, 3, 121, 2, 3),
    ("user-42", False, -147182656, 1600933524, 4, 20, 0, 0),
    ("中", False, 20013, 631843097, 7, 25, 0, 0),
    (42, True, 42, 1134849565, 5, 29, 0, 0),
    (-1, True, 0, 593689054, 4, 94, 2, 2),
    (5000000000, True, 705032705, 742106492, 2, 124, 2, 3),
    (3.5, False, 1074528256, 1385515823, 3, 47, 1, 1),
    (True, False, 1231, 1090530765, 5, 77, 1, 2),
    ((1, 2), False, 994, 853044911, 1, 47, 1, 1),
]
RANGES = {
    (10, 2): "0-4, 5-9",
    (10, 3): "0-3, 4-6, 7-9",
    (10, 4): "0-2, 3-4, 5-7, 8-9",
    (10, 7): "0-1, 2-2, 3-4, 5-5, 6-7, 8-8, 9-9",
    (128, 3): "0-42, 43-85, 86-127",
    (128, 4): "0-31, 32-63, 64-95, 96-127",
    (128, 5): "0-25, 26-51, 52-76, 77-102, 103-127",
    (128, 6): "0-21, 22-42, 43-63, 64-85, 86-106, 107-127",
    (128, 7): "0-18, 19-36, 37-54, 55-73, 74-91, 92-109, 110-127",
    (8192, 32): ", ".join(f"{i * 256}-{i * 256 + 255}" for i in range(32)),
    (32768, 3): "0-10922, 10923-21845, 21846-32767",
}
READS = {
    (10, 3, 4): "0:0:0-2 1:0:3-3 1:1:4-4 2:1:5-6 2:2:7-7 3:2:8-9",
    (
        128,
        4,
        5,
    ): "0:0:0-25 1:0:26-31 1:1:32-51 2:1:52-63 2:2:64-76 3:2:77-95 3:3:96-102 4:3:103-127",
    (128, 4, 3): "0:0:0-31 0:1:32-42 1:1:43-63 1:2:64-85 2:2:86-95 2:3:96-127",
    (128, 4, 8): " ".join(f"{i}:{i // 2}:{i * 16}-{i * 16 + 15}" for i in range(8)),
}


@pytest.mark.parametrize("row", INTS)
def test_int_vectors(row: tuple[int, ...]) -> None:
    h, mixed, *groups, p3, p4 = row
    assert int(murmur(h)) == mixed
    assert [key_group(h, m) for m in (10, 128, 1024, 32768)] == groups
    assert [owner(groups[1], 128, p) for p in (3, 4)] == [p3, p4]
    assert key_groups([h, h], 128).tolist() == [groups[1]] * 2


@pytest.mark.parametrize("row", KEYS, ids=str)
def test_key_vectors(row: tuple) -> None:  # type: ignore[type-arg]
    key, long, code, mixed, m10, m128, p3, p4 = row
    assert java_hash_code(key, long=long) == code
    assert int(murmur(code)) == mixed
    assert (key_group(key, 10, long=long), key_group(key, 128, long=long)) == (m10, m128)
    assert (owner(m128, 128, 3), owner(m128, 128, 4)) == (p3, p4)


def test_murmur_of_the_int_that_hashes_to_the_minimum() -> None:
    """|MIN_INT| does not exist: Flink maps it to 0. Its preimage, by inverting the finaliser."""
    h = -(2**31) & 0xFFFFFFFF
    h ^= h >> 16
    h = h * pow(0xC2B2AE35, -1, 2**32) % 2**32
    h ^= (h >> 13) ^ (h >> 26)
    h = h * pow(0x85EBCA6B, -1, 2**32) % 2**32
    h ^= h >> 16
    h = ((h ^ 4) - 0xE6546B64) * pow(5, -1, 2**32) % 2**32
    h = (h >> 13 | h << 19) & 0xFFFFFFFF
    h = h * pow(0x1B873593, -1, 2**32) % 2**32
    h = (h >> 15 | h << 17) & 0xFFFFFFFF
    h = h * pow(0xCC9E2D51, -1, 2**32) % 2**32
    assert int(murmur(h - 2**32 if h >= 2**31 else h)) == 0


def test_beyond_bmp_counts_two_units() -> None:
    assert java_hash_code("\U0001f600") == 31 * 0xD83D + 0xDE00


@pytest.mark.parametrize(("mp", "text"), RANGES.items(), ids=str)
def test_range_vectors(mp: tuple[int, int], text: str) -> None:
    assert ", ".join(f"{r.start}-{r.end}" for r in key_group_ranges(*mp)) == text


@pytest.mark.parametrize(("case", "text"), READS.items(), ids=str)
def test_read_plans(case: tuple[int, int, int], text: str) -> None:
    plan = rescale_plan(*case)
    reads = (f"{r.new}:{r.old}:{r.groups.start}-{r.groups.end}" for r in plan.reads)
    assert " ".join(reads) == text


@pytest.mark.parametrize(
    ("m", "old", "new", "moved", "pairs"),
    [(10, 3, 4, 5, 6), (128, 3, 4, 65, 6), (128, 4, 5, 62, 8), (128, 4, 8, 112, 8),
     (128, 8, 4, 112, 8), (1024, 32, 40, None, 64)],
)  # fmt: skip
def test_moved_groups_and_pairs(m: int, old: int, new: int, moved: int | None, pairs: int) -> None:
    plan = rescale_plan(m, old, new)
    assert len(plan.reads) == pairs
    assert moved is None or len(plan.moved) == moved


def test_naive_modulo_shares() -> None:
    """Hashes of 0..9999 under modulo, keys changing subtask."""
    hashes = murmur(np.arange(10_000))
    share = [float(np.mean(hashes % a != hashes % b)) for a, b in ((3, 4), (4, 5), (4, 8))]
    assert [round(100 * s, 1) for s in share] == [74.9, 80.0, 50.5]


@pytest.mark.parametrize(
    ("m", "p", "ratio"),
    [(128, 3, 1.025), (128, 4, 1.022), (128, 32, 1.091), (128, 100, 1.820), (128, 128, 1.280),
     (1024, 3, 1.017), (1024, 4, 1.009), (1024, 32, 1.114), (1024, 100, 1.290), (1024, 128, 1.344)],
)  # fmt: skip
def test_keys_per_subtask(m: int, p: int, ratio: float) -> None:
    count = np.bincount(key_groups(np.arange(10_000), m) * p // m, minlength=p)
    assert round(float(count.max() / count.mean()), 3) == ratio


@pytest.mark.parametrize(
    ("value", "parallelisms"),
    [(128, [1, 8, 84, 85]), (256, [86, 100, 128, 170, 171]), (512, [172, 256, 341]), (1024, [342]),
     (2048, [1000]), (16384, [10000, 10922, 10923]), (32768, [10924, 21845, 32768])],
)  # fmt: skip
def test_default_max_parallelism(value: int, parallelisms: list[int]) -> None:
    assert [default_max_parallelism(p) for p in parallelisms] == [value] * len(parallelisms)


@pytest.mark.parametrize("parallelism", [0, -1, 32769])
def test_default_rejects(parallelism: int) -> None:
    with pytest.raises(InputError, match=r"parallelism: .*>= 1 and <= 32768"):
        default_max_parallelism(parallelism)


def test_range_semantics() -> None:
    assert len(KeyGroupRange.of(5, 4)) == 0
    assert KeyGroupRange.of(5, 4) == KeyGroupRange(0, -1)
    assert 6 in KeyGroupRange(4, 6)
    assert 7 not in KeyGroupRange(4, 6)
    assert KeyGroupRange(0, 3).intersection(KeyGroupRange(3, 5)) == KeyGroupRange(3, 3)
    assert len(KeyGroupRange(0, 3).intersection(KeyGroupRange(4, 5))) == 0
    assert KeyGroupRange(4, 6).group(2) == 6
    for index in (3, 4, -1):  # Flink lets idx == size pass; we do not
        with pytest.raises(InputError, match="index"):
            KeyGroupRange(4, 6).group(index)


def test_prefix_bytes() -> None:
    assert [prefix_bytes(m) for m in (1, 128, 129, 32768)] == [1, 1, 2, 2]


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 4096), st.data())
def test_p1_to_p3(m: int, data: st.DataObject) -> None:
    p = data.draw(st.integers(1, m))
    ranges = key_group_ranges(m, p)
    assert [g for r in ranges for g in range(r.start, r.end + 1)] == list(range(m))
    assert {len(r) for r in ranges} <= {m // p, -(-m // p)}
    g = data.draw(st.integers(0, m - 1))
    assert [i for i, r in enumerate(ranges) if g in r] == [owner(g, m, p)]


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 300), st.data())
def test_p5_p6(m: int, data: st.DataObject) -> None:
    old, new = data.draw(st.integers(1, m)), data.draw(st.integers(1, m))
    plan = rescale_plan(m, old, new)
    assert len(plan.reads) <= old + new - 1
    for i, goal in enumerate(key_group_ranges(m, new)):
        got = [g for r in plan.reads if r.new == i for g in range(r.groups.start, r.groups.end + 1)]
        assert got == list(range(goal.start, goal.end + 1))
    files = [
        {g: f"state {g}" for g in range(r.start, r.end + 1, 2)} for r in key_group_ranges(m, old)
    ]
    there = restore(plan, files)
    assert restore(rescale_plan(m, new, old), there) == files
    assert sum(plan.bytes_per_subtask(dict.fromkeys(range(m), 1.0))) == m


def test_executor_shards() -> None:
    shards = shards_of_executor(8192, 32, 5)
    assert shards[1280] == 0
    assert shards[1535] == 255
    with pytest.raises(InputError, match="multiple of 3"):
        shards_of_executor(128, 3, 0)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: key_group_range(128, 129, 0), r"parallelism: found 129.*>= 1 and <= 128"),
        (lambda: key_group_range(128, 4, 4), "index: found 4"),
        (lambda: key_group_ranges(0, 1), "max_parallelism: found 0"),
        (lambda: key_group("a", 40_000), "max_parallelism"),
        (lambda: owner(128, 128, 4), "group: found 128"),
        (lambda: java_hash_code(2**31), "key: found 2147483648"),
        (
            lambda: java_hash_code(None),  # type: ignore[arg-type]
            "null keys",
        ),
        (lambda: java_hash_code(b"x"), "same in every process"),
        (lambda: murmur([2**31]), "codes"),
        (lambda: murmur([0.5]), "codes"),
        (lambda: rescale_plan(128, 4, 5, configured_max_parallelism=256), "the saved value 128"),
        (lambda: rescale_plan(128, 4, 200), "parallelism: found 200"),
        (lambda: restore(rescale_plan(10, 2, 3), [{9: 1}, {}]), r"files\[0\]: found 9"),
        (lambda: restore(rescale_plan(10, 2, 3), [{0: 1}]), "2 files"),
    ],
)
def test_wrong_inputs(call, match: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=match):
        call()
