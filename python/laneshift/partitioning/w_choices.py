"""W-Choices: keys hotter than a threshold may use every target, all others two.

[XK] recalled from general knowledge of the follow-up to PKG ("when two choices are not enough");
Data Distribution, 2017, only mentions it as "splitting hot keys over more than two nodes".
Aggregations only, as PKG.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from laneshift import inputcheck
from laneshift.inputcheck import IntArray
from laneshift.partitioning.choices import (
    TupleRouter,
    first_choice,
    fluid_shares,
    scatter_plan,
    second_choice,
)
from laneshift.partitioning.model import Loads, MovePlan, Routing, check_request


@dataclass(frozen=True)
class WChoices:
    """hot_share: a key is hot above this multiple of the mean target load; default 1/5 [XK]."""

    name: ClassVar[str] = "w-choices"

    hot_share: float = 0.2

    def __post_init__(self) -> None:
        inputcheck.number("hot_share", self.hot_share, "Use 0.2 to 2.", low=0.0, low_open=True)

    def hot_keys(self, loads: Loads, routing: Routing) -> IntArray:
        """Ids of the keys above the threshold."""
        limit = self.hot_share * float(loads.load.sum()) / int(routing.active.sum())
        return np.flatnonzero(loads.load > limit)

    def plan(self, loads: Loads, routing: Routing, tolerance: float) -> MovePlan:
        """Long-run shares."""
        tau = check_request(loads, routing, tolerance)
        alive = np.flatnonzero(routing.active)
        shares = fluid_shares(
            loads, first_choice(routing), second_choice(routing),
            self.hot_keys(loads, routing), routing.n_targets, alive,
        )  # fmt: skip
        why = "shares are multiples of 1/64 here; raise the tolerance or lower hot_share"
        return scatter_plan(self.name, loads, routing, shares, tau, why)

    def router(self, loads: Loads, routing: Routing) -> TupleRouter:
        """Exact tuple-by-tuple router over the same candidates."""
        return TupleRouter(
            first_choice(routing),
            second_choice(routing),
            frozenset(self.hot_keys(loads, routing).tolist()),
            np.flatnonzero(routing.active),
            np.zeros(routing.n_targets),
        )
