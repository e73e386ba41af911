"""Upper limits and fill levels that QMMP and MNRT share."""

from __future__ import annotations

import math
from dataclasses import dataclass

from laneshift.partitioning.model import REL_EPS, Loads, Routing


@dataclass(frozen=True)
class Limits:
    """cap: (N,) load a target may keep; fill: level up to which pieces are loaded; eps: rounding.

    cap is UL = (1 + tau) * Lbar, 0 for a target being removed ([E] adding and removing nodes);
    fill is Lbar, the mean over active targets. With ``integer`` loads ([E] integer tuples):
    cap = max(floor(UL), ceil(Lbar)), fill = ceil(Lbar).
    """

    cap: list[float]
    fill: float
    eps: float

    @classmethod
    def of(cls, loads: Loads, routing: Routing, tolerance: float, integer: bool) -> Limits:
        """Compute from the mean over active targets; tolerance is tau_max, a share of the mean."""
        mean = float(loads.load.sum()) / int(routing.active.sum())
        cap, fill = (1.0 + tolerance) * mean, mean
        if integer:
            fill = float(math.ceil(mean - REL_EPS * mean))
            cap = max(float(math.floor(cap + REL_EPS * cap)), fill)
        return cls([cap if a else 0.0 for a in routing.active.tolist()], fill, REL_EPS * mean)
