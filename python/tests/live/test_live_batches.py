"""The facade on a running micro-batch query: look, change lanes, move shards, stay exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import laneshift
from laneshift.plugin.gateway import the_one
from laneshift.plugin.v1 import control_pb2 as pb

if TYPE_CHECKING:
    from conftest import Counting

pytestmark = [pytest.mark.live, pytest.mark.versions]

SHARDS = 16


def operator_of(app: laneshift.Application, query: Any) -> laneshift.OperatorSnapshot:
    (found,) = [q for q in app.snapshot().queries if q.id == str(query.id)]
    (operator,) = found.operators
    return operator


def test_a_snapshot_shows_the_running_query(app: laneshift.Application, counting: Counting) -> None:
    counting.add(1000)
    (query,) = [q for q in app.snapshot().queries if q.name == counting.name]
    assert (query.id, query.run_id) == (str(counting.query.id), str(counting.query.runId))
    assert (query.mode, query.active) == ("micro-batch", True)
    (operator,) = query.operators
    assert operator.handoff == "between-batches"
    assert [p.partition for p in operator.partitions] == [0, 1]
    assert operator.rows_in > 0
    for part in operator.partitions:
        assert (part.shards, part.lanes, part.max_lanes) == (SHARDS, 1, 6)
        np.testing.assert_array_equal(part.lane_of_shard, np.zeros(SHARDS))


def test_lanes_go_up_and_down_and_the_answer_is_that_of_stock(
    app: laneshift.Application, counting: Counting
) -> None:
    counting.add(500)
    operator = operator_of(app, counting.query).operator_id
    for lanes in (4, 2, 1, 3):
        assert app.query(counting.query).set_lanes(lanes, operator=operator).applied == "next-batch"
        counting.add(500)
        found = operator_of(app, counting.query)
        assert [p.lanes for p in found.partitions] == [lanes, lanes]
        for part in found.partitions:
            assert set(part.lane_of_shard) == set(range(lanes))
    app.query(counting.name).set_lanes(6, partition=1, operator=operator)
    counting.add(500)
    assert [p.lanes for p in operator_of(app, counting.query).partitions] == [3, 6]
    assert counting.streamed() == counting.stock()


def test_a_shard_moves_to_the_lane_that_was_asked_for(
    app: laneshift.Application, counting: Counting
) -> None:
    counting.add(500)
    operator = operator_of(app, counting.query).operator_id
    app.query(counting.query).set_lanes(3, operator=operator)
    counting.add(500)
    owner = int(operator_of(app, counting.query).partitions[1].lane_of_shard[5])
    target = (owner + 1) % 3
    assert (
        app.query(str(counting.query.id))
        .move(shard=5, to_lane=target, partition=1, operator=operator)
        .applied
        == "next-batch"
    )
    counting.add(500)
    assert int(operator_of(app, counting.query).partitions[1].lane_of_shard[5]) == target
    moved = [h for h in app.query(counting.query).handoffs() if h.reason == "user"]
    assert [(h.partition, h.shard, h.source, h.target) for h in moved] == [(1, 5, owner, target)]
    assert app.query(counting.query).handoffs(limit=1)[0].seq >= moved[0].seq
    assert counting.streamed() == counting.stock()


def test_wrong_arguments_leave_the_running_query_untouched(
    app: laneshift.Application, counting: Counting
) -> None:
    counting.add(500)
    operator = operator_of(app, counting.query).operator_id
    app.query(counting.query).set_lanes(2, operator=operator)
    counting.add(500)
    before = operator_of(app, counting.query)
    query = app.query(counting.query)
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: app.query("nope").set_lanes(2), "NO_SUCH_QUERY"),
        (lambda: query.set_lanes(2, operator=operator + 1), "NO_SUCH_OPERATOR"),
        (lambda: query.set_lanes(2, partition=2), "NO_SUCH_PARTITION"),
        (lambda: query.set_lanes(7, partition=0), "LANES_OUT_OF_RANGE"),
        (lambda: query.set_lanes("2", partition=0), "INVALID_TYPE"),  # type: ignore[arg-type]
        (lambda: query.move(shard=SHARDS, to_lane=0, partition=0), "NO_SUCH_SHARD"),
        (lambda: query.move(shard=0, to_lane=2, partition=0), "NO_SUCH_LANE"),
        (lambda: app.query("nope").handoffs(), "NO_SUCH_QUERY"),
    ]
    for call, condition in wrong:
        with pytest.raises(laneshift.ArgumentError) as caught:
            call()
        assert caught.value.condition == f"LANESHIFT_{condition}"
    counting.add(500)
    after = operator_of(app, counting.query)
    assert counting.query.isActive
    assert [p.lanes for p in after.partitions] == [p.lanes for p in before.partitions]
    for old, new in zip(before.partitions, after.partitions, strict=True):
        np.testing.assert_array_equal(old.lane_of_shard, new.lane_of_shard)
    assert counting.streamed() == counting.stock()


@pytest.mark.parametrize(
    ("wish", "condition"),
    [
        (pb.LanesWish(operator=99, partition=0, lanes=2), "NO_SUCH_OPERATOR"),
        (pb.LanesWish(partition=99, lanes=2), "NO_SUCH_PARTITION"),
        (pb.LanesWish(partition=0, lanes=99), "LANES_OUT_OF_RANGE"),
        (pb.MoveWish(partition=0, shard=99, to_lane=0), "NO_SUCH_SHARD"),
        (pb.MoveWish(partition=0, shard=0, to_lane=99), "NO_SUCH_LANE"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_plugin_refuses_by_itself_what_python_would(
    app: laneshift.Application,
    counting: Counting,
    wish: pb.LanesWish | pb.MoveWish,
    condition: str,
) -> None:
    counting.add(100)
    asked: Any = type(wish)()
    asked.CopyFrom(wish)
    asked.query = str(counting.query.id)
    asked.operator = wish.operator or operator_of(app, counting.query).operator_id
    gateway: Any = app._gateway
    send = gateway.set_lanes if isinstance(wish, pb.LanesWish) else gateway.move
    with pytest.raises(laneshift.ArgumentError) as caught:
        the_one(send([asked]))
    assert caught.value.condition == f"LANESHIFT_{condition}"
    assert "99" in str(caught.value)


def test_a_stopped_query_takes_no_commands_but_its_handoffs_can_be_read(
    app: laneshift.Application, counting: Counting
) -> None:
    counting.add(100)
    operator = operator_of(app, counting.query).operator_id
    app.query(counting.query).set_lanes(2, operator=operator)
    counting.add(100)
    moves = app.query(counting.query).handoffs()
    counting.query.stop()
    for named in (counting.query, str(counting.query.id), counting.name):
        with pytest.raises(laneshift.SessionError) as caught:
            app.query(named).set_lanes(1, partition=0, operator=operator)
        assert caught.value.condition == "LANESHIFT_QUERY_STOPPED"
        assert app.query(named).handoffs() == moves
    assert moves
