"""Limit orders with hot stocks that drift, as the simulator's exchange has them, recorded once."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from laneshift_bench.session import SEED
from laneshift_lab.simulator.workload import StockKeys

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
STOCKS_A_CORE = 8
"""As in the simulated exchange: 2,000 stocks on 256 cores."""
BURST_S, BURST_EVERY_S = 6.0, 4.0
TRADERS = 1000
LOWEST, HIGHEST = 2_000, 20_000
"""Ticks of a stock's first price."""
DRIFT, SPREAD = 0.003, 0.004
"""Standard deviations: of a price from one second to the next, and of limits around it."""
LOT, MOST_LOTS = 100, 10
SCHEMA = "stock BIGINT, number BIGINT, trader INT, buy BOOLEAN, price INT, quantity INT, due BIGINT"
"""As the replay source gives them; it fills `due` (us since 1970)."""


def stocks(cores: int, seed: int = SEED) -> StockKeys:
    """Shares of the stocks over time, for an exchange on so many cores."""
    return StockKeys(
        STOCKS_A_CORE * cores, skew=0.4, volatility=0.4, burst=5.0, burst_s=BURST_S,
        burst_every_s=BURST_EVERY_S, seed=seed,
    )  # fmt: skip


@dataclass(frozen=True)
class Orders:
    """Limit orders in the order of their numbers, which count from 0; each array (orders,).

    Attributes:
        due_s: when they come (s), float64.
        stock, trader: who is meant, int64.
        buy: or sell, bool.
        price: limit in ticks, int64.
        quantity: int64.
    """

    due_s: FloatArray
    stock: IntArray
    trader: IntArray
    buy: NDArray[np.bool_]
    price: IntArray
    quantity: IntArray

    def __len__(self) -> int:
        return len(self.stock)

    def write(self, file: Path) -> None:
        """As a Parquet ``file`` for the replay source."""
        import pandas as pd

        columns = {
            "stock": self.stock, "number": np.arange(len(self)),
            "trader": self.trader.astype(np.int32), "buy": self.buy,
            "price": self.price.astype(np.int32), "quantity": self.quantity.astype(np.int32),
        }  # fmt: skip
        pd.DataFrame(columns).to_parquet(file, index=False)


def generate(keys: StockKeys, stages: tuple[tuple[float, float], ...], seed: int = SEED) -> Orders:
    """All orders that come in ``stages`` of (orders/s, s)."""
    rng = np.random.default_rng(seed)
    ends = np.cumsum([0.0, *(seconds for _, seconds in stages)])
    upto = np.cumsum([0.0, *(rate * seconds for rate, seconds in stages)])
    due_s = np.interp(np.arange(int(upto[-1]), dtype=np.float64), upto, ends)
    stock, middle = np.empty(len(due_s), dtype=np.int64), np.empty(len(due_s))
    price = np.exp(rng.uniform(np.log(LOWEST), np.log(HIGHEST), keys.n_keys))
    changes = list(keys.changes(float(ends[-1])))
    times = [at for at, _ in changes] + [np.inf]
    for (begin, end), (_, shares) in zip(pairwise(times), changes, strict=True):
        inside = slice(*np.searchsorted(due_s, (begin, end)))
        stock[inside] = rng.choice(keys.n_keys, len(due_s[inside]), p=shares)
        middle[inside] = price[stock[inside]]
        price *= np.exp(DRIFT * rng.normal(size=keys.n_keys))
    limit = np.maximum(np.round(middle * (1 + SPREAD * rng.normal(size=len(due_s)))), 1)
    return Orders(
        due_s, stock, rng.integers(TRADERS, size=len(due_s)), rng.random(len(due_s)) < 0.5,
        limit.astype(np.int64), LOT * rng.integers(1, MOST_LOTS + 1, len(due_s)),
    )  # fmt: skip
