"""The benchmark of the stock exchange: its orders, plain answers and arithmetic; no Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

from laneshift.errors import InputError
from laneshift_bench import exchange_cluster
from laneshift_bench.exchange import MODES, QUICK_GRAINS, SIDES, hottest, plan, sides_of
from laneshift_bench.exchange_answers import (
    DEPTH,
    Answer,
    Side,
    Stock,
    Waiting,
    answers,
    difference,
)
from laneshift_bench.exchange_case import CALM, CORES, FULL, MICRO, OPERATORS, REAL_TIME, Case
from laneshift_bench.exchange_cluster import DriverMeter, Workers
from laneshift_bench.exchange_orders import Orders, generate, stocks
from laneshift_bench.exchange_query import Recorded, parameters, side_of
from laneshift_bench.query import BenchmarkError
from laneshift_bench.setting import RESOURCE_CENTRIC, STOCK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STAGES = ((200.0, 5.0), (400.0, 10.0))
ORDERS = generate(stocks(4), STAGES)


def order_of(orders: list[tuple[int, bool, int, int]]) -> Orders:
    """Orders (stock, buy, price, quantity), a second apart, each by a trader of its number."""
    stock, buy, price, quantity = (np.array(column) for column in zip(*orders, strict=True))
    count = np.arange(len(orders))
    return Orders(count.astype(np.float64), stock, count, buy.astype(np.bool_), price, quantity)


def test_orders_come_as_the_stages_say_and_follow_from_the_seed() -> None:
    assert len(ORDERS) == 5000
    assert (np.diff(ORDERS.due_s) > 0).all()
    assert np.searchsorted(ORDERS.due_s, 5.0) == 1000
    assert ORDERS.due_s[-1] == pytest.approx(15, abs=0.01)
    again, other = generate(stocks(4), STAGES), generate(stocks(4), STAGES, seed=5)
    assert (again.price == ORDERS.price).all() and (again.stock == ORDERS.stock).all()
    assert (other.price != ORDERS.price).any()


def test_hot_stocks_are_those_of_the_simulators_generator_and_change() -> None:
    keys = stocks(16)
    orders = generate(keys, ((2000.0, 30.0),))
    changes = list(keys.changes(30.0))
    top = set()
    for at, shares in changes:
        inside = orders.stock[np.searchsorted(orders.due_s, at) :][:2000]
        found = np.bincount(inside, minlength=keys.n_keys) / len(inside)
        assert np.abs(found - shares).max() < 0.03
        top.add(int(shares.argmax()))
    assert len(top) > 2
    # No stock is more than a core's work of its operator for long.
    share = np.array([shares.max() for _, shares in changes])
    assert np.median(share) < len(OPERATORS) / CORES


def test_the_best_price_goes_first_and_of_one_price_the_oldest() -> None:
    sells = [(1, False, 11, 5), (1, False, 10, 5), (1, False, 10, 7), (1, False, 12, 5)]
    found = answers(order_of([*sells, (2, True, 99, 1), (1, True, 11, 14)]))
    assert [answer["trades"] for answer in found[:5]] == [[]] * 5
    assert found[5]["trades"] == [
        {"price": 10, "quantity": 5, "buyer": 5, "seller": 1, "resting": 1},
        {"price": 10, "quantity": 7, "buyer": 5, "seller": 2, "resting": 2},
        {"price": 11, "quantity": 2, "buyer": 5, "seller": 0, "resting": 0},
    ]
    assert found[5] | {"trades": []} == {
        "stock": 1, "number": 5, "trades": [], "orders": 5, "traded": 3, "volume": 14,
        "turnover": 142, "high": 11, "low": 10, "spreads": 0, "average": 1033, "alarm": "up",
    }  # fmt: skip


def plain(orders: Orders, stock: int) -> list[list[tuple[int, int, int]]]:
    """(price, quantity, resting) of a stock's orders: the whole book sorted for each of them."""
    book: list[list[int]] = []  # number, buy, price, quantity
    found = []
    for number in np.flatnonzero(orders.stock == stock).tolist():
        buy, price = bool(orders.buy[number]), int(orders.price[number])
        left, trades = int(orders.quantity[number]), []
        for other in sorted(
            (each for each in book if each[1] != buy),
            key=lambda each: (each[2] if buy else -each[2], each[0]),
        ):
            if not left or (other[2] > price if buy else other[2] < price):
                break
            quantity = min(left, other[3])
            trades.append((other[2], quantity, other[0]))
            left, other[3] = left - quantity, other[3] - quantity
        book = [each for each in book if each[3]]
        if left:
            book.append([number, buy, price, left])
            mine = [each for each in book if each[1] == buy]
            mine.sort(key=lambda each: (-each[2] if buy else each[2], each[0]))
            book = [each for each in book if each[1] != buy] + mine[:DEPTH]
        found.append(trades)
    return found


def test_a_third_way_to_match_gives_the_same_trades() -> None:
    found = answers(ORDERS)
    for stock in np.unique(ORDERS.stock)[:6].tolist():
        mine = [answer for answer in found if answer["stock"] == stock]
        trades = [
            [(t["price"], t["quantity"], t["resting"]) for t in each["trades"]] for each in mine
        ]
        assert trades == plain(ORDERS, stock)
        assert mine[-1]["traded"] == sum(map(len, trades)) > 0
        assert mine[-1]["volume"] == sum(q for each in trades for _, q, _ in each)


def test_there_are_trades_alarms_of_both_kinds_and_cancelled_orders() -> None:
    found = answers(generate(stocks(16), ((2000.0, 20.0),)))
    assert sum(len(answer["trades"]) for answer in found) > 0.3 * len(found)
    assert {answer["alarm"] for answer in found} == {"", "up", "down"}


def test_a_side_cancels_the_worst_beyond_its_depth() -> None:
    for buy in (True, False):
        side = Side(buy)
        for number in range(DEPTH + 5):
            side.add(number, Waiting(0, 100 + number, 1))
        kept = {100 + n for n in (range(5, DEPTH + 5) if buy else range(DEPTH))}
        assert {order.price for order in side.orders.values()} == kept
        assert side.price == (100 + DEPTH + 4 if buy else 100)
    assert Stock().average == 0


def lines_of(expected: list[Answer]) -> list[str]:
    return [json.dumps(answer) for answer in expected]


def test_an_answer_that_is_lost_comes_twice_or_differs_is_found() -> None:
    expected = answers(ORDERS)
    lines = lines_of(expected)
    assert difference(expected, lines) == ""
    assert difference(expected, reversed(lines)) == ""
    assert difference(expected, lines[:100] + lines[101:]) == (
        "1 of 5000 orders have no answer, the first is 100"
    )
    assert difference(expected, [*lines, lines[7]]).startswith("order 7 is answered twice")
    assert difference(expected, lines_of([expected[0] | {"number": 5000}])).startswith(
        "there is no"
    )
    traded = next(answer for answer in expected if answer["trades"])
    wrong = json.loads(json.dumps(traded))
    wrong["trades"][0]["resting"] += 1
    lines[traded["number"]] = json.dumps(wrong)
    assert difference(expected, lines).startswith(f"order {traded['number']}: found")
    lines[traded["number"]] = json.dumps(traded | {"average": traded["average"] + 1})
    assert difference(expected, lines).startswith(f"order {traded['number']}: found")


@pytest.mark.parametrize("mode", MODES)
def test_a_case_has_its_loads_and_every_side_the_same_cores(mode: str) -> None:
    case = Case.of(mode, 70.0)
    setting = case.setting
    assert [rate for rate, _ in setting.stages] == [CALM * case.bound, FULL * case.bound]
    assert setting.seconds == pytest.approx(70)
    assert case.bound == (2000 if mode == REAL_TIME else 1000)
    assert 0 < case.calm[0] < case.calm[1] < case.full[0] < case.full[1] == 70
    for name in SIDES:
        side = side_of(setting, name)
        lanes = int(side.options.get("lanes", "1"))
        assert lanes * side.partitions * len(OPERATORS) == CORES, name
        assert bool(side.options) == (name != STOCK)
    moving = side_of(setting, RESOURCE_CENTRIC).options
    assert moving["lanes"] == moving["maxLanes"] == "1"
    assert parameters(setting, RESOURCE_CENTRIC)["rescale"] and not parameters(setting, "laneshift")


def test_sides_are_stock_and_what_the_mode_has() -> None:
    assert sides_of(MICRO, ()) == SIDES
    assert RESOURCE_CENTRIC not in sides_of(REAL_TIME, ())
    assert sides_of(REAL_TIME, ["laneshift"]) == (STOCK, "laneshift")
    assert sides_of(MICRO, [RESOURCE_CENTRIC]) == (STOCK, RESOURCE_CENTRIC)


def test_operators_divide_the_cores() -> None:
    setting = Case.of(REAL_TIME, 30.0).setting
    assert (setting.first_lanes, setting.stock_partitions) == (4, 8)
    assert setting.side("laneshift").options["maxLanes"] == "13"
    assert setting.slots == CORES + 1
    with pytest.raises(InputError, match="partitions of"):
        replace(setting, partitions=3)
    with pytest.raises(InputError, match="operators of"):
        replace(setting, operators=0)
    for partitions, shards in QUICK_GRAINS:
        grain = Case.of(REAL_TIME, 30.0, partitions, shards).setting
        assert grain.first_lanes * partitions * len(OPERATORS) == CORES
        assert f"y {partitions}, z {shards}" in grain.name


@pytest.mark.deep("policies")
def test_the_simulator_has_elastic_sides_ahead_of_hash_partitions() -> None:
    case = Case.of(REAL_TIME, 25.0)
    rates = {side: case.simulated_rate(case.foresee(side)) for side in (*SIDES,)}
    assert min(rates["elasticutor"], rates["laneshift"]) > 1.1 * rates[STOCK]
    assert max(rates.values()) < 1.1 * case.bound
    half = Case.of(MICRO, 25.0)
    assert half.simulated_rate(half.foresee("laneshift")) == pytest.approx(
        rates["laneshift"] / 2, rel=0.1
    )


def test_the_arithmetic_of_hash_partitions_is_below_the_bound() -> None:
    case = Case.of(REAL_TIME, 25.0)
    even = np.arange(case.setting.keys) % case.setting.stock_partitions
    one = np.zeros(case.setting.keys, dtype=np.int64)
    assert 0.4 * case.bound < case.hashed(even) < 0.95 * case.bound
    assert case.hashed(one) == pytest.approx(case.bound * len(OPERATORS) / CORES, rel=0.01)


def test_hot_stocks_are_shown_over_time(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("orders") / "orders.parquet"
    recorded = Recorded.of(ORDERS, file)
    lines = hottest(recorded)
    assert len(lines) == 5 and file.stat().st_size > 10_000
    peaks = [rates.max() for _, rates in lines]
    assert peaks == sorted(peaks, reverse=True)
    assert all(len(times) == len(rates) == 15 for times, rates in lines)


def test_a_choice_without_a_case_is_refused() -> None:
    with pytest.raises(BenchmarkError, match="Real-time Mode"):
        plan(True, 25.0, [MICRO], (), ["grain"])
    assert [sides for _, sides in plan(True, 25.0, MODES, (), ["grain"])] == [("elasticutor",)] * 2


def test_a_cluster_has_the_cores_between_its_executors() -> None:
    workers = Workers.of("local-cluster[2,16,2048]")
    assert (workers.count, workers.cores) == (2, CORES // 2)
    assert workers.settings["spark.master"] == "local-cluster[2,16,2048]"
    for wrong in ("local[4]", "local-cluster[3,16,2048]", "local-cluster[2,4,2048]"):
        with pytest.raises(BenchmarkError, match="expected"):
            Workers.of(wrong)


def test_what_the_driver_takes_is_measured_as_in_the_sink(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange_cluster, "time", SimpleNamespace(time=lambda: 1_700_000_002.0))

    class Batch:
        def collect(self) -> list[dict[str, object]]:
            due = datetime.fromtimestamp(1_700_000_000.0)
            return [{"due": due, "line": str(n)} for n in range(100)]

    meter = DriverMeter("due", "line")
    for number in range(2):
        meter.take(cast("DataFrame", Batch()), number)
    assert meter.read().rows == 200
    slots, latency = meter.lap()
    assert sum(rows for _, rows in slots) == latency.count == 200
    assert latency.p50_ms == latency.max_ms == pytest.approx(2000, rel=0.01)
    slots, latency = meter.lap()
    assert not slots and latency.count == 0
    assert len(meter.lines()) == 200 and not meter.lines()
