"""MNRT: greedy over planning time, routing table, migration and broadcast (O1..O4).

The name stands for migration plan, split key, network cost, routing table. Source:
Data Distribution, 2017, Algorithms 2 and 4, Table 2. Marks: the second unload tests
L(d) > UL [R] (the printed L(k) >= UL leaves invalid plans); MC/L [R]; Dstar = {L < Lbar} [R];
rank 2.5 for (1,3) [R/E]; tie-breaks and the origin rule [E].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from laneshift import inputcheck
from laneshift.partitioning.holdings import Holdings
from laneshift.partitioning.limits import Limits
from laneshift.partitioning.mnrt_load import Pool
from laneshift.partitioning.mnrt_unload import pick_keys
from laneshift.partitioning.model import Loads, MovePlan, Routing, check_request

TIE_BREAKS = ("fits-first", "largest-first")
UNDERLOADED = ("below-mean", "below-limit")


@dataclass(frozen=True)
class Mnrt:
    """Prefer moves that merge split keys or bring them home; split only what must be split.

    tie_break:      "fits-first" [E] (default): the largest key that fits, else the smallest one is
                    cut: less broadcast (O4). "largest-first": fewer keys moved, smaller table (O2).
    underloaded:    "below-mean" (default) or "below-limit": which targets may receive.
    merge_out_rank: load rank of class (1,3), 2.5 or 9 ("last"); both are valid [C].
    giant_keys:     [E] off by default: a key larger than UL keeps its target to itself.
    integer:        loads are whole tuples, see ``Limits``.
    Errors: ``InputError`` for unknown option names.
    """

    name: ClassVar[str] = "mnrt"

    tie_break: str = "fits-first"
    underloaded: str = "below-mean"
    merge_out_rank: float = 2.5
    giant_keys: bool = False
    integer: bool = False

    def __post_init__(self) -> None:
        inputcheck.choice("tie_break", self.tie_break, TIE_BREAKS, "Use fits-first.")
        inputcheck.choice("underloaded", self.underloaded, UNDERLOADED, "Use below-mean.")
        inputcheck.number("merge_out_rank", self.merge_out_rank, "Use 2.5 or 9.", low=0.0)

    def plan(self, loads: Loads, routing: Routing, tolerance: float) -> MovePlan:
        """Plan for tau_max = ``tolerance``; see :class:`Partitioner`."""
        tau = check_request(loads, routing, tolerance)
        limits = Limits.of(loads, routing, tau, self.integer)
        run = _Run(self, Holdings(loads, routing), limits)
        for d in range(routing.n_targets):
            run.unload(d)
        run.load_all()
        plan = run.state.finish(self.name, tau, "rounding left a piece without room")
        return plan


class _Run:
    """State of one planning run: holdings, pool, and who is under-loaded."""

    def __init__(self, options: Mnrt, state: Holdings, limits: Limits) -> None:
        self.options = options
        self.state = state
        self.limits = limits
        self.home: list[int] = state.routing.home.tolist()
        self.mc = _state_per_load(state.loads)
        alive = state.routing.active.tolist()
        room = limits.cap if options.underloaded == "below-limit" else [limits.fill] * len(alive)
        self.room = room
        self.low = {d for d, a in enumerate(alive) if a and state.load[d] < room[d] - limits.eps}
        self.received: list[dict[int, list[tuple[int, float]]]] = [{} for _ in alive]
        self.pool = Pool(state, self.home, self.low, options.merge_out_rank)

    def unload(self, d: int) -> None:
        """Move the excess of target d into the pool."""
        excess = self.state.load[d] - self.limits.cap[d]
        if excess <= self.limits.eps:
            return
        giant = self.limits.cap[d] if self.options.giant_keys else float("inf")
        picks = pick_keys(
            self.state, d, excess, self.low, self.home, self.mc,
            self.limits.eps, giant, self.options.tie_break == "fits-first",
        )  # fmt: skip
        for key, amount in picks:
            self._take(key, d, amount)

    def _take(self, key: int, d: int, amount: float) -> None:
        """Received tuples of the key leave before resident ones: they have not moved yet [E]."""
        left = self.state.take(key, d, amount)
        parts = self.received[d].get(key, [])
        while parts and left > 0.0:
            origin, had = parts.pop(0)
            piece = min(had, left)
            if had > piece:
                parts.insert(0, (origin, had - piece))
            self.pool.add(key, piece, origin)
            left -= piece
        if left > 0.0:
            self.pool.add(key, left, d)

    def load_all(self) -> None:
        """Put the best piece on its best target until the pool is empty; never cut a piece."""
        while (best := self.pool.best()) is not None:
            piece, d = best
            if d is None:  # rounding: nobody is under-loaded any more
                alive = [t for t, a in enumerate(self.state.routing.active.tolist()) if a]
                d = min(alive, key=lambda t: self.state.load[t])
            key, amount, origin = self.pool.remove(piece)
            self.state.put(key, d, amount)
            if origin != d:
                self.received[d].setdefault(key, []).append((origin, amount))
            if self.state.load[d] >= self.room[d] - self.limits.eps:
                self.low.discard(d)
            self.pool.holders_changed(key)
            self.unload(d)


def _state_per_load(loads: Loads) -> list[float]:
    """MC(k)/L(k) per key; infinite for keys that have state but no load."""
    pairs = zip(loads.state.tolist(), loads.load.tolist(), strict=True)
    return [m / x if x > 0 else float("inf") for m, x in pairs]
