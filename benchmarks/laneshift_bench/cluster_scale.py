"""One partition on 1 to 16 cores of four executors, the first at home: Figures 13, 14 and 15."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

from laneshift.policies.registry import policy
from laneshift_bench.live import HEADER as HEADER  # one table with the driven cases
from laneshift_bench.pairs import spread
from laneshift_bench.progress import Progress
from laneshift_bench.query import ENDLESS
from laneshift_bench.report import Goal, Report
from laneshift_bench.session import SEED
from laneshift_bench.setting import KEYS, SHARDS, Setting
from laneshift_bench.sides import Side
from laneshift_bench.there import Found, spread_query
from laneshift_lab.simulator import Cluster, Engine, Operator, Scenario, Simulation
from laneshift_lab.simulator.rates import Constant
from laneshift_lab.simulator.workload import ZipfKeys

NODES, EACH = 4, 4
WARM_S = 4.0
SIMULATED_S = 16.0
TAIL_LOAD = 0.5
METHOD = f"""\
*scale* (Figures 13 and 14): one state partition of {SHARDS} shards, uniform keys; its lanes are set
by hand, the first {EACH} at home and the rest elsewhere. Rows/s from a source without pacing; the
age of answers as they leave the operator at {TAIL_LOAD:.0%} of what so many cores could take.
*elasticity* (Figure 15): the same with zipf 0.5 and key frequencies that change twice or 16 times a
minute, and with so much state a shard; balancing moves shards between all lanes. *of bound* is of
as many rows as the cores could take by their waits alone: where a row costs 0.1 ms this machine's
two cores are the limit."""


@dataclass(frozen=True)
class Point:
    """One partition on so many cores.

    Attributes:
        name: of the case; a case has several numbers of cores.
        cores: lanes, the first :data:`EACH` at home.
        cost_us, row_bytes: of a row.
        zipf, omega: of the keys, and shuffles a minute.
        state_bytes: of a shard; 0: no more than counts.
        tail: whether ages at half load are measured, too.
    """

    name: str
    cores: int
    cost_us: int
    row_bytes: int
    zipf: float = 0.0
    omega: float = 0.0
    state_bytes: int = 0
    tail: bool = True

    @property
    def bound(self) -> float:
        """Rows/s of all cores, were they always busy."""
        return self.cores * 1e6 / self.cost_us

    @property
    def split(self) -> tuple[int, tuple[int, ...]]:
        """Lanes at home, and on each of some other executors.

        >>> [Point("", cores, 1000, 0).split for cores in (1, 4, 6, 16)]
        [(1, ()), (4, ()), (4, (2,)), (4, (4, 4, 4))]
        """
        home = min(self.cores, EACH)
        left = self.cores - home
        return home, tuple(min(EACH, left - EACH * n) for n in range(math.ceil(left / EACH)))

    @property
    def setting(self) -> Setting:
        """The query that it runs."""
        return Setting(
            name=self.name, cores=NODES * EACH, partitions=1, cost_us=self.cost_us,
            stages=((self.bound, 1.0),), zipf=self.zipf, omega=self.omega, row_bytes=self.row_bytes,
            lanes=1, sources=1, nodes=NODES, state_bytes=self.state_bytes * SHARDS // KEYS,
        )  # fmt: skip

    def source(self, rate: float | None) -> dict[str, object]:
        """Options of the workload source: so many rows/s, or as many as are taken."""
        given: dict[str, object] = {
            "keys": KEYS, "zipf": self.zipf, "omega": self.omega, "rowBytes": self.row_bytes,
            "numPartitions": 1, "rowsPerSecond": round(rate or self.bound),
        }  # fmt: skip
        return given if rate else given | {"pacing": "none", "totalRows": ENDLESS}


def points(quick: bool) -> list[Point]:
    """All points, those of one case one after the other."""
    rows = ((4000, 128), (4000, 8192), (1000, 128), (100, 128))
    counts = (1, 16) if quick else (1, 4, 8, 16)
    found = [
        Point(f"scale, {cost_us / 1000:g} ms, {row_bytes} B", cores, cost_us, row_bytes)
        for cost_us, row_bytes in rows
        for cores in counts
    ]
    for omega in (2, 16):
        for size, state_bytes in (("32 KB", 32 << 10), ("1 MB", 1 << 20)):
            name = f"elasticity, {size} a shard, {omega} changes a minute"
            found += [
                Point(name, cores, 4000, 0, 0.5, omega, state_bytes, tail=False)
                for cores in counts[1:]
            ]
    return found


@dataclass(frozen=True)
class Foretold:
    """What the simulator says of a point: rows/s, and the 99th percentile of latency (ms)."""

    rows_per_s: float
    p99_ms: float


def simulate(point: Point) -> Foretold:
    """The same partition, with all cores of as many nodes as it needs."""
    nodes = math.ceil(point.cores / EACH)
    operator = Operator(
        "counts", partitions=1, shards=SHARDS, cost_s=point.cost_us / 1e6, cost_cv2=0.0,
        row_bytes=float(point.row_bytes or 48), state_bytes=float(point.state_bytes),
    )  # fmt: skip

    def run(rate: float) -> tuple[float, float]:
        scenario = Scenario(
            Cluster(nodes, min(point.cores, EACH)), (operator,),
            ZipfKeys(KEYS, point.zipf, point.omega, SEED), Constant(rate), SIMULATED_S,
            Engine(step_s=0.01, balance_s=0.2, window_s=0.5), seed=SEED,
        )  # fmt: skip
        chosen: Any = policy("static")
        result = Simulation(scenario, chosen).run()
        late = result.column("time_s") > WARM_S
        p99 = np.median(result.column("latency_p99_s")[late])
        return float(result.column("throughput")[late].mean()), 1e3 * float(p99)

    return Foretold(run(1.2 * point.bound)[0], run(TAIL_LOAD * point.bound)[1])


def run(
    spark: SparkSession, work: Path, chosen: Sequence[Point], rounds: int, quick: bool,
    progress: Progress, report: Report,
) -> None:  # fmt: skip
    """Measure and simulate the points."""
    times = (4.0, 6.0) if quick else (8.0, 12.0)
    full: dict[Point, list[float]] = {point: [] for point in chosen}
    tails: dict[Point, list[float]] = {point: [] for point in chosen}
    for turn in range(rounds):
        for point in chosen:
            progress.step(f"{point.name}, {point.cores} cores, round {turn + 1}")
            full[point].append(_measure(spark, work, point, None, times).rows_per_s)
            if point.tail:
                half = _measure(spark, work, point, TAIL_LOAD * point.bound, times)
                tails[point].append(half.p99_ms)
            progress.note(f"{full[point][-1]:,.0f} rows/s, p99 {tails[point][-1:]} ms")
    for point in chosen:
        _show(report, point, full[point], tails[point], simulate(point))
    _judge(report, full)


def _measure(
    spark: SparkSession, work: Path, point: Point, rate: float | None, times: tuple[float, float]
) -> Found:
    setting = point.setting
    home, hosts = point.split
    side = Side(
        point.name,
        {"lanes": "1", "maxLanes": str(EACH), "shardsPerPartition": str(SHARDS),
         "remote.maxLanes": str(NODES * EACH), "latencyColumn": "event_time"},
        1,
    )  # fmt: skip
    with spread_query(spark, work, side, point.source(rate), setting.build) as query:
        query.split(home, hosts)
        return query.measure(*times)


def _show(
    report: Report, point: Point, rates: list[float], tails: list[float], simulated: Foretold
) -> None:
    lanes = f"{point.cores:.1f}"
    report.rows.append([
        point.name, f"{point.cores} cores", spread(rates), "",
        f"{np.median(rates) / point.bound:.1%}", f"{simulated.rows_per_s:,.0f}",
        spread(tails) if tails else "", "", f"{simulated.p99_ms:.1f}" if tails else "",
        lanes, lanes,
    ])  # fmt: skip
    report.data.setdefault(point.name, {})[point.cores] = {
        "rows_per_s": rates, "p99_ms": tails, "bound_rows_per_s": point.bound,
        "simulated_rows_per_s": simulated.rows_per_s, "simulated_p99_ms": simulated.p99_ms,
    }  # fmt: skip


def _judge(report: Report, full: dict[Point, list[float]]) -> None:
    """A row of 4 ms and 128 bytes scales to all cores."""
    rates = {p.cores: r for p, r in full.items() if p.name == "scale, 4 ms, 128 B"}
    if rates:
        least, most = min(rates), max(rates)
        gains = [b / a for a, b in zip(rates[least], rates[most], strict=True)]
        what = f"scale, 4 ms, 128 B: rate on {most} cores / on {least}"
        report.goals.append(Goal(what, float(np.median(gains)), ">=", 0.85 * most / least))
