"""The shards of one partition as columns: where each runs, what it weighs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from laneshift.contract.measured import REMEDY
from laneshift.errors import InputError


@dataclass(frozen=True, eq=False)
class ShardTable:
    """The shards of one partition as columns of equal length z (arrays are made read-only).

    Attributes:
        shard: shard ids, int64 (z,), unique. Ids of one operator's partitions may be disjoint
            (resource-centric moves between partitions need that) or each start at 0.
        lane: lane that owns the shard, int64 (z,).
        load_cores: CPU seconds per second that the shard's rows cost, float64 (z,), >= 0.
        state_bytes: bytes of state of the shard, float64 (z,), >= 0.
    """

    shard: NDArray[np.int64]
    lane: NDArray[np.int64]
    load_cores: NDArray[np.float64]
    state_bytes: NDArray[np.float64]

    def __post_init__(self) -> None:
        size = np.asarray(self.shard).size
        for name in ("shard", "lane", "load_cores", "state_bytes"):
            kind = np.int64 if name in ("shard", "lane") else np.float64
            column = np.array(getattr(self, name), dtype=kind)
            if column.shape != (size,):
                raise InputError(
                    f"shards.{name}", f"shape {column.shape}", f"shape ({size},)", "Align columns."
                )
            if size and not (column.min() >= 0 and column.max() < np.inf):
                bad = ~(column >= 0) | ~np.isfinite(column)
                where = int(np.argmax(bad))
                raise InputError(
                    f"shards.{name}[{where}]", column[where].item(), "finite and >= 0", REMEDY
                )
            column.setflags(write=False)
            object.__setattr__(self, name, column)
        if len(set(self.shard.tolist())) != size:
            raise InputError("shards.shard", "a repeated id", "unique ids", "Name a shard once.")

    def __len__(self) -> int:
        return int(self.shard.size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ShardTable):
            return NotImplemented
        names = ("shard", "lane", "load_cores", "state_bytes")
        return all(np.array_equal(getattr(self, n), getattr(other, n)) for n in names)

    __hash__ = None  # type: ignore[assignment]
