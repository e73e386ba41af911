"""Rescale plans: what each new subtask reads from which old checkpoint file.

Source: Key groups, 2020; the restore procedure is [XF].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from keygroups.ranges import (
    KeyGroupRange,
    check_max_parallelism,
    key_group_ranges,
    owner,
)
from laneshift.errors import InputError

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Read:
    """New subtask ``new`` reads adjacent key groups from the file of old subtask ``old``."""

    new: int
    old: int
    groups: KeyGroupRange


@dataclass(frozen=True)
class RescalePlan:
    """From ``old`` to ``new`` subtasks at a fixed max parallelism.

    reads: every (new, old) pair, one seek and one sequential read each; at most old + new - 1.
    moved: key groups whose subtask INDEX changes, ascending.
    """

    max_parallelism: int
    old: int
    new: int
    reads: tuple[Read, ...]
    moved: tuple[int, ...]

    def bytes_per_subtask(self, group_bytes: Mapping[int, float]) -> tuple[float, ...]:
        """Bytes that each new subtask reads, given bytes per key group (missing: 0)."""
        out = [0.0] * self.new
        for read in self.reads:
            out[read.new] += sum(
                group_bytes.get(g, 0.0) for g in range(read.groups.start, read.groups.end + 1)
            )
        return tuple(out)


def rescale_plan(
    max_parallelism: int, old: int, new: int, *, configured_max_parallelism: int | None = None
) -> RescalePlan:
    """Plan a restart from ``old`` to ``new`` subtasks.

    configured_max_parallelism: what the user set for the new job; None takes over the saved one.
    Errors: ``InputError`` if it differs from the saved one (Flink fails: keyGroup() would change
    for nearly every key) or if ``new`` exceeds it.
    """
    m = check_max_parallelism(max_parallelism)
    if configured_max_parallelism not in (None, m):
        raise InputError(
            "configured_max_parallelism", configured_max_parallelism, f"the saved value {m}",
            "Leave it unset: the max parallelism of a job with state never changes.",
        )  # fmt: skip
    sources, goals = key_group_ranges(m, old), key_group_ranges(m, new)
    reads = []
    for i, goal in enumerate(goals):
        first, last = owner(goal.start, m, old), owner(goal.end, m, old)
        for j in range(first, last + 1):
            reads.append(Read(i, j, goal.intersection(sources[j])))
    moved = tuple(g for g in range(m) if g * old // m != g * new // m)
    return RescalePlan(m, old, new, tuple(reads), moved)


def restore(plan: RescalePlan, files: list[dict[int, V]]) -> list[dict[int, V]]:
    """Apply a plan to checkpoint files ({key group: state} per old subtask); one dict per new one.

    Errors: a file with a key group outside its subtask's range.
    """
    ranges = key_group_ranges(plan.max_parallelism, plan.old)
    if len(files) != plan.old:
        raise InputError("files", len(files), f"{plan.old} files", "Give one per old subtask.")
    for j, held in enumerate(files):
        for g in held:
            if g not in ranges[j]:
                raise InputError(f"files[{j}]", g, f"groups in {ranges[j]}", "Wrong checkpoint.")
    out: list[dict[int, V]] = [{} for _ in range(plan.new)]
    for read in plan.reads:
        source = files[read.old]
        for g in range(read.groups.start, read.groups.end + 1):
            if g in source:
                out[read.new][g] = source[g]
    return out


def shards_of_executor(max_parallelism: int, executors: int, index: int) -> dict[int, int]:
    """{key group: shard} when m = y * z key groups serve as Elasticutor's shards (section 9 [D]).

    With m a multiple of ``executors`` every executor gets exactly z consecutive groups.
    """
    if check_max_parallelism(max_parallelism) % executors:
        raise InputError(
            "max_parallelism", max_parallelism, f"a multiple of {executors}", "Use y * z groups."
        )
    own = key_group_ranges(max_parallelism, executors)[index]
    return {g: g - own.start for g in range(own.start, own.end + 1)}
