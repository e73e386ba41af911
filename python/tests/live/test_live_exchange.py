"""The benchmarks' stock exchange: every answer is plain Python's, while shards move."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import laneshift
from laneshift_bench.exchange_answers import difference
from laneshift_bench.exchange_case import MICRO, REAL_TIME
from laneshift_bench.exchange_orders import generate, stocks
from laneshift_bench.exchange_query import Recorded, moves, trading
from laneshift_bench.setting import Setting
from laneshift_bench.sides import Side, stock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.live, pytest.mark.deep("pairs")]

MOVING = Side(
    "moving",
    {"lanes": "2", "maxLanes": "3", "motion": "always", "motion.interval": "2ms"},
)


def setting_of(mode: str) -> Setting:
    """Some seconds of a small exchange."""
    return Setting(
        name=mode, cores=8, partitions=2, operators=2, cost_us=100, stages=((600.0, 5.0),),
        zipf=0.0, sources=1, batch="1 second" if mode == REAL_TIME else None, every_s=0.5,
    )  # fmt: skip


def traded(session: SparkSession, folder: Path, side: Side, mode: str) -> tuple[str, int]:
    """How the answers differ once every order was read, and how many shards moved."""
    setting = setting_of(mode)
    recorded = Recorded.of(generate(stocks(2), setting.stages), folder / "orders.parquet")
    lines: list[str] = []
    with trading(session, folder, setting, side, recorded.file, time.time()) as run:
        read = 0
        # What a batch that has ended has not answered is lost.
        while len(lines) < len(recorded.orders) and read < len(recorded.orders):
            time.sleep(0.2)
            run.check()
            read = sum(p["numInputRows"] for p in run.query.recentProgress)
            lines += run.meter.lines()
        moved = moves(laneshift.attach(session), str(run.query.runId)) if side.options else 0
    return difference(recorded.expected, lines), moved


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    return spark.newSession()


@pytest.mark.parametrize("mode", [MICRO, REAL_TIME])
def test_every_answer_is_right_while_shards_move(
    session: SparkSession, tmp_path: Path, mode: str
) -> None:
    wrong, moved = traded(session, tmp_path, MOVING, mode)
    assert wrong == ""
    assert moved > 0


@pytest.mark.parametrize("mode", [MICRO, REAL_TIME])
def test_stock_has_the_same_answers(session: SparkSession, tmp_path: Path, mode: str) -> None:
    assert traded(session, tmp_path, stock(), mode) == ("", 0)
