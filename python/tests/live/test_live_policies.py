"""The papers' baselines drive a real query by name.

In the gate: autoscale/test_tapes.py, autoscale/test_start.py, AutoscalerClaimsSuite.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

import laneshift
from live.conftest import Counting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.live, pytest.mark.deep("policies")]


def lanes_of(app: laneshift.Application, counting: Counting) -> list[int]:
    (mine,) = [q for q in app.snapshot().queries if q.id == str(counting.query.id)]
    return [part.lanes for part in mine.operators[0].partitions]


def test_static_leaves_a_query_as_it_is(app: laneshift.Application, counting: Counting) -> None:
    counting.add(500)
    app.query(counting.query).set_lanes(2, partition=1)  # within the cores that Spark leaves
    counting.add(500)
    with app.query(counting.query).autoscale(policy="static", interval=0.1) as autoscaler:
        for _ in range(4):
            counting.add(5_000)
        while autoscaler.turns < 10:
            time.sleep(0.1)
    assert autoscaler.decisions() == ()
    assert lanes_of(app, counting) == [1, 2]
    assert counting.streamed() == counting.stock()


def test_naive_ec_takes_back_lanes_that_have_nothing_to_do(
    app: laneshift.Application, counting: Counting
) -> None:
    counting.add(500)
    app.query(counting.query).set_lanes(3)
    counting.add(500)
    with app.query(counting.query).autoscale(
        policy="naive-ec", interval=0.1, release_after_s=0
    ) as autoscaler:
        end = time.monotonic() + 60
        while lanes_of(app, counting) != [1, 1]:
            assert time.monotonic() < end, autoscaler.decisions()
            counting.add(500)
    decisions = autoscaler.decisions()
    assert {d.policy for d in decisions} == {"naive-ec"}
    assert [d.error for d in decisions if d.error] == []
    assert counting.streamed() == counting.stock()


def test_a_second_autoscaler_is_refused_and_the_first_one_goes_on(
    spark: SparkSession, app: laneshift.Application, counting: Counting
) -> None:
    counting.add(300)
    other = laneshift.attach(spark)
    with app.autoscale(policy="static", interval=0.1) as first:
        with pytest.raises(laneshift.SessionError, match="policy static, drives all") as caught:
            other.query(counting.query).autoscale(policy="craa")
        assert caught.value.condition == "LANESHIFT_OTHER_AUTOSCALER"
        with other.autoscale(policy="craa", dry_run=True, interval=0.1) as dry:
            turns = first.turns, dry.turns
            counting.add(300)
            assert first.turns > turns[0] and dry.turns > turns[1]
        assert not [d.error for d in first.decisions() if d.error]
    other.query(counting.query).autoscale(policy="craa").stop()
    assert counting.streamed() == counting.stock()
