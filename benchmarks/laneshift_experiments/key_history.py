"""Full-history joins of the key-distribution paper while data are loaded: Figs 3, 4, 5.

A model in chunks of the load: every system stores, broadcasts and grows by its rules (the paper,
section 6), a node costs a receipt per row and a scan of what the other stream stored on it (no
index [S]), and the slowest node sets the pace (maximum load rate, back-pressure).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

import numpy as np

from laneshift.inputcheck import FloatArray, IntArray, choice, sums
from laneshift.partitioning import Loads, Routing
from laneshift.partitioning.choices import mix64
from laneshift.partitioning.dynamic import Dynamic, Matrix, best_matrix
from laneshift.partitioning.join_schemes import Volumes
from laneshift_lab.partitioning import partitioner
from laneshift_lab.partitioning.membership import add_targets, jump_hash
from laneshift_lab.simulator.spec import Cluster
from laneshift_lab.simulator.topologies import LINEITEM, NO_INSTRUCTIONS, SUPPLIER, TRUCK, Cpu
from laneshift_lab.simulator.workload import zipf

SYSTEMS = ("mnrt", "qmmp", "dynamic", "bi", "bi6")
#: Scale factor of 12 GB; distinct keys; chunks of the load; tolerance; memory: nodes that hold all.
SCALE, KEYS, CHUNKS, TAU, ROOM = 12, 20_000, 40, 0.05, 14
ROW_BYTES = 128.0
GROUPS, BLOCK = 6, 64
CPU = Cpu()


@dataclass(frozen=True, eq=False)
class Query:
    """Rows of both streams per key at the end, (K,).

    ordered: (K,) keys in the order in which neighbours join, too; None: only equal keys join. The
    partitioners number keys in another order than the query does: a base hash knows no neighbours.
    """

    r: FloatArray
    s: FloatArray
    ordered: IntArray | None

    @property
    def capacity(self) -> float:
        """Rows that a node has room for."""
        return float(self.r.sum() + self.s.sum()) / ROOM


def query(name: str, z: float, seed: int) -> Query:
    """EQ5: the stage of Lineitem, skewed by suppkey, and Supplier, uniform. B_NCI: both skewed."""
    choice("query", name, ("EQ5", "B_NCI"), "These are the queries that there are.")
    rng = np.random.default_rng(seed)
    skewed = zipf(KEYS, z)[rng.permutation(KEYS)]
    lines = SCALE * float(LINEITEM)
    if name == "EQ5":
        return Query(np.full(KEYS, SCALE * SUPPLIER / KEYS), lines * skewed, None)
    left, right = lines * TRUCK * skewed, lines * NO_INSTRUCTIONS * skewed
    return Query(left, right, rng.permutation(KEYS))


@dataclass
class History:
    """time_s: to load everything, scale-outs included. nodes: (CHUNKS,) used in each chunk.

    moved: rows moved per scale-out; plan_s: planning time of each; adjust_s: planning, and the
    moved rows over the busiest link; uneven: most stored on a node / mean, at the end.
    """

    time_s: float = 0.0
    nodes: list[int] = field(default_factory=list)
    moved: list[float] = field(default_factory=list)
    plan_s: list[float] = field(default_factory=list)
    adjust_s: list[float] = field(default_factory=list)
    uneven: float = 1.0

    def grow(self, moved: float, busiest: float, plan_s: float = 0.0) -> None:
        """A scale-out: rows moved in all, and over the busiest link."""
        self.moved.append(moved)
        self.plan_s.append(plan_s)
        self.adjust_s.append(plan_s + busiest * ROW_BYTES / Cluster().nic_bytes_s)


@dataclass(frozen=True, eq=False)
class Nodes:
    """What each node gets of a whole load, (N,): rows stored and rows seen of R and of S."""

    stored_r: FloatArray
    stored_s: FloatArray
    seen_r: FloatArray
    seen_s: FloatArray

    @property
    def stored(self) -> FloatArray:
        """(N,) rows."""
        return self.stored_r + self.stored_s

    def seconds(self, done: float, step: float) -> float:
        """CPU time of the slowest node for a step of the load, ``done`` of it behind (shares)."""
        pairs = (
            step * (done + step / 2) * (self.seen_r * self.stored_s + self.seen_s * self.stored_r)
        )
        received = step * (self.seen_r + self.seen_s)
        return float((CPU.receive_s * received + CPU.compare_s * pairs).max())


@lru_cache(maxsize=1024)
def load_all(system: str, name: str, z: float, seed: int) -> History:
    """Load the whole data set of ``name`` with skew ``z``."""
    choice("system", system, SYSTEMS, "These are the systems that there are.")
    q, out = query(name, z, seed), History()
    state = _SYSTEMS[system](q)
    nodes = state.start()
    for chunk in range(CHUNKS):
        done, step = chunk / CHUNKS, 1 / CHUNKS
        nodes = state.fit(done + step, out, nodes)
        out.nodes.append(int(nodes.stored.size))
        out.time_s += nodes.seconds(done, step)
    out.time_s += sum(out.adjust_s)
    out.uneven = float(nodes.stored.max() / nodes.stored.mean())
    return out


class _System(Protocol):
    """How a system places and grows."""

    def start(self) -> Nodes:
        """Its nodes at the start, as if they got the whole load."""

    def fit(self, share: float, out: History, nodes: Nodes) -> Nodes:
        """Grow, if need be, to hold that share of the load; note it in ``out``."""


class _Keyed:
    """MNRT and QMMP: as many nodes as the memory needs; a partitioner fills each new one."""

    def __init__(self, q: Query, name: str) -> None:
        self.q, self.partitioner = q, partitioner(name)
        self.loads = Loads.of(q.r + q.s)
        self.routing = Routing.at_home(np.zeros(KEYS, dtype=np.int64), 1)

    def start(self) -> Nodes:
        return self._nodes()

    def fit(self, share: float, out: History, nodes: Nodes) -> Nodes:
        need = math.ceil(share * self.loads.load.sum() * (1 + TAU) / self.q.capacity - 1e-9)
        more = need - self.routing.n_targets
        if more <= 0:
            return nodes
        homes = jump_hash(np.arange(KEYS), need)
        grown = add_targets(self.routing, more, homes)
        begun = time.perf_counter()
        plan = self.partitioner.plan(self.loads, grown, TAU)
        took = time.perf_counter() - begun
        size = np.array([m.amount for m in plan.moves]) * share
        ways = [
            np.array([getattr(m, end) for m in plan.moves], int) for end in ("source", "target")
        ]
        busiest = max(float(np.bincount(way, size).max(initial=0.0)) for way in ways)
        out.grow(float(size.sum()), busiest, took)
        self.routing = plan.routing
        return self._nodes()

    def _nodes(self) -> Nodes:
        q, routing = self.q, self.routing
        n, key, target = routing.n_targets, routing.key, routing.target
        holds = np.zeros((KEYS, n), dtype=bool)
        holds[key, target] = True
        if q.ordered is not None:  # a row is probed where its neighbours are, too
            own = holds[q.ordered]
            holds[q.ordered[:-1]] |= own[1:]
            holds[q.ordered[1:]] |= own[:-1]
        r, s = q.r[key] * routing.share, q.s[key] * routing.share
        return Nodes(sums(target, r, n), sums(target, s, n), q.r @ holds, q.s @ holds)


class _DynamicMatrix:
    """1, 4, 16, ... nodes; a cell stores and sees its row of R and its column of S."""

    def __init__(self, q: Query) -> None:
        self.q, self.volumes = q, Volumes(float(q.r.sum()), float(q.s.sum()))
        self.shape = Matrix(1, 1)

    def start(self) -> Nodes:
        n = self.shape.rows * self.shape.cols
        r = np.full(n, self.volumes.r / self.shape.rows)
        s = np.full(n, self.volumes.s / self.shape.cols)
        return Nodes(r, s, r, s)

    def fit(self, share: float, out: History, nodes: Nodes) -> Nodes:
        now = Volumes(share * self.volumes.r, share * self.volumes.s)
        need = Dynamic(self.q.capacity).nodes_needed(now, 4**8)
        old = self.shape.rows * self.shape.cols
        if need == old:
            return nodes
        self.shape = best_matrix(now, need)
        cell = self.shape.receive(now)
        # New cells get their part from the old ones, which keep theirs.
        out.grow(cell * (need - old), cell * (need - old) / old)
        return self.start()


class _Bipartite:
    """Bi (one group) and Bi6: a key's group stores it at random and sees all of its other side."""

    def __init__(self, q: Query, groups: int) -> None:
        # Neighbours of a band join must meet: a block of keys picks the group.
        block = np.arange(KEYS)
        if q.ordered is not None:
            block[q.ordered] = np.arange(KEYS) // BLOCK
        group: IntArray = mix64(block, 6) % groups
        self.stored = np.stack([np.bincount(group, side, groups) for side in (q.r, q.s)])
        self.room = q.capacity
        self.size = np.ones((2, groups), dtype=np.int64)

    def start(self) -> Nodes:
        sizes = self.size.ravel()
        own = np.repeat((self.stored / self.size).ravel(), sizes)
        other = np.repeat(self.stored[::-1].ravel(), sizes)
        is_r = np.repeat([1.0, 0.0], self.size.sum(axis=1))
        seen = is_r * own + (1 - is_r) * other, (1 - is_r) * own + is_r * other
        return Nodes(is_r * own, (1 - is_r) * own, *seen)

    def fit(self, share: float, out: History, nodes: Nodes) -> Nodes:
        need = np.maximum(np.ceil(share * self.stored / self.room - 1e-9).astype(np.int64), 1)
        if (need == self.size).all():
            return nodes
        moved = share * self.stored * (1 - self.size / need)
        out.grow(float(moved.sum()), float((moved / np.maximum(need - self.size, 1)).max()))
        self.size = need
        return self.start()


_SYSTEMS: dict[str, Callable[[Query], _System]] = {
    "mnrt": lambda q: _Keyed(q, "mnrt"),
    "qmmp": lambda q: _Keyed(q, "qmmp"),
    "dynamic": _DynamicMatrix,
    "bi": lambda q: _Bipartite(q, 1),
    "bi6": lambda q: _Bipartite(q, GROUPS),
}
