"""What the key-free join schemes share: stream volumes, the scheme record, the plan they return."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from laneshift.errors import InputError
from laneshift.inputcheck import FloatArray
from laneshift.partitioning.model import Loads, MovePlan, Routing


@dataclass(frozen=True)
class Volumes:
    """r, s: load of streams R and S (same unit as Loads.load)."""

    r: float
    s: float

    @classmethod
    def of(cls, partitioner: str, loads: Loads) -> Volumes:
        """Errors: ``InputError`` when the loads do not say which stream a key belongs to."""
        if loads.side is None:
            raise InputError(
                "loads.side", None, "0 (stream R) or 1 (stream S) per key",
                f"{partitioner} is a join partitioner: pass Loads.of(load, side=...).",
            )  # fmt: skip
        r = float(loads.load[loads.side == 0].sum())
        return cls(r, float(loads.load.sum()) - r)


def scheme_plan(
    partitioner: str,
    routing: Routing,
    receive: FloatArray,
    tolerance: float,
    used: int,
    notes: dict[str, float],
) -> MovePlan:
    """A plan whose routing does not depend on keys: no moves, expected receive volume per target.

    receive: (N,), 0 on unused targets. Feasible when max <= (1 + tolerance) * mean of those used.
    """
    busy = receive[receive > 0]
    mean = float(busy.sum()) / max(used, 1)
    peak = float(receive.max(initial=0.0))
    feasible = peak <= (1.0 + tolerance) * mean * (1 + 1e-12)
    reason = ""
    if not feasible:
        reason = f"a target receives {peak:.6g}, the mean is {mean:.6g}: sides or groups are uneven"
    notes = {**notes, "nodes_used": float(used), "mean_receive": mean}
    return MovePlan(partitioner, (), (), routing, feasible, reason, receive, notes)


def spread(active: np.ndarray, values: list[float]) -> FloatArray:
    """(N,) ``values`` on the first active targets, 0 elsewhere."""
    out = np.zeros(active.size)
    out[np.flatnonzero(active)[: len(values)]] = values
    return out
