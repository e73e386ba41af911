"""Algorithm 1: cores of nodes to partitions with little state moved (Elasticutor, 2019, 4.4, 4.5).

Given the old assignment X~, targets k, cores c_i per node, homes I(j), state s_j and data
intensity d_j, the problem is to choose x_ij >= 0 that

    minimise C(X | X~)                               bytes of state moved [R]
    (a) sum_j x_ij <= c_i for every node i           [S]
    (b) X_j = k_j (the algorithm delivers >= k_j)    [S; the sign is lost]
    (c) x_{I(j),j} = X_j for every j with d_j > phi  [S]

which is NP-hard [S]. The greedy takes one core at a time; where it fails, phi is doubled so that
fewer partitions count as data-intensive [S], until none does: then the targets are infeasible [D].

A running partition has its task's own lane at home, which it always keeps (``kept``), and the lanes
of some operators cannot be anywhere else (``bound``) [D]: Algorithm 1 takes no kept core away, and
treats a bound partition as a data-intensive one whatever phi is.

Where the source is silent [D]: free cores belong to a pseudo-partition FREE with s = d = k = 0
([XP] has it too); the set of partitions in need is re-evaluated after each one; a donor keeps at
least one core; a data-intensive partition may also take from a data-intensive one that has spare
cores; ties go to FREE, then to the lowest partition, then to the lowest node.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from laneshift.errors import InputError
from laneshift.inputcheck import FloatArray, IntArray, number, vector
from laneshift.models.migration import cost_to_take, migration_bytes, placement_array

PHI_0 = 512.0 * 1024
"""Initial data-intensity threshold: below 512 KB/s per core locality brings little [S]."""


@dataclass(frozen=True)
class Assignment:
    """What Algorithm 1 found.

    Attributes:
        placement: X, int64 (m, n); equals X~ if nothing was found.
        feasible: False if even without data-intensive partitions the targets do not fit.
        phi: threshold in force at the end (bytes/s per core).
        moved_bytes: objective C(X | X~) (bytes); partitions that held nothing before count 0.
        steps: cores handed over, (from partition or -1 for FREE, to partition, node), in order.
    """

    placement: IntArray
    feasible: bool
    phi: float
    moved_bytes: float
    steps: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class Demand:
    """The input of Algorithm 1: m partitions, n nodes.

    Attributes:
        placement: X~, int (m, n), >= 0; a partition may hold nothing yet.
        targets: k_j, int (m,), >= 1.
        node_cores: c_i, int (n,), >= 0, at least what is held.
        state_bytes: s_j (bytes), (m,), >= 0.
        homes: I(j), node index, int (m,).
        data_intensity: d_j (bytes/s per core), (m,), >= 0.
        kept: cores at home that a partition never gives up, int (m,), 0 if not given.
        bound: whether a partition's cores are all at home, bool (m,), False if not given.
    """

    placement: IntArray
    targets: IntArray
    node_cores: IntArray
    state_bytes: FloatArray
    homes: IntArray
    data_intensity: FloatArray
    kept: IntArray | None = None
    bound: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        held = placement_array("placement", self.placement)
        m, n = held.shape
        object.__setattr__(self, "placement", held)
        if self.kept is None:
            object.__setattr__(self, "kept", np.zeros(m, dtype=np.int64))
        if self.bound is None:
            object.__setattr__(self, "bound", np.zeros(m, dtype=bool))
        for name, size, low, high in (
            ("targets", m, 1, 2**31),
            ("node_cores", n, 0, 2**31),
            ("homes", m, 0, n - 1),
            ("kept", m, 0, 2**31),
        ):
            object.__setattr__(self, name, _whole(name, getattr(self, name), size, low, high))
        for name, unit in (("state_bytes", "bytes"), ("data_intensity", "bytes/s per core")):
            column = vector(name, getattr(self, name), low=0, size=m, unit=unit)
            object.__setattr__(self, name, column)
        over = held.sum(axis=0) - self.node_cores
        if (over > 0).any():
            i = int(np.argmax(over))
            found, most = int(held[:, i].sum()), int(self.node_cores[i])
            raise InputError(
                f"placement on node {i}", found, f"at most its {most} cores", "Move cores away."
            )


def assign(demand: Demand, phi: float) -> tuple[IntArray, tuple[tuple[int, int, int], ...]] | None:
    """One pass of Algorithm 1 with threshold ``phi`` (bytes/s per core); None for FAIL.

    Returns:
        The new placement (m, n) and the steps, as in `Assignment`.
    """
    assert demand.bound is not None
    work = _Work(demand, (demand.data_intensity > phi) | demand.bound)
    order = np.lexsort(
        (np.arange(len(demand.targets)), -demand.data_intensity, ~demand.bound)
    ).tolist()
    while True:
        needy = next((j for j in order if work.lacks(j)), None)
        if needy is None:
            return work.held[1:].copy(), tuple(work.steps)
        while work.lacks(needy):
            if not work.feed(needy):
                return None
        work.settle(needy)


def schedule(demand: Demand, phi_0: float = PHI_0) -> Assignment:
    """Algorithm 1 with phi doubled from ``phi_0`` (bytes/s per core, > 0) until it succeeds."""
    phi = number("phi_0", phi_0, low=0, low_open=True, unit="bytes/s per core")
    assert demand.bound is not None
    free = demand.data_intensity[~demand.bound]  # of those that may go where they like
    short = int(demand.targets.sum()) > int(demand.node_cores.sum())
    while not short:
        found = assign(demand, phi)
        if found is not None:
            placement, steps = found
            moved = moved_bytes(demand.placement, placement, demand.state_bytes)
            return Assignment(placement, True, phi, moved, steps)
        intensive = int((free > phi).sum())
        if intensive == 0:
            break
        # The same partitions would fail again.
        while int((free > phi).sum()) == intensive:
            phi *= 2.0
    while (free > phi).any():
        phi *= 2.0
    return Assignment(demand.placement.copy(), False, phi, 0.0, ())


def moved_bytes(before: IntArray, after: IntArray, state_bytes: FloatArray) -> float:
    """C(X | X~) over the partitions that held a core before and hold one after."""
    both = (before.sum(axis=1) > 0) & (after.sum(axis=1) > 0)
    return migration_bytes(before[both], after[both], state_bytes[both])


class _Work:
    """Placement in the making. Row 0 is FREE, row j + 1 is partition j."""

    def __init__(self, demand: Demand, intensive: NDArray[np.bool_]) -> None:
        free = demand.node_cores - demand.placement.sum(axis=0)
        self.held = np.vstack([free[None, :], demand.placement])
        self.total: list[int] = self.held.sum(axis=1).tolist()
        self._target: list[int] = [0, *demand.targets.tolist()]
        self._state: list[float] = [0.0, *demand.state_bytes.tolist()]
        self._home: list[int] = [-1, *demand.homes.tolist()]
        assert demand.kept is not None
        # kept[r, i]: cores of row r on node i that nobody may take.
        self._kept = np.zeros_like(self.held)
        self._kept[np.arange(1, len(self.held)), demand.homes] = demand.kept
        self._intensive: list[bool] = [False, *intensive.tolist()]
        self.steps: list[tuple[int, int, int]] = []
        # take[r, i]: C- of taking a core of node i from row r, inf where there is none to take.
        nothing = np.where(free > 0, 0.0, np.inf)
        self._take = np.vstack([nothing, cost_to_take(demand.placement, demand.state_bytes)])
        self._take[1:][self.held[1:] <= self._kept[1:]] = np.inf
        # The same of the rows with spare cores, inf once they have none: no other row gets any.
        spare = np.array([t > k for t, k in zip(self.total, self._target, strict=True)])
        spare[0] = True
        self._donors: list[int] = np.flatnonzero(spare).tolist()
        self._rank = {row: at for at, row in enumerate(self._donors)}
        self._base = self._take[self._donors]
        # 0 / inf, to be added: a data-intensive row gives what it can spare only.
        self._guard = np.where(spare | ~np.array(self._intensive), 0.0, np.inf)

    def lacks(self, j: int) -> bool:
        """Whether partition j needs cores."""
        return self.total[j + 1] < self._target[j + 1]

    def feed(self, j: int) -> bool:
        """Hand one core to partition j; False if nobody can give one."""
        row = j + 1
        if self._intensive[row]:
            node = self._home[row]
            costs = self._take[:, node] + self._guard
            costs[row] = np.inf
            donor = int(costs.argmin())
            cost = costs[donor]
        else:
            total = self.total[row]
            scale = self._state[row] / (total * (total + 1)) if total else 0.0
            sums = self._base + scale * (total - self.held[row])
            at, node = divmod(int(sums.argmin()), self.held.shape[1])
            donor, cost = self._donors[at], sums[at, node]
        if cost == np.inf:
            return False
        self._hand(donor, row, node)
        return True

    def settle(self, j: int) -> None:
        """Partition j has got its cores; until then nobody may take any from it."""
        self._refresh(j + 1)

    def _hand(self, donor: int, row: int, node: int) -> None:
        self.held[donor, node] -= 1
        self.held[row, node] += 1
        self.total[donor] -= 1
        self.total[row] += 1
        if donor:
            self._refresh(donor)
        elif not self.held[0, node]:
            self._take[0, node] = self._base[0, node] = np.inf
        self.steps.append((donor - 1, row - 1, node))

    def _refresh(self, row: int) -> None:
        """What a partition's cores cost those who take them, once it holds others."""
        held, total = self.held[row], self.total[row]
        take = self._take[row]
        if total > 1:
            np.multiply(total - held, self._state[row] / (total * (total - 1)), out=take)
            take[held <= self._kept[row]] = np.inf
        else:
            take[:] = np.inf
        spare = total > self._target[row]
        if row in self._rank:
            self._base[self._rank[row]] = take if spare else np.inf
        self._guard[row] = np.inf if self._intensive[row] and not spare else 0.0


def _whole(name: str, values: ArrayLike, size: int, low: int, high: int) -> IntArray:
    found = np.asarray(values)
    if found.shape != (size,) or not np.issubdtype(found.dtype, np.integer):
        raise InputError(name, f"{found.dtype} {found.shape}", f"integers, shape ({size},)", "Fix.")
    bad = (found < low) | (found > high)
    if bad.any():
        i = int(np.argmax(bad))
        raise InputError(f"{name}[{i}]", int(found[i]), f"{low} to {high}", "Correct the entry.")
    return found.astype(np.int64)
