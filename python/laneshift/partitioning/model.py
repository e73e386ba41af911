"""What a partitioner reads and what it returns.

Words (Data Distribution, 2017): a *target* is one parallel unit that holds keys, the source's
"downstream node"; inside an elastic partition it is a lane. A *key* is the unit of load; inside an
elastic partition it is a shard. A *fragment* is a target that holds part of a key. The *home* of a
key is where the base function F puts it; every other place is recorded in the routing table Y.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NewType, Protocol

import numpy as np
from numpy.typing import ArrayLike

from laneshift import inputcheck
from laneshift.errors import InputError
from laneshift.inputcheck import BoolArray, FloatArray, IntArray

KeyIndex = NewType("KeyIndex", int)
"""A key, or a shard, by its place in `Loads`; not the key itself."""

TargetId = NewType("TargetId", int)
"""A target by its number, from 0."""

#: Loads closer than this share of the mean target load count as equal (rounding of sums).
REL_EPS = 1e-9


@dataclass(frozen=True, eq=False)
class Loads:
    """Load of every key.

    load:  (K,) load per key, >= 0; the source's L(k), a data volume (tuples, tuples/s or CPU s/s).
    state: (K,) bytes that travel when the whole key moves, >= 0; the source's MC(k). Default: load.
    side:  (K,) 0 for keys of stream R, 1 for stream S; only join partitioners need it.
    join_key: (K,) value >= 0 that equal keys of R and S share (bi6); default: the key id.
    Errors: :class:`InputError` for negative, NaN or infinite values and for wrong lengths.
    """

    load: FloatArray
    state: FloatArray
    side: IntArray | None = None
    join_key: IntArray | None = None

    @classmethod
    def of(
        cls,
        load: ArrayLike,
        state: ArrayLike | None = None,
        side: ArrayLike | None = None,
        join_key: ArrayLike | None = None,
    ) -> Loads:
        """Check and build; see the class for shapes and units."""
        x = inputcheck.vector("load", load, "Give one non-negative load per key.")
        mc = x if state is None else state
        s = inputcheck.vector("state", mc, "Give the state bytes of each key.", size=x.size)
        sides = None
        if side is not None:
            sides = inputcheck.indices(
                "side", side, "Give 0 (stream R) or 1 (stream S) per key.", below=2, size=x.size
            )
        joined = None
        if join_key is not None:
            joined = inputcheck.indices(
                "join_key", join_key, "Give one id per key.", below=2**62, size=x.size
            )
        return cls(x, s, sides, joined)

    @property
    def n_keys(self) -> int:
        """K, the number of keys."""
        return int(self.load.size)


@dataclass(frozen=True, eq=False)
class Routing:
    """Where each key's data are: base function F and the fragments, sorted by key then target.

    home:    (K,) target of each key under F.
    key, target, share: (F,) fragments; shares of one key sum to 1; every key has >= 1 fragment.
    active:  (N,) False for a target that is being removed: it must end empty.
    """

    home: IntArray
    key: IntArray
    target: IntArray
    share: FloatArray
    active: BoolArray

    @classmethod
    def at_home(cls, home: ArrayLike, n_targets: int, active: ArrayLike | None = None) -> Routing:
        """Every key whole on its home target, Y empty."""
        return cls.from_table(home, n_targets, {}, active)

    @classmethod
    def from_table(
        cls,
        home: ArrayLike,
        n_targets: int,
        table: Mapping[int, Mapping[int, float]],
        active: ArrayLike | None = None,
    ) -> Routing:
        """Build from F and Y = {key: {target: share}} (only keys that are not wholly at home).

        Errors: :class:`InputError` for unknown keys or targets, shares outside (0, 1], shares of a
        key that do not sum to 1.
        """
        n = inputcheck.whole("n_targets", n_targets, "Give at least one target.", low=1)
        homes = inputcheck.indices("home", home, f"Homes are targets 0..{n - 1}.", below=n)
        for k, places in table.items():
            inputcheck.whole("table key", k, "Drop it.", low=0, high=homes.size - 1)
            for t, q in places.items():
                inputcheck.whole(f"table[{k}] target", t, "Drop it.", low=0, high=n - 1)
                inputcheck.number(
                    f"table[{k}][{t}]", q, "Leave out empty shares.", low=0, high=1, low_open=True
                )
            total = sum(places.values())
            if abs(total - 1.0) > 1e-6:
                raise InputError(f"table[{k}]", total, "shares that sum to 1", "Normalise them.")
        listed = np.zeros(homes.size, dtype=bool)
        listed[list(table)] = True
        plain = np.flatnonzero(~listed)
        more = [(k, t, q) for k, places in table.items() for t, q in places.items()]
        key = np.concatenate([plain, np.array([m[0] for m in more], dtype=np.int64)])
        target = np.concatenate([homes[plain], np.array([m[1] for m in more], dtype=np.int64)])
        share = np.concatenate([np.ones(plain.size), np.array([m[2] for m in more])])
        order = np.lexsort((target, key))
        alive = np.ones(n, dtype=bool) if active is None else np.asarray(active, dtype=bool)
        if alive.shape != (n,) or not alive.any():
            raise InputError(
                "active", alive.tolist(), f"{n} flags, at least one set", "Keep one target."
            )
        return cls(homes, key[order], target[order], share[order], alive)

    @property
    def n_targets(self) -> int:
        """N, the number of targets, active or not."""
        return int(self.active.size)

    @cached_property
    def start(self) -> IntArray:
        """(K + 1,) fragments of key k are rows start[k]:start[k + 1]."""
        counts = np.bincount(self.key, minlength=self.home.size)
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    def places(self, key: int) -> dict[TargetId, float]:
        """{target: share} of one key, wherever it is."""
        rows = slice(int(self.start[key]), int(self.start[key + 1]))
        pairs = zip(self.target[rows].tolist(), self.share[rows].tolist(), strict=True)
        return {TargetId(t): q for t, q in pairs}

    @cached_property
    def away(self) -> BoolArray:
        """(K,) True for keys listed in Y: not wholly at home."""
        single = np.diff(self.start) == 1
        at_home: BoolArray = single & (self.target[self.start[:-1]] == self.home)
        return ~at_home

    def table(self) -> dict[KeyIndex, dict[TargetId, float]]:
        """Y: every location, the home share included, of every key not wholly at home."""
        return {KeyIndex(int(k)): self.places(int(k)) for k in np.flatnonzero(self.away)}

    def target_load(self, loads: Loads) -> FloatArray:
        """(N,) load stored on each target."""
        weight = loads.load[self.key] * self.share
        total = np.bincount(self.target, weights=weight, minlength=self.n_targets)
        return total.astype(np.float64)


@dataclass(frozen=True, slots=True)
class Move:
    """Move ``amount`` of key's load (same unit as Loads.load, state in proportion)."""

    key: KeyIndex
    amount: float
    source: TargetId
    target: TargetId


@dataclass(frozen=True, slots=True)
class Split:
    """A key held by several targets after the plan: (target, share) pairs, shares sum to 1."""

    key: KeyIndex
    shares: tuple[tuple[TargetId, float], ...]


@dataclass(frozen=True, eq=False)
class MovePlan:
    """A diff: the moves to make, the splits and the routing that result.

    feasible: max target load <= (1 + tolerance) * mean afterwards (Data Distribution, 2017).
    reason:   why not, in words, when it is not feasible; otherwise empty.
    receive:  (N,) expected load received per target, broadcasts included; None: stored load.
    """

    partitioner: str
    moves: tuple[Move, ...]
    splits: tuple[Split, ...]
    routing: Routing
    feasible: bool
    reason: str = ""
    receive: FloatArray | None = None
    notes: Mapping[str, float] = field(default_factory=dict)


class Partitioner(Protocol):
    """Loads, routing and tolerance in, moves and splits out; pure, no clock, no randomness."""

    @property
    def name(self) -> str:
        """Registered name."""

    def plan(self, loads: Loads, routing: Routing, tolerance: float) -> MovePlan:
        """Return a plan for ``tolerance`` = allowed overload as a share of the mean, >= 0."""


def check_request(loads: Loads, routing: Routing, tolerance: float) -> float:
    """Check that loads and routing fit together; return the tolerance as a float."""
    if routing.home.size != loads.n_keys:
        raise InputError(
            "routing.home", f"{routing.home.size} keys", f"{loads.n_keys} keys as in loads",
            "Build both from the same key list.",
        )  # fmt: skip
    return inputcheck.number("tolerance", tolerance, "0.05 allows 5% above the mean.", low=0.0)


def splits_of(routing: Routing) -> tuple[Split, ...]:
    """All keys that several targets hold."""
    many = np.flatnonzero(np.diff(routing.start) > 1)
    return tuple(Split(KeyIndex(int(k)), tuple(routing.places(int(k)).items())) for k in many)


def verdict(loads: Loads, routing: Routing, tolerance: float, why: str) -> tuple[bool, str]:
    """(feasible, reason) of a final routing under the one-sided test max L <= UL."""
    load = routing.target_load(loads)
    mean = float(load.sum()) / int(routing.active.sum())
    limit = np.where(routing.active, (1.0 + tolerance) * mean, 0.0)
    over = load - limit
    worst = int(np.argmax(over))
    if over[worst] <= REL_EPS * max(mean, 1e-300):
        return True, ""
    return False, (
        f"target {worst} stays at {load[worst]:.6g}, limit {limit[worst]:.6g} "
        f"(tolerance {tolerance:g}): {why}"
    )


def moved(moves: Sequence[Move]) -> float:
    """Sum of the moved amounts, in load units."""
    return float(sum(m.amount for m in moves))
