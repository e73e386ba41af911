"""Commands over each transport: what is sent, and what never is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

import laneshift
from laneshift import (
    Application,
    Applied,
    ArgumentError,
    LaneshiftError,
    NotFoundError,
    SessionError,
)
from laneshift.api.autoscaler import Here
from plugin.fake import RUNNING, STOPPED, FakeGateway, FakeQuery, query, set_lanes, snapshot_of
from session.transports import TRANSPORTS, facade

UNKNOWN = "33333333-3333-4333-8333-333333333333"
STARTED = FakeQuery(RUNNING, active=True)
ENDED = FakeQuery(STOPPED, active=False)


@pytest.fixture
def gateway() -> FakeGateway:
    return FakeGateway()


@pytest.fixture(params=TRANSPORTS)
def app(gateway: FakeGateway, request: pytest.FixtureRequest) -> Iterator[Application]:
    with facade(request.param, gateway) as made:
        yield made


@pytest.mark.parametrize("named", [RUNNING, RUNNING[::-1], "running", " running ", STARTED])
def test_a_query_is_named_by_object_id_or_name(
    app: Application, gateway: FakeGateway, named: Any
) -> None:
    assert app.query(named).set_lanes(4, partition=1).applied == "now"
    assert app.query(named).move(shard=7, to_lane=1, partition=1).applied == "next-batch"
    assert gateway.sent == [
        ("set_lanes", RUNNING, 0, 1, 4),
        ("move_shard", RUNNING, 0, 1, 7, 1),
    ]


def test_numpy_integers_are_sent_as_ints(app: Application, gateway: FakeGateway) -> None:
    app.query("running").move(
        shard=np.uint8(3), to_lane=np.int64(1), partition=np.int32(1), operator=np.int64(0)
    )  # type: ignore[arg-type]
    assert [type(value) for value in gateway.sent[0][2:]] == [int] * 4


def test_no_partition_means_every_one(app: Application, gateway: FakeGateway) -> None:
    app.query("running").set_lanes(6)
    assert gateway.sent == [("set_lanes", RUNNING, 0, None, 6)]


@pytest.mark.parametrize(("partition", "condition"), [(1, "NOT_COMPUTED"), (2, "NO_SUCH")])
def test_a_partition_that_was_not_computed_yet_is_there(
    app: Application, gateway: FakeGateway, partition: int, condition: str
) -> None:
    del gateway.data["queries"][0]["operators"][0]["partitions"][1]
    for command in (
        lambda: app.query("running").set_lanes(2, partition=partition),
        lambda: app.query("running").move(shard=0, to_lane=1, partition=partition),
    ):
        with pytest.raises(LaneshiftError) as caught:
            command()
        assert condition in caught.value.condition
        assert isinstance(caught.value, NotFoundError) == (condition == "NO_SUCH")
        assert ("0 to 1" in str(caught.value)) == (condition == "NO_SUCH")
    assert gateway.sent == []


def test_tasks_are_set_for_every_operator_with_state(
    app: Application, gateway: FakeGateway
) -> None:
    operators = gateway.data["queries"][0]["operators"]
    operators.append({**operators[0], "operator_id": 3})
    operators.append({**operators[0], "operator_id": 1000, "handoff": "dealt"})
    assert app.query("running").set_tasks(2).applied == "next-batch"
    assert app.query("running").set_tasks("auto", operator=3).applied == "next-batch"
    assert app.snapshot().queries[0].operators[0].tasks == 2
    assert gateway.sent == [
        ("set_tasks", RUNNING, 0, "2"),
        ("set_tasks", RUNNING, 3, "2"),
        ("set_tasks", RUNNING, 3, "auto"),
    ]


def test_a_query_without_state_has_no_tasks_to_set(app: Application, gateway: FakeGateway) -> None:
    gateway.data["queries"][0]["operators"][0]["handoff"] = "dealt"
    with pytest.raises(SessionError) as caught:
        app.query("running").set_tasks(2)
    assert caught.value.condition == "LANESHIFT_NO_STATE_PARTITIONS"
    assert gateway.sent == []


def test_a_source_is_limited(app: Application, gateway: FakeGateway) -> None:
    assert app.query("running").limit_source(0, duration=0.1) == "now"
    assert app.query("running").limit_source(5.5, duration=0) == "now"
    assert gateway.sent == [
        ("limit_source", RUNNING, 0, 0.1),
        ("limit_source", RUNNING, 5.5, 0),
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((-1.0, 1.0), ["rows_per_second", "-1", ">= 0", "rows/s"]),
        ((float("inf"), 1.0), ["rows_per_second", "inf"]),
        ((float("nan"), 1.0), ["rows_per_second", "nan"]),
        ((10.0, -0.1), ["duration", "-0.1", "3600"]),
        ((10.0, 3601), ["duration", "3601", "3600"]),
        ((10.0, float("nan")), ["duration", "nan"]),
        ((10.0, "10"), ["duration", "'10'", "text with a unit"]),
        (("10", 1.0), ["rows_per_second", "'10'"]),
    ],
)
def test_wrong_limits_are_not_sent(
    app: Application, gateway: FakeGateway, arguments: tuple[Any, Any], words: list[str]
) -> None:
    with pytest.raises(ValueError, match=words[0]) as caught:
        app.query("running").limit_source(arguments[0], duration=arguments[1])
    for word in words:
        assert word in str(caught.value)
    assert gateway.sent == []


@pytest.mark.parametrize(
    ("query", "kind", "condition"),
    [
        ("nope", NotFoundError, "NO_SUCH_QUERY"),
        ("stopped", SessionError, "QUERY_STOPPED"),
        (7, ArgumentError, "INVALID_TYPE"),
    ],
)
def test_limits_of_what_does_not_run_are_not_sent(
    app: Application, gateway: FakeGateway, query: Any, kind: type[Exception], condition: str
) -> None:
    with pytest.raises(kind) as caught:
        app.query(query).limit_source(10, duration=1)
    assert getattr(caught.value, "condition", "") == f"LANESHIFT_{condition}"
    assert gateway.sent == []


def test_handoffs_of_one_query_and_of_all(app: Application, gateway: FakeGateway) -> None:
    (moved,) = app.handoffs()
    assert (moved.shard, moved.source, moved.target, moved.pause_us) == (5, 0, 8, 89.5)
    assert (moved.source_executor, moved.target_executor) == (None, "2")
    app.query("running").handoffs(limit=5)
    app.query("stopped").handoffs(limit=5)
    app.query(ENDED).handoffs(limit=1)  # type: ignore[arg-type]
    assert gateway.asked == [("", 1000), ("running", 5), ("stopped", 5), (STOPPED, 1)]


SET_LANES: list[tuple[tuple[Any, ...], type[Exception], str, list[str]]] = [
    (("nope", 0, 0, 2), NotFoundError, "NO_SUCH_QUERY", ["'nope'", "'running'", "StreamingQuery"]),
    ((UNKNOWN, 0, 0, 2), NotFoundError, "NO_SUCH_QUERY", [UNKNOWN, RUNNING]),
    (("", 0, 0, 2), ArgumentError, "OUT_OF_RANGE", ["query", "''", "queryName"]),
    (
        (None, 0, 0, 2),
        ArgumentError,
        "INVALID_TYPE",
        ["query", "NoneType", "StreamingQuery"],
    ),
    ((7, 0, 0, 2), ArgumentError, "INVALID_TYPE", ["query", "7", "int", "its id or its name"]),
    (("stopped", 0, 0, 2), SessionError, "QUERY_STOPPED", ["'stopped'", "'running'", "Start"]),
    ((STOPPED, 0, 0, 2), SessionError, "QUERY_STOPPED", [STOPPED, "Start the query again"]),
    ((ENDED, 0, 0, 2), SessionError, "QUERY_STOPPED", [STOPPED, "Start the query again"]),
    (
        ("running", 1, 0, 2),
        NotFoundError,
        "NO_SUCH_OPERATOR",
        ["0 (stateStoreSave)", "first batch", "explain()"],
    ),
    (("running", 0, -1, 2), NotFoundError, "NO_SUCH_PARTITION", ["-1", "0 to 1"]),
    (("running", -1, 0, 2), NotFoundError, "NO_SUCH_OPERATOR", ["-1", "0 (stateStoreSave)"]),
    (("running", "nope", 0, 2), NotFoundError, "NO_SUCH_OPERATOR", ["'nope'", "stateStoreSave"]),
    (("running", 0.0, 0, 2), ArgumentError, "INVALID_TYPE", ["operator", "0.0", "float", "name"]),
    (("running", 0, 2, 2), NotFoundError, "NO_SUCH_PARTITION", ["2", "0 to 1"]),
    (("running", 0, -2, 2), NotFoundError, "NO_SUCH_PARTITION", ["-2", "0 to 1", "shuffle"]),
    (("running", 0, 0.0, 2), ArgumentError, "INVALID_TYPE", ["partition", "0.0", "float"]),
    (("running", 0, 0, 0), ArgumentError, "LANES_OUT_OF_RANGE", ["0 lanes", "1 to 6", "max_lanes"]),
    (("running", 0, 0, 7), ArgumentError, "LANES_OUT_OF_RANGE", ["7 lanes", "1 to 6", "configure"]),
    (
        ("running", 0, None, 99),
        ArgumentError,
        "LANES_OUT_OF_RANGE",
        ["99 lanes for each partition", "1 to 6"],
    ),
    (("running", 0, 0, -3), ArgumentError, "LANES_OUT_OF_RANGE", ["-3", "1 to 6"]),
    (("running", 0, 0, True), ArgumentError, "INVALID_TYPE", ["lanes:", "True", "bool"]),
    (
        ("running", 0, 0, 2.5),
        ArgumentError,
        "INVALID_TYPE",
        ["lanes:", "2.5", "float", "whole number"],
    ),
    (("running", 0, 0, "4"), ArgumentError, "INVALID_TYPE", ["lanes:", "'4'", "str"]),
    (("running", 0, 0, 2**31), ArgumentError, "OUT_OF_RANGE", ["lanes:", "2147483648", "32 bits"]),
]

SET_TASKS: list[tuple[tuple[Any, ...], type[Exception], str, list[str]]] = [
    (("nope", 2), NotFoundError, "NO_SUCH_QUERY", ["'nope'", "'running'"]),
    (("stopped", 2), SessionError, "QUERY_STOPPED", ["'stopped'", "'running'"]),
    (("running", 0), ArgumentError, "TASKS_OUT_OF_RANGE", ["found 0", "1 to", "'auto'"]),
    (("running", -3), ArgumentError, "TASKS_OUT_OF_RANGE", ["found -3", "set_lanes"]),
    (("running", "all"), ArgumentError, "INVALID_TYPE", ["tasks", "'all'", "'stock'"]),
    (("running", 2.0), ArgumentError, "INVALID_TYPE", ["tasks", "2.0", "float"]),
    (("running", True), ArgumentError, "INVALID_TYPE", ["tasks", "True", "bool"]),
]

MOVE: list[tuple[tuple[Any, ...], type[Exception], str, list[str]]] = [
    (("nope", 0, 0, 0, 1), NotFoundError, "NO_SUCH_QUERY", ["'nope'", "'running'"]),
    (("stopped", 0, 0, 0, 1), SessionError, "QUERY_STOPPED", ["'stopped'", "'running'"]),
    (("running", 9, 0, 0, 1), NotFoundError, "NO_SUCH_OPERATOR", ["9", "0 (stateStoreSave)"]),
    (("running", 0, 5, 0, 1), NotFoundError, "NO_SUCH_PARTITION", ["5", "0 to 1"]),
    (("running", 0, -1, 0, 1), NotFoundError, "NO_SUCH_PARTITION", ["-1", "0 to 1"]),
    (("running", 0, 0, 8, 1), NotFoundError, "NO_SUCH_SHARD", ["8", "0 to 7", "shardsPer"]),
    (("running", 0, 0, -1, 1), NotFoundError, "NO_SUCH_SHARD", ["-1", "0 to 7"]),
    (("running", 0, 0, "x", 1), ArgumentError, "INVALID_TYPE", ["shard", "'x'", "str"]),
    (("running", 0, 0, 0, 2), NotFoundError, "NO_SUCH_LANE", ["2", "0 to 1", "set_lanes"]),
    (("running", 0, 0, 0, -1), NotFoundError, "NO_SUCH_LANE", ["-1", "0 to 1"]),
    (("running", 0, 0, 0, [1]), ArgumentError, "INVALID_TYPE", ["to_lane", "[1]", "list"]),
    (("running", 0, 0, -(2**40), 1), ArgumentError, "OUT_OF_RANGE", ["shard", "32 bits"]),
]

HANDOFFS: list[tuple[tuple[Any, ...], type[Exception], str, list[str]]] = [
    (("nope", 5), NotFoundError, "NO_SUCH_QUERY", ["'nope'", "'running'"]),
    ((3.5, 5), ArgumentError, "INVALID_TYPE", ["query", "3.5", "float"]),
    ((None, 0), ArgumentError, "OUT_OF_RANGE", ["limit", "0", "1 to 100000"]),
    ((None, 100_001), ArgumentError, "OUT_OF_RANGE", ["limit", "100001", "1 to 100000"]),
    ((None, "all"), ArgumentError, "INVALID_TYPE", ["limit", "'all'", "str"]),
    ((None, False), ArgumentError, "INVALID_TYPE", ["limit", "False", "bool"]),
]


COMMANDS: dict[str, Callable[..., object]] = {
    "set_lanes": lambda app, query, operator, partition, lanes: app.query(query).set_lanes(
        lanes, partition=partition, operator=operator
    ),
    "set_tasks": lambda app, query, tasks: app.query(query).set_tasks(tasks),
    "move": lambda app, query, operator, partition, shard, lane: app.query(query).move(
        shard=shard, to_lane=lane, partition=partition, operator=operator
    ),
    "handoffs": lambda app, query, limit: (app if query is None else app.query(query)).handoffs(
        limit=limit
    ),
}


@pytest.mark.parametrize(
    ("method", "arguments", "kind", "condition", "words"),
    [("set_lanes", *case) for case in SET_LANES]
    + [("set_tasks", *case) for case in SET_TASKS]
    + [("move", *case) for case in MOVE]
    + [("handoffs", *case) for case in HANDOFFS],
)
def test_a_wrong_argument_is_refused_before_anything_is_sent(
    app: Application,
    gateway: FakeGateway,
    method: str,
    arguments: tuple[Any, ...],
    kind: type[Exception],
    condition: str,
    words: list[str],
) -> None:
    with pytest.raises(kind) as caught:
        COMMANDS[method](app, *arguments)
    assert isinstance(caught.value, LaneshiftError)
    assert caught.value.condition == f"LANESHIFT_{condition}"
    for word in words:
        assert word in str(caught.value)
    assert gateway.sent == []


def test_a_name_that_two_running_queries_have_is_ambiguous(
    app: Application, gateway: FakeGateway
) -> None:
    gateway.data["queries"].append(query(UNKNOWN, "running", active=True))
    with pytest.raises(ArgumentError, match=f"2 running queries .*{RUNNING}.*{UNKNOWN}"):
        app.query("running").set_lanes(1, partition=0)
    assert gateway.sent == []


def test_a_running_query_wins_over_a_stopped_one_of_the_same_name(
    app: Application, gateway: FakeGateway
) -> None:
    gateway.data["queries"].append(query(UNKNOWN, "running", active=False))
    app.query("running").set_lanes(1, partition=0)
    assert gateway.sent == [("set_lanes", RUNNING, 0, 0, 1)]


def test_a_query_goes_on_once_it_was_started_again(app: Application, gateway: FakeGateway) -> None:
    for found in (app.query("running"), app.query(FakeQuery(RUNNING, active=False))):  # type: ignore[arg-type]
        queries, gateway.data["queries"] = gateway.data["queries"], []
        with pytest.raises(SessionError, match="has stopped"):
            found.set_lanes(1)
        gateway.data["queries"] = queries
        queries[0]["run_id"] = UNKNOWN
        found.set_lanes(1)
    assert gateway.sent == [("set_lanes", RUNNING, 0, None, 1)] * 2


def test_several_operators_are_listed_if_none_is_named(
    app: Application, gateway: FakeGateway
) -> None:
    operators = gateway.data["queries"][0]["operators"]
    operators.append({**operators[0], "operator_id": 1000, "name": "rowWise", "handoff": "dealt"})
    found = app.query("running")
    found.set_lanes(2)
    found.set_lanes(3, operator="rowWise")
    operators.append({**operators[0], "operator_id": 3})
    for operator in (None, "stateStoreSave"):
        with pytest.raises(ArgumentError, match=r"0 \(stateStoreSave\), 3 \(stateStoreSave\)"):
            found.set_lanes(2, operator=operator)
    found.set_lanes(4, operator=3)
    sent = [(0, None, 2), (1000, None, 3), (3, None, 4)]
    assert gateway.sent == [("set_lanes", RUNNING, *one) for one in sent]


def test_a_change_is_waited_for(app: Application, gateway: FakeGateway) -> None:
    found = app.query("running")
    parts = gateway.data["queries"][0]["operators"][0]["partitions"]
    lanes = found.set_lanes(3)
    assert lanes.applied is Applied.NOW
    with pytest.raises(SessionError, match=r"shows 3 lanes for all partitions.* after 0\.01 s"):
        lanes.wait("10ms")
    for part in parts:
        set_lanes(part, 3)
    lanes.wait()
    found.set_lanes(3, partition=1).wait()
    away = found.set_lanes(2, partition=1, on={"2": 1})
    with pytest.raises(SessionError, match="LANESHIFT_CHANGE_NOT_SHOWN"):
        away.wait(timedelta(milliseconds=10))
    host = {"lane": 2, "executor": "2", "open": False, "kept_bytes": 0, "rows_sent": 0}
    host |= dict.fromkeys(("frames", "state_reads", "bytes_sent", "bytes_received"), 0)
    parts[1]["elsewhere"] = [host]
    with pytest.raises(SessionError, match="LANESHIFT_CHANGE_NOT_SHOWN"):
        away.wait(0.01)
    host["open"] = True
    away.wait()  # three lanes, one of them there
    set_lanes(parts[1], 2)
    parts[1].update(running=False, elsewhere=[])
    with pytest.raises(SessionError, match="LANESHIFT_CHANGE_NOT_SHOWN"):
        away.wait(0.01)
    parts[1]["wanted_elsewhere"] = [{"executor": "2", "lanes": 1}]
    away.wait()
    moved = found.move(shard=5, to_lane=1, partition=0)
    parts[0]["lane_of_shard"][5] = 0
    with pytest.raises(SessionError, match="shard 5 of partition 0 on lane 1"):
        moved.wait(0.01)
    parts[0]["lane_of_shard"][5] = 1
    moved.wait()
    found.set_tasks("stock").wait()
    one, auto = found.set_tasks(1), found.set_tasks("auto")
    for change in (one, auto):
        assert change.applied is Applied.NEXT_BATCH
        with pytest.raises(SessionError, match="waits for data"):
            change.wait(0.01)
    gateway.data["queries"][0]["operators"][0]["tasks"] = 1
    one.wait()
    parts[0]["batch_id"] += 1
    auto.wait()
    gateway.data["queries"][0]["run_id"] = UNKNOWN
    with pytest.raises(SessionError, match="has stopped"):
        auto.wait()


def test_without_any_query_the_message_says_so(app: Application, gateway: FakeGateway) -> None:
    gateway.data["queries"] = []
    with pytest.raises(NotFoundError, match="there are none"):
        app.query("nope").move(shard=0, to_lane=0, partition=0)


@pytest.mark.parametrize("jar", ["0.0.0-dev", "9.9.9", "unknown", ""])
def test_a_jar_of_another_version_is_refused(jar: str) -> None:
    with pytest.raises(SessionError, match="one version") as caught:
        Application(Here(FakeGateway(version=jar or "0")))
    assert caught.value.condition == "LANESHIFT_JAR_VERSION_MISMATCH"
    assert laneshift.__version__ in str(caught.value)


def test_snapshots_are_the_same_and_go_on(app: Application, gateway: FakeGateway) -> None:
    gateway.data["queries"].append(query(STOPPED, "old", active=False))
    first = app.snapshot()
    assert repr(asdict(first)) == repr(asdict(snapshot_of(gateway.data)))
    stream = app.watch(0.1)
    assert next(stream).time_ms == first.time_ms
    gateway.data["time_ms"] += 700
    assert next(stream).time_ms == first.time_ms + 700
    stream.close()  # type: ignore[attr-defined]
    with pytest.raises(ArgumentError, match="interval"):
        app.watch(0.01)


def test_an_application_shows_its_version(app: Application) -> None:
    assert app.version == laneshift.__version__
    assert laneshift.__version__ in repr(app)


def test_a_query_is_watched_over_its_restarts(app: Application, gateway: FakeGateway) -> None:
    stream = app.query("running").watch("100ms")
    assert next(stream).run_id == RUNNING[::-1]
    gateway.data["queries"][0]["active"] = False
    gateway.data["queries"].append(query(RUNNING, "running", active=True) | {"run_id": UNKNOWN})
    gateway.data["time_ms"] += 100
    assert next(stream).run_id == UNKNOWN
    with pytest.raises(NotFoundError, match="nope"):
        app.query("nope").watch()


def test_queries_are_those_that_run(app: Application, gateway: FakeGateway) -> None:
    gateway.data["queries"].append(query(STOPPED, "old", active=False))
    assert [(found.id, found.name) for found in app.queries] == [(RUNNING, "running")]


def test_a_snapshot_is_a_table(app: Application) -> None:
    found = app.query("running").snapshot()
    assert [p.partition for p in found.partitions] == [0, 1]
    head, names, *rows = repr(found).splitlines()
    assert "'running'" in head and "real-time" in head
    assert names.split()[:4] == ["query", "operator", "name", "partition"] and len(rows) == 2
    for shown in (found, app.snapshot()):
        table = shown.to_pandas()
        assert list(table["lanes"]) == [2, 2] and list(table["queue_rows"]) == [3, 3]
        assert table.columns.tolist() == names.split()
        assert shown._repr_html_().count("<tr>") == 3
