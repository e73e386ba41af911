"""When the simulated loop does not wait for its period: partitions that become pressed."""

from __future__ import annotations

import numpy as np

from laneshift.autoscale.presses import DEAF_S, SHORT_S, ShortTurns
from laneshift.inputcheck import BoolArray, sums
from laneshift_lab.simulator.fluid import Fluid

WAITING = 0.5
"""A partition is pressed once this part of what its lanes serve in `SHORT_S` waits (ours). A fluid
knows no chance, by which running queries tell."""


class Wakes:
    """Of one run. Until the next turn of the period, or for a while, one press has short turns."""

    def __init__(self, fluid: Fluid) -> None:
        self._fluid = fluid
        self._was: BoolArray = self._pressed()
        self._turns: ShortTurns | None = None
        self._deaf = 0  # looks

    def is_due(self) -> bool:
        """Every `SHORT_S`: whether a short turn is to be taken now."""
        now = self._pressed()
        begun, self._was = bool((now & ~self._was).any()), now
        if self._turns is None:
            if begun and self._deaf == 0:
                self._turns = ShortTurns()
            self._deaf = max(self._deaf - 1, 0)
        return self._turns is not None

    def taken(self, added: bool) -> None:
        """It was, and ``added`` lanes or not."""
        if self._turns is not None and not self._turns.goes_on(added):
            self._turns, self._deaf = None, round(DEAF_S / SHORT_S)

    def turn(self) -> None:
        """A turn of the period was taken."""
        self._turns, self._deaf = None, 0

    def _pressed(self) -> BoolArray:
        lay = self._fluid.layout
        n = len(lay.part_name)
        used = lay.lane_part >= 0
        lanes = np.bincount(lay.lane_part[used], minlength=n)
        cost = np.array([op.cost_s for op in lay.operators])[lay.part_op]
        waiting = sums(np.maximum(lay.lane_part[lay.lane], 0), lay.queue + lay.hold, n)
        found: BoolArray = waiting >= WAITING * lanes * SHORT_S / cost
        return found
