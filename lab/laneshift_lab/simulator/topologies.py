"""The queries of Data Distribution, 2017, as operators: EQ5, B_NCI, TOPK.

Each function returns a :class:`Topology`; ``topology.scenario(...)`` makes it a run. Joins have no
index inside a node [S]: a row costs its receipt and a scan of what the other stream has stored on
its lane. Windows are taken as full, so the cost of a row is constant [A]; CPU costs are ours [A].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from laneshift import inputcheck
from laneshift_lab.simulator.rates import Rate
from laneshift_lab.simulator.run import Scenario
from laneshift_lab.simulator.spec import Cluster, Engine, Operator, Split
from laneshift_lab.simulator.workload import Keys, TopicKeys, ZipfKeys, zipf

__all__ = ["Cpu", "Topology", "band_join", "eq5", "partial_counts", "topk", "topology"]

#: Rows of TPC-H tables at scale factor 1; Region and Nation do not grow.
REGION, NATION, SUPPLIER, LINEITEM = 5, 25, 10_000, 6_001_215
#: Shares of Lineitem that B_NCI's two sides let through [E]: 1/7; 1/4 * 2/50.
TRUCK, NO_INSTRUCTIONS = 1 / 7, 0.01


@dataclass(frozen=True)
class Cpu:
    """CPU seconds [A]: receive_s: per row received; compare_s: per pair of rows compared."""

    receive_s: float = 5e-6
    compare_s: float = 1e-8

    def __post_init__(self) -> None:
        inputcheck.number("receive_s", self.receive_s, "Seconds.", low=0.0, low_open=True)
        inputcheck.number("compare_s", self.compare_s, "Seconds.", low=0.0)

    def join_s(self, left: float, right: float, lanes: int) -> float:
        """Mean cost per row of a join with ``left`` and ``right`` rows stored over ``lanes``."""
        pairs = 2.0 * left * right / max(left + right, 1.0) / lanes
        return self.receive_s + self.compare_s * pairs


@dataclass(frozen=True)
class Topology:
    """name; operators, upstream first; keys: of operators without their own.

    unit: what one row of the source is.
    """

    name: str
    operators: tuple[Operator, ...]
    keys: Keys
    unit: str

    def scenario(
        self,
        cluster: Cluster,
        rate: Rate,
        duration_s: float,
        engine: Engine | None = None,
        cores: tuple[int, ...] | None = None,
    ) -> Scenario:
        """A run on ``cluster`` with ``rate`` source rows/s; see :class:`Scenario`."""
        return Scenario(
            cluster, self.operators, self.keys, rate, duration_s, engine or Engine(), cores
        )


def eq5(
    skew: float = 0.8,
    *,
    rate: float = 1e4,
    window_s: float = 180.0,
    partitions: int = 8,
    shards: int = 64,
    scale: float = 1.0,
    cpu: Cpu | None = None,
    seed: int = 1,
) -> Topology:
    """EQ5, staged [A]: Region and Nation, then Supplier, then Lineitem, each an equi-join.

    skew: Zipf z of the foreign keys regionkey, nationkey and suppkey [S]. rate: Lineitem rows/s
    that the windows of ``window_s`` are filled with. The other tables come at their share of
    Lineitem. scale: TPC-H scale factor. The last stage may split keys: joins broadcast.
    """
    inputcheck.number("scale", scale, "12 and 64 in the paper.", low=1e-3)
    _check(rate, window_s)
    costs = cpu or Cpu()
    lines = window_s * rate
    per_line = 1.0 / (LINEITEM * scale)
    suppliers = max(round(SUPPLIER * scale), 1)
    few = (REGION + NATION) * per_line
    some = SUPPLIER / LINEITEM
    nations = NATION * per_line  # rows per Lineitem row that the first stage gives
    return Topology(
        "eq5",
        (
            Operator(
                "nation", 1, shards=REGION, cost_s=costs.join_s(REGION, NATION, 1),
                selectivity=NATION / (REGION + NATION), source_rows=few,
                keys=ZipfKeys(REGION, skew, 0.0, seed), lane_queue_rows=1e5,
            ),
            Operator(
                "supplier", 1, shards=NATION, upstream=("nation",), source_rows=some,
                cost_s=costs.join_s(NATION, lines * some, 1), selectivity=some / (some + nations),
                keys=ZipfKeys(NATION, skew, 0.0, seed + 1), lane_queue_rows=1e5,
            ),
            Operator(
                "lineitem", partitions, shards=shards, lane_queue_rows=1e4, upstream=("supplier",),
                source_rows=1.0, cost_s=costs.join_s(lines, lines * some, partitions),
                selectivity=1.0 / (1.0 + some), keys=ZipfKeys(suppliers, skew, 0.0, seed + 2),
                split=Split(how="broadcast", copy_s=costs.receive_s),
            ),
        ),
        ZipfKeys(suppliers, skew, 0.0, seed + 2),
        "one Lineitem row",
    )  # fmt: skip


def band_join(
    skew: float = 0.8,
    *,
    rate: float = 1e4,
    window_s: float = 180.0,
    partitions: int = 8,
    shards: int = 64,
    orders: int = 100_000,
    cpu: Cpu | None = None,
    seed: int = 1,
) -> Topology:
    """B_NCI: two filters on Lineitem, then |L1.orderkey - L2.orderkey| <= 1.

    orders: distinct order keys. Base routing is a hash, so a row is stored on its key's lane and
    probed on those of its two neighbours, too: three times the cost and bytes [S].
    """
    inputcheck.whole("orders", orders, "Distinct order keys.", low=1)
    _check(rate, window_s)
    costs = cpu or Cpu()
    lines = window_s * rate
    left, right = lines * TRUCK, lines * NO_INSTRUCTIONS
    keys = ZipfKeys(orders, skew, 0.0, seed)
    return Topology(
        "b_nci",
        (
            Operator(
                "trucks", 1, shards=shards, cost_s=costs.receive_s, selectivity=TRUCK, keys=keys,
                lane_queue_rows=1e5,
            ),
            Operator(
                "no-instructions", 1, shards=shards, cost_s=costs.receive_s, keys=keys,
                selectivity=NO_INSTRUCTIONS, lane_queue_rows=1e5,
            ),
            Operator(
                "band", partitions, shards=shards, lane_queue_rows=1e4,
                cost_s=3.0 * costs.join_s(left, right, partitions),
                upstream=("trucks", "no-instructions"), row_bytes=3 * 128.0, keys=keys,
                split=Split(how="broadcast", copy_s=costs.receive_s),
            ),
        ),
        keys,
        "one Lineitem row",
    )  # fmt: skip


def topk(
    skew: float = 1.0,
    *,
    rate: float = 2e4,
    topics: int = 50_000,
    partitions: int = 8,
    shards: int = 64,
    tick_s: float = 1.0,
    count_s: float = 1e-4,
    merge_s: float = 2e-5,
    seed: int = 1,
) -> Topology:
    """TOPK: posts counted by topic, partial counts sent on a tick to one node that merges them.

    rate: posts/s that the partial counts are worked out for: a topic without a post in a tick sends
    none. tick_s, count_s (per post) and merge_s (per partial count) are ours [A].
    """
    inputcheck.number("rate", rate, "Posts per second.", low=0.0, low_open=True)
    inputcheck.number("tick_s", tick_s, "Seconds.", low=0.0, low_open=True)
    sent = partial_counts(rate * zipf(topics, skew), tick_s) / rate
    return Topology(
        "topk",
        (
            Operator(
                "count", partitions, shards=shards, cost_s=count_s, selectivity=sent,
                lane_queue_rows=1e4, split=Split(tick_s=tick_s, merge_s=merge_s, slots=shards),
            ),
            Operator(
                "top", 1, shards=1, cost_s=merge_s, upstream=("count",), selectivity=0.0,
                lane_queue_rows=1e5,
            ),
        ),
        TopicKeys(topics, skew, seed=seed),
        "one post",
    )  # fmt: skip


def partial_counts(rates: np.ndarray, tick_s: float) -> float:
    """Partial counts per second of parts that count ``rates`` posts/s each, (F,), Poisson."""
    return float(-np.expm1(-rates * tick_s).sum()) / tick_s


#: By name, each with its default parameters.
TOPOLOGIES: dict[str, Callable[..., Topology]] = {"eq5": eq5, "b_nci": band_join, "topk": topk}


def topology(name: str, **parameters: float) -> Topology:
    """A topology by name. Errors: ``InputError`` for unknown names.

    >>> [op.name for op in topology("eq5").operators]
    ['nation', 'supplier', 'lineitem']
    """
    inputcheck.choice("topology", name, TOPOLOGIES, "See laneshift_lab.simulator.topologies.")
    return TOPOLOGIES[name](**parameters)


def _check(rate: float, window_s: float) -> None:
    inputcheck.number("rate", rate, "Lineitem rows per second.", low=0.0, low_open=True)
    inputcheck.number("window_s", window_s, "180 in the paper.", low=0.0, low_open=True)
