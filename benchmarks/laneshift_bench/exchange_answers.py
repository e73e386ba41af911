"""What the exchange has to answer, reckoned in plain Python, and how an answer differs from it.

Another way than the query's, which has lists of orders: here each side of a book is a heap.
"""

from __future__ import annotations

import heapq
import json
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from laneshift_bench.exchange_orders import Orders

DEPTH, WINDOW, ALARM_PERCENT = 50, 20, 1
"""Most orders that wait on a side, prices in a moving average, and what leaves it; as `Book` and
`Tape` of the query have them."""
Answer = dict[str, Any]


@dataclass
class Waiting:
    """An order that waits: what is left of it."""

    trader: int
    price: int
    quantity: int


@dataclass
class Side:
    """Orders that wait to buy (or to sell), by price and then by number."""

    buy: bool
    heap: list[tuple[int, int]] = field(default_factory=list)
    orders: dict[int, Waiting] = field(default_factory=dict)

    def _rank(self, price: int) -> int:
        return -price if self.buy else price

    def best(self) -> tuple[int, Waiting] | None:
        """Number and order of the best."""
        while self.heap and self.heap[0][1] not in self.orders:
            heapq.heappop(self.heap)
        return (self.heap[0][1], self.orders[self.heap[0][1]]) if self.heap else None

    @property
    def price(self) -> int:
        """The best one, 0 without any."""
        best = self.best()
        return best[1].price if best else 0

    def add(self, number: int, order: Waiting) -> None:
        """One more; the worst goes if there are too many."""
        self.orders[number] = order
        heapq.heappush(self.heap, (self._rank(order.price), number))
        if len(self.orders) > DEPTH:
            worst = max(self.orders, key=lambda n: (self._rank(self.orders[n].price), n))
            del self.orders[worst]


@dataclass
class Stock:
    """A stock's book and tape."""

    bids: Side = field(default_factory=lambda: Side(True))
    asks: Side = field(default_factory=lambda: Side(False))
    orders: int = 0
    traded: int = 0
    volume: int = 0
    turnover: int = 0
    high: int = 0
    low: int = 0
    spreads: int = 0
    recent: deque[int] = field(default_factory=lambda: deque(maxlen=WINDOW))
    away: int = 0

    def match(self, number: int, buy: bool, order: Waiting) -> list[Answer]:
        """The trades of an order, which waits with what is left of it."""
        mine, others = (self.bids, self.asks) if buy else (self.asks, self.bids)
        trades = []
        while order.quantity and (best := others.best()):
            resting, other = best
            if (other.price > order.price) if buy else (other.price < order.price):
                break
            quantity = min(order.quantity, other.quantity)
            buyer, seller = (order, other) if buy else (other, order)
            trades.append(
                {"price": other.price, "quantity": quantity, "buyer": buyer.trader,
                 "seller": seller.trader, "resting": resting}
            )  # fmt: skip
            order.quantity -= quantity
            other.quantity -= quantity
            if not other.quantity:
                del others.orders[resting]
        if order.quantity:
            mine.add(number, order)
        return trades

    @property
    def average(self) -> int:
        """Of the newest prices, in hundredths of a tick."""
        return 100 * sum(self.recent) // len(self.recent) if self.recent else 0

    def count(self, trades: Sequence[Answer]) -> str:
        """Follow an order with its trades; the alarm that it raises, if any."""
        self.orders += 1
        if self.bids.price and self.asks.price:
            self.spreads += self.asks.price - self.bids.price
        before = self.away
        for trade in trades:
            price, quantity = trade["price"], trade["quantity"]
            up = price * 10_000 > self.average * (100 + ALARM_PERCENT)
            down = price * 10_000 < self.average * (100 - ALARM_PERCENT)
            self.away = (up - down) if self.recent else 0
            self.traded += 1
            self.volume += quantity
            self.turnover += price * quantity
            self.high = max(self.high, price)
            self.low = min(self.low or price, price)
            self.recent.append(price)
        return {1: "up", -1: "down"}.get(self.away, "") if self.away != before else ""


def answers(orders: Orders) -> list[Answer]:
    """The answer to each order, in the order of their numbers."""
    exchange: dict[int, Stock] = {}
    found = []
    columns = (orders.stock, orders.trader, orders.buy, orders.price, orders.quantity)
    for number, (name, trader, buy, price, quantity) in enumerate(
        zip(*(column.tolist() for column in columns), strict=True)
    ):
        stock = exchange.setdefault(name, Stock())
        trades = stock.match(number, buy, Waiting(trader, price, quantity))
        alarm = stock.count(trades)
        found.append(
            {
                "stock": name, "number": number, "trades": trades, "orders": stock.orders,
                "traded": stock.traded, "volume": stock.volume, "turnover": stock.turnover,
                "high": stock.high, "low": stock.low, "spreads": stock.spreads,
                "average": stock.average, "alarm": alarm,
            }
        )  # fmt: skip
    return found


def difference(expected: Sequence[Answer], lines: Iterable[str]) -> str:
    """How a query's answers differ from those expected; empty if they do not.

    Args:
        expected: of each order, by its number.
        lines: of the sink, an answer in JSON each, in any order.
    """
    seen: set[int] = set()
    for line in lines:
        answer = json.loads(line)
        number = answer["number"]
        if not 0 <= number < len(expected):
            return f"there is no order {number}: {line}"
        if number in seen:
            return f"order {number} is answered twice: {line}"
        seen.add(number)
        if answer != expected[number]:
            return f"order {number}: found {line}, expected {json.dumps(expected[number])}"
    if len(seen) < len(expected):
        first = next(number for number in range(len(expected)) if number not in seen)
        missing = len(expected) - len(seen)
        return f"{missing} of {len(expected)} orders have no answer, the first is {first}"
    return ""
