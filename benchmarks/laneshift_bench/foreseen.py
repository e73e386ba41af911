"""What the library's simulator says of the same load, cores and policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from laneshift.policies.registry import policy
from laneshift_bench.session import SEED
from laneshift_bench.setting import HOME, KEYS, RESOURCE_CENTRIC, STOCK, Setting
from laneshift_lab.simulator import Cluster, Engine, Operator, Result, Scenario, Simulation
from laneshift_lab.simulator.rates import Levels
from laneshift_lab.simulator.workload import Keys, ZipfKeys

FloatArray = NDArray[np.float64]
STEP_S = 0.01
BALANCE_S = 0.2
"""The plugin's default time between two looks at the lanes' loads."""
WINDOW_S = 0.5
METHOD = f"""\
*Simulated* is the library's fluid simulator with the same policy, stages, skew, shuffles, row cost,
lanes at the start and seed (other permutations of the keys, though): as many nodes and cores,
turns of the policy as often, short ones where partitions become pressed, lanes balanced every
{BALANCE_S:g} s, queues as long. It knows no Spark, no source task, no network buffers, and its
shuffles keep to the clock where the source's keep to the schedule."""


@dataclass(frozen=True)
class Foreseen:
    """A simulated run: its windows, and lane adjustments in all."""

    result: Result
    adjustments: int

    def rate(self, begin_s: float, end_s: float) -> float:
        """Rows a second served from ``begin_s`` to ``end_s``."""
        return float(self._inside("throughput", begin_s, end_s).mean())

    def p99_ms(self, begin_s: float, end_s: float) -> float:
        """The median of the windows' 99th percentiles, waiting at the source left out."""
        return 1e3 * float(np.median(self._inside("latency_p99_s", begin_s, end_s)))

    def series(self) -> tuple[FloatArray, FloatArray]:
        """(times, rows/s) of the windows."""
        return self.result.column("time_s"), self.result.column("throughput")

    def backlog(self, setting: Setting) -> tuple[FloatArray, FloatArray]:
        """(times, rows): what was due and had not been served."""
        times, rates = self.series()
        due = np.array([setting.due(float(t)) for t in times])
        return times, np.maximum(due - np.cumsum(rates) * WINDOW_S, 0.0)

    def _inside(self, column: str, begin_s: float, end_s: float) -> FloatArray:
        times = self.result.column("time_s")
        found: FloatArray = self.result.column(column)[(times > begin_s) & (times <= end_s)]
        return found


def foresee(setting: Setting, side: str, seconds: float | None = None) -> Foreseen:
    """Simulate a side of ``setting``, its first ``seconds`` only if given."""
    keys = ZipfKeys(KEYS, setting.zipf, setting.omega, SEED)
    return simulate(setting, side, (("counts", setting.cost_us),), keys, seconds)


def simulate(
    setting: Setting, side: str, operators: Sequence[tuple[str, int]], keys: Keys,
    seconds: float | None = None,
) -> Foreseen:  # fmt: skip
    """Simulate a side of a query with several operators, one behind the other.

    Args:
        operators: (name, what a row costs in us) of each.
    """
    stock, moving = side == STOCK, side == RESOURCE_CENTRIC
    partitions = setting.stock_partitions if stock or moving else setting.partitions
    shards = 1 if stock else setting.shards
    if moving:  # the same number of shards of an operator, all of which may go anywhere
        shards = max(1, setting.partitions * setting.shards // partitions)
    # Who stays at home has all of its cores, and no others.
    lanes = setting.cores_each if side == HOME else setting.first_lanes
    names = [name for name, _ in operators]
    chain = tuple(
        Operator(
            name,
            partitions=partitions,
            shards=shards,
            cost_s=cost_us / 1e6,
            cost_cv2=0.0,
            row_bytes=float(setting.row_bytes),
            state_bytes=float(setting.key_bytes) * setting.keys / (partitions * shards),
            lane_queue_rows=setting.queued_rows,
            upstream=tuple(names[at - 1 : at]),
        )
        for at, (name, cost_us) in enumerate(operators)
    )
    engine = Engine(
        step_s=STEP_S,
        paradigm="static" if stock else RESOURCE_CENTRIC if moving else "executor-centric",
        policy_s=setting.interval_s,
        balance_s=BALANCE_S,
        actuation_s=STEP_S,
        window_s=WINDOW_S,
        wakes=True,
    )
    scenario = Scenario(
        Cluster(setting.nodes, max(setting.cores, partitions * len(chain)) // setting.nodes),
        chain,
        keys,
        Levels(setting.endless),
        setting.seconds if seconds is None else seconds,
        engine,
        cores=(1 if stock or moving else lanes,) * (partitions * len(chain)),
        seed=SEED,
    )
    chosen: Any = None if stock else policy("static" if side == HOME else setting.policy(side))
    result = Simulation(scenario, chosen).run()
    return Foreseen(result, round(result.notes["adjustments"]))
