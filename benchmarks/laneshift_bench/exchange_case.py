"""A load of the exchange: cores, costs, stages, and what is known of it before it runs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from laneshift_bench.bound import partitioned, taken
from laneshift_bench.exchange_orders import STOCKS_A_CORE, stocks
from laneshift_bench.foreseen import Foreseen, simulate
from laneshift_bench.setting import Setting
from laneshift_lab.simulator.workload import StockKeys

IntArray = NDArray[np.int64]
REAL_TIME, MICRO = "real-time", "micro-batch"
OPERATORS = ("transactor", "statistics")
CORES, PARTITIONS, SHARDS = 16, 2, 64
COST_US = 4000
ORDER_BYTES = 112
"""Of a row in a lane's queue, beside what every row has: orders and their reports, about."""
TRIGGER_S = 4.0
QUEUED_S = 0.5
CALM, FULL = 0.65, 1.1
"""Of what the cores can do: where latency is measured, and throughput."""
CALM_PART = 0.4
SETTLE_S, FILL_S = 8.0, 4.0
"""Not measured: late orders of a slow start are caught up with; queues fill."""


@dataclass(frozen=True)
class Case:
    """A load that rises from less than the bound to above it."""

    setting: Setting
    stocks: StockKeys

    @classmethod
    def of(
        cls, mode: str, seconds: float, partitions: int = PARTITIONS, shards: int = SHARDS
    ) -> Case:
        """Of a mode; a run's orders are due within ``seconds``."""
        real_time = mode == REAL_TIME
        rate = CORES * 1e6 / (COST_US * len(OPERATORS)) / (1 if real_time else len(OPERATORS))
        grain = (partitions, shards) != (PARTITIONS, SHARDS)
        setting = Setting(
            name=f"{mode}, {seconds:g} s" + (f", y {partitions}, z {shards}" if grain else ""),
            cores=CORES, partitions=partitions, operators=len(OPERATORS), cost_us=COST_US,
            stages=((CALM * rate, CALM_PART * seconds), (FULL * rate, (1 - CALM_PART) * seconds)),
            zipf=0.0, keys=STOCKS_A_CORE * CORES, shards=shards, row_bytes=ORDER_BYTES, sources=1,
            queued_s=QUEUED_S, interval_s=0.5 if real_time else 1.0,
            batch="5 minutes" if real_time else None, every_s=TRIGGER_S,
        )  # fmt: skip
        return cls(setting, stocks(CORES))

    @property
    def real_time(self) -> bool:
        """Or micro-batches."""
        return self.setting.batch is not None

    @property
    def bound(self) -> float:
        """Orders/s of all cores, no stock being hotter than a core."""
        return self.setting.stages[0][0] / CALM

    @property
    def calm(self) -> tuple[float, float]:
        """Where latency is measured (s)."""
        end = self.setting.stages[0][1]
        return min(SETTLE_S, end / 2), end

    @property
    def full(self) -> tuple[float, float]:
        """Where throughput is measured (s)."""
        return self.setting.stages[0][1] + FILL_S, self.setting.seconds

    def foresee(self, side: str) -> Foreseen:
        """What the simulator says; of micro-batches as if operators did not take turns."""
        setting = self.setting
        if not self.real_time:
            times = setting.operators
            stages = tuple((times * rate, seconds) for rate, seconds in setting.stages)
            setting = replace(setting, stages=stages)
        costs = [(name, setting.cost_us) for name in OPERATORS]
        return simulate(setting, side, costs, self.stocks)

    def simulated_rate(self, found: Foreseen) -> float:
        """Orders/s of this case."""
        return found.rate(*self.full) / (1 if self.real_time else self.setting.operators)

    def hashed(self, owner: IntArray) -> float:
        """Orders/s above the bound of hash partitions of a core each, by arithmetic.

        Args:
            owner: the partition of each stock, int64 (stocks,).
        """
        setting = self.setting
        shares = [each for _, each in self.stocks.changes(setting.seconds)]
        work = partitioned(1, setting.stock_partitions, shares, owner)
        return taken(setting.due, work, setting.cost_us / 1e6, self.stocks.every_s, *self.full)
