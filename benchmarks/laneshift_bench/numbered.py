"""Rows whose every answer can be told without reading them, and the check of answers.

Row ``n`` of the only source partition has a key that follows from ``n``: in a cycle of ``BLOCKS``
blocks of 63 rows each block has six keys, with 1, 2, 4, 8, 16 and 32 rows that follow each other.
So the count, the newest row and the sum of the rows of a key are known for any end of the input,
and from a count alone the other two. Only numpy: Spark's Python workers load this.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
BLOCKS, GROUPS = 16, 6
BLOCK = 2**GROUPS - 1
CYCLE = BLOCKS * BLOCK
KEYS = BLOCKS * GROUPS
COLUMNS = ("key", "n", "newest", "total")
KEY_SQL = f"""\
pmod(seq div {BLOCK}, {BLOCKS}) * {GROUPS} + CASE
  {" ".join(f"WHEN seq % {BLOCK} < {2 ** (g + 1) - 1} THEN {g}" for g in range(GROUPS - 1))}
  ELSE {GROUPS - 1} END"""
"""The key of a row by its number ``seq``."""
MARK = "WRONG ANSWER:"
"""Begins the message of whoever has found one."""

Answer = tuple[int, int, int, int]
"""Of a key: key, rows, number of the newest row, sum of the rows' numbers."""


class Wrong(Exception):  # noqa: N818 - what it is called in every message
    """An answer that the input does not give; the message says which and how."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{MARK} {what}")


def key_of(seq: IntArray) -> IntArray:
    """The key of each row by its number, int64 as ``seq``."""
    within = seq % BLOCK
    group: IntArray = np.floor(np.log2(within + 1)).astype(np.int64)
    keys: IntArray = (seq // BLOCK % BLOCKS) * GROUPS + group
    return keys


def _first(key: IntArray) -> tuple[IntArray, IntArray]:
    """Where a key's rows begin in a cycle, and how many they are there."""
    each = 2 ** (key % GROUPS)
    return (key // GROUPS) * BLOCK + each - 1, each


def counts(rows: int) -> IntArray:
    """Rows of every key among the first ``rows``, int64 (KEYS,)."""
    begins, each = _first(np.arange(KEYS))
    cycles, rest = divmod(rows, CYCLE)
    found: IntArray = cycles * each + np.clip(rest - begins, 0, each)
    return found


def answer(key: int, n: int) -> Answer:
    """What a key's first ``n`` (>= 1) rows give."""
    begin, each = (int(x) for x in _first(np.array(key)))
    cycles, rest = divmod(n - 1, each)
    newest = cycles * CYCLE + begin + rest
    whole, more = divmod(n, each)
    total = each * CYCLE * (whole * (whole - 1) // 2) + whole * (each * begin + _below(each))
    total += more * (whole * CYCLE + begin) + _below(more)
    return key, n, newest, total


def _below(n: int) -> int:
    return n * (n - 1) // 2


def answers(rows: int) -> dict[int, Answer]:
    """What the first ``rows`` rows give, of every key that has some."""
    return {key: answer(key, int(n)) for key, n in enumerate(counts(rows)) if n}


def told(found: Sequence[int], due: Answer) -> str:
    """In which way an answer is wrong."""
    _, n, newest, total = found
    what = f"key {found[0]} has {n} rows, the newest {newest}, sum {total}; due are {due[1]} rows, "
    what += f"the newest {due[2]}, sum {due[3]}: "
    if n != due[1]:
        lost = due[1] - n
        return what + (f"{lost} lost" if lost > 0 else f"{-lost} doubled")
    return what + "as many rows, but not the same, or not in their order"


def check_batch(found: Sequence[Sequence[int]], before: int, rows: int, where: str) -> None:
    """The answers of a batch that has brought the input from ``before`` to ``rows`` rows.

    Each key with rows in the batch answers once. Errors: Wrong.
    """
    changed = np.flatnonzero(counts(rows) > counts(before))
    due = {int(key): answer(int(key), int(counts(rows)[key])) for key in changed}
    seen: set[int] = set()
    for each in found:
        key = int(each[0])
        if key not in due:
            raise Wrong(f"{where}: key {key} answers, of which the batch has no row.")
        if key in seen:
            raise Wrong(f"{where}: key {key} answers twice.")
        if tuple(each) != due[key]:
            raise Wrong(f"{where}: {told(each, due[key])}.")
        seen.add(key)
    if missing := sorted(due.keys() - seen):
        raise Wrong(f"{where}: no answer of keys {missing[:5]}, {len(missing)} in all.")


def check_state(found: Sequence[Sequence[int]], rows: int, where: str) -> None:
    """The state after the first ``rows`` rows: each key once, as the input says. Errors: Wrong."""
    if rows or found:
        check_batch(found, 0, rows, where)


@dataclass
class Batches:
    """Checks a query in micro-batches of ``size`` rows, and remembers what was checked.

    ``file`` outlives the process: a batch that is run again after a kill has to bring the same
    rows, and the next one ``size`` more.
    """

    file: Path
    size: int

    def check(self, batch: int, found: Sequence[Sequence[int]]) -> None:
        """The answers of a batch; those of one without rows are none. Errors: Wrong."""
        known = self.read()
        again = batch <= known["batch"]
        if batch < known["batch"]:
            raise Wrong(f"batch {batch} comes after {known['batch']}, which had ended.")
        if not found:  # Spark's and the take-over's own
            return
        before = known["rows"] - self.size if again else known["rows"]
        check_batch(found, before, before + self.size, f"totals, batch {batch}")
        checked = known["answers"] + (0 if again else len(found))
        replace(self.file, {"batch": batch, "rows": before + self.size, "answers": checked})

    def read(self) -> dict[str, int]:
        """Newest batch, input rows until its end, answers that were checked."""
        if not self.file.exists():
            return {"batch": -1, "rows": 0, "answers": 0}
        found: dict[str, int] = json.loads(self.file.read_text())
        return found


class Order:
    """Checks Real-time answers one by one as they come: each key's count goes up by one.

    Spark's writer in Python: one object for each task, opened and closed with each batch. What
    a batch has ended with is kept for the next one, which may begin in another process.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def open(self, partition: int, batch: int) -> bool:
        """Before the first row."""
        self.partition, self.batch = int(partition), int(batch)
        known = self._file(self.batch - 1)
        self.sure = self.batch == 0 or known.exists()
        kept: dict[str, Any] = {"last": {}, "answers": 0}
        if known.exists():
            kept = json.loads(known.read_text())
        self.last = {int(key): int(n) for key, n in kept["last"].items()}
        self.answers = int(kept["answers"])
        return True

    def process(self, row: Sequence[int]) -> None:
        """An answer. Errors: Wrong, which is also left in a file."""
        key, n = int(row[0]), int(row[1])
        where = f"order, batch {self.batch}, partition {self.partition}"
        if n < 1 or tuple(row) != answer(key, n):
            due = answer(key, max(n, 1))
            self._fail(f"{where}: {told(row, due)}.")
        last = self.last.get(key, 0 if self.sure else n - 1)
        if n != last + 1:
            how = f"{n - last - 1} lost" if n > last else "doubled or out of order"
            self._fail(f"{where}: key {key} answers {n} after {last}: {how}.")
        self.last[key] = n
        self.answers += 1

    def close(self, error: Exception | None) -> None:
        """After the last row; the batch may still be run again."""
        if error is None:
            replace(self._file(self.batch), {"last": self.last, "answers": self.answers})
            self._file(self.batch - 2).unlink(missing_ok=True)

    def _file(self, batch: int) -> Path:
        return Path(self.folder) / f"order-{self.partition}-{batch}.json"

    def _fail(self, what: str) -> None:
        leave(Path(self.folder) / WRONG, what)
        raise Wrong(what)


WRONG = "wrong.txt"


def leave(file: Path, what: str) -> None:
    """Keep the first wrong answer of all."""
    if not file.exists():
        file.write_text(f"{MARK} {what}\n")


def replace(file: Path, content: Mapping[str, Any]) -> None:
    """Write a file whole or not at all, whenever this process may be killed."""
    made = file.with_name(f"{file.name}.{os.getpid()}")
    made.write_text(json.dumps(content))
    made.replace(file)
