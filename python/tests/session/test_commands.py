"""Commands of the live object over each transport: what is sent, and what never is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import laneshift
from laneshift import (
    ArgumentError,
    Laneshift,
    LaneshiftError,
    NotFoundError,
    SessionError,
    Snapshot,
)
from plugin.fake import RUNNING, STOPPED, FakeGateway, FakeQuery, query
from session.transports import TRANSPORTS, facade

UNKNOWN = "33333333-3333-4333-8333-333333333333"
STARTED = FakeQuery(RUNNING, active=True)
ENDED = FakeQuery(STOPPED, active=False)


@pytest.fixture
def gateway() -> FakeGateway:
    return FakeGateway()


@pytest.fixture(params=TRANSPORTS)
def live(gateway: FakeGateway, request: pytest.FixtureRequest) -> Iterator[Laneshift]:
    with facade(request.param, gateway) as made:
        yield made


@pytest.mark.parametrize("named", [RUNNING, RUNNING[::-1], "running", " running ", STARTED])
def test_a_query_is_named_by_object_id_or_name(
    live: Laneshift, gateway: FakeGateway, named: Any
) -> None:
    assert live.set_lanes(named, 0, 1, 4) == "now"
    assert live.move_shard(named, 0, 1, 7, 1) == "next-batch"
    assert gateway.sent == [
        ("set_lanes", RUNNING, 0, 1, 4),
        ("move_shard", RUNNING, 0, 1, 7, 1),
    ]


def test_numpy_integers_are_sent_as_ints(live: Laneshift, gateway: FakeGateway) -> None:
    live.move_shard("running", np.int64(0), np.int32(1), np.uint8(3), np.int64(1))  # type: ignore[arg-type]
    assert [type(value) for value in gateway.sent[0][2:]] == [int] * 4


def test_minus_one_means_every_partition(live: Laneshift, gateway: FakeGateway) -> None:
    live.set_lanes("running", 0, -1, 6)
    assert gateway.sent == [("set_lanes", RUNNING, 0, -1, 6)]


@pytest.mark.parametrize(("partition", "condition"), [(1, "NOT_COMPUTED"), (2, "NO_SUCH")])
def test_a_partition_that_was_not_computed_yet_is_there(
    live: Laneshift, gateway: FakeGateway, partition: int, condition: str
) -> None:
    del gateway.data["queries"][0]["operators"][0]["partitions"][1]
    for command in (
        lambda: live.set_lanes("running", 0, partition, 2),
        lambda: live.move_shard("running", 0, partition, 0, 1),
    ):
        with pytest.raises(LaneshiftError) as caught:
            command()
        assert condition in caught.value.condition
        assert isinstance(caught.value, NotFoundError) == (condition == "NO_SUCH")
        assert ("0 to 1" in str(caught.value)) == (condition == "NO_SUCH")
    assert gateway.sent == []


def test_tasks_are_set_for_every_operator_with_state(live: Laneshift, gateway: FakeGateway) -> None:
    operators = gateway.data["queries"][0]["operators"]
    operators.append({**operators[0], "operator_id": 3})
    operators.append({**operators[0], "operator_id": 1000, "handoff": "dealt"})
    assert live.set_tasks("running", 2) == "next-batch"
    assert live.set_tasks("running", "auto", operator=3) == "next-batch"
    assert live.snapshot().queries[0].operators[0].tasks == 2
    assert gateway.sent == [
        ("set_tasks", RUNNING, 0, "2"),
        ("set_tasks", RUNNING, 3, "2"),
        ("set_tasks", RUNNING, 3, "auto"),
    ]


def test_a_query_without_state_has_no_tasks_to_set(live: Laneshift, gateway: FakeGateway) -> None:
    gateway.data["queries"][0]["operators"][0]["handoff"] = "dealt"
    with pytest.raises(SessionError) as caught:
        live.set_tasks("running", 2)
    assert caught.value.condition == "LANESHIFT_NO_STATE_PARTITIONS"
    assert gateway.sent == []


def test_a_source_is_limited(live: Laneshift, gateway: FakeGateway) -> None:
    assert live.limit_source("running", 0, 0.1) == "now"
    assert live.limit_source("running", 5.5, 0) == "now"
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
        ((10.0, -0.1), ["seconds", "-0.1", "3600"]),
        ((10.0, 3601), ["seconds", "3601", "3600"]),
        ((10.0, float("nan")), ["seconds", "nan"]),
        (("10", 1.0), ["rows_per_second", "'10'"]),
    ],
)
def test_wrong_limits_are_not_sent(
    live: Laneshift, gateway: FakeGateway, arguments: tuple[Any, Any], words: list[str]
) -> None:
    with pytest.raises(ValueError, match=words[0]) as caught:
        live.limit_source("running", *arguments)
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
    live: Laneshift, gateway: FakeGateway, query: Any, kind: type[Exception], condition: str
) -> None:
    with pytest.raises(kind) as caught:
        live.limit_source(query, 10, 1)
    assert getattr(caught.value, "condition", "") == f"LANESHIFT_{condition}"
    assert gateway.sent == []


def test_handoffs_of_one_query_and_of_all(live: Laneshift, gateway: FakeGateway) -> None:
    (moved,) = live.handoffs()
    assert (moved.shard, moved.source, moved.target, moved.pause_us) == (5, 0, 8, 89.5)
    assert (moved.source_executor, moved.target_executor) == (None, "2")
    live.handoffs("running", limit=5)
    live.handoffs("stopped", limit=5)
    live.handoffs(ENDED, limit=1)  # type: ignore[arg-type]
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
    ((ENDED, 0, 0, 2), SessionError, "QUERY_STOPPED", [STOPPED, "new StreamingQuery"]),
    (
        ("running", 1, 0, 2),
        NotFoundError,
        "NO_SUCH_OPERATOR",
        ["0 (stateStoreSave)", "first batch", "explain()"],
    ),
    (("running", -1, 0, 2), NotFoundError, "NO_SUCH_OPERATOR", ["-1", "0 (stateStoreSave)"]),
    (("running", "0", 0, 2), ArgumentError, "INVALID_TYPE", ["operator", "'0'", "str", "whole"]),
    (("running", None, 0, 2), ArgumentError, "INVALID_TYPE", ["operator", "None", "snapshot()"]),
    (("running", 0, 2, 2), NotFoundError, "NO_SUCH_PARTITION", ["2", "0 to 1", "-1 for all"]),
    (("running", 0, -2, 2), NotFoundError, "NO_SUCH_PARTITION", ["-2", "0 to 1", "shuffle"]),
    (("running", 0, 0.0, 2), ArgumentError, "INVALID_TYPE", ["partition", "0.0", "float"]),
    (("running", 0, 0, 0), ArgumentError, "LANES_OUT_OF_RANGE", ["0 lanes", "1 to 6", "max_lanes"]),
    (("running", 0, 0, 7), ArgumentError, "LANES_OUT_OF_RANGE", ["7 lanes", "1 to 6", "configure"]),
    (("running", 0, -1, 99), ArgumentError, "LANES_OUT_OF_RANGE", ["99", "1 to 6", "-1 (all)"]),
    (("running", 0, 0, -3), ArgumentError, "LANES_OUT_OF_RANGE", ["-3", "1 to 6"]),
    (("running", 0, 0, True), ArgumentError, "INVALID_TYPE", ["n:", "True", "bool"]),
    (("running", 0, 0, 2.5), ArgumentError, "INVALID_TYPE", ["n:", "2.5", "float", "whole number"]),
    (("running", 0, 0, "4"), ArgumentError, "INVALID_TYPE", ["n:", "'4'", "str"]),
    (("running", 0, 0, 2**31), ArgumentError, "OUT_OF_RANGE", ["n:", "2147483648", "32 bits"]),
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

MOVE_SHARD: list[tuple[tuple[Any, ...], type[Exception], str, list[str]]] = [
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
    (("running", 0, 0, 0, [1]), ArgumentError, "INVALID_TYPE", ["lane", "[1]", "list"]),
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


@pytest.mark.parametrize(
    ("method", "arguments", "kind", "condition", "words"),
    [("set_lanes", *case) for case in SET_LANES]
    + [("set_tasks", *case) for case in SET_TASKS]
    + [("move_shard", *case) for case in MOVE_SHARD]
    + [("handoffs", *case) for case in HANDOFFS],
)
def test_a_wrong_argument_is_refused_before_anything_is_sent(
    live: Laneshift,
    gateway: FakeGateway,
    method: str,
    arguments: tuple[Any, ...],
    kind: type[Exception],
    condition: str,
    words: list[str],
) -> None:
    with pytest.raises(kind) as caught:
        getattr(live, method)(*arguments)
    assert isinstance(caught.value, LaneshiftError)
    assert caught.value.condition == f"LANESHIFT_{condition}"
    for word in words:
        assert word in str(caught.value)
    assert gateway.sent == []


def test_a_name_that_two_running_queries_have_is_ambiguous(
    live: Laneshift, gateway: FakeGateway
) -> None:
    gateway.data["queries"].append(query(UNKNOWN, "running", active=True))
    with pytest.raises(ArgumentError, match=f"2 running queries .*{RUNNING}.*{UNKNOWN}"):
        live.set_lanes("running", 0, 0, 1)
    assert gateway.sent == []


def test_a_running_query_wins_over_a_stopped_one_of_the_same_name(
    live: Laneshift, gateway: FakeGateway
) -> None:
    gateway.data["queries"].append(query(UNKNOWN, "running", active=False))
    live.set_lanes("running", 0, 0, 1)
    assert gateway.sent == [("set_lanes", RUNNING, 0, 0, 1)]


def test_an_old_object_of_a_query_that_was_started_again_is_refused(
    live: Laneshift, gateway: FakeGateway
) -> None:
    with pytest.raises(SessionError, match="has stopped"):
        live.set_lanes(FakeQuery(RUNNING, active=False), 0, 0, 1)  # type: ignore[arg-type]
    assert gateway.sent == []


def test_without_any_query_the_message_says_so(live: Laneshift, gateway: FakeGateway) -> None:
    gateway.data["queries"] = []
    with pytest.raises(NotFoundError, match="there are none"):
        live.move_shard("nope", 0, 0, 0, 0)


def test_an_answer_of_another_form_is_a_clear_error(gateway: FakeGateway) -> None:
    live = Laneshift(gateway)
    del gateway.data["queries"][0]["operators"][0]["partitions"][0]["lanes"]
    with pytest.raises(SessionError, match=r"KeyError 'lanes'.*reinstall the wheel") as caught:
        live.snapshot()
    assert caught.value.condition == "LANESHIFT_BAD_REPLY"


@pytest.mark.parametrize("jar", ["0.0.0-dev", "9.9.9", "unknown", ""])
def test_a_jar_of_another_version_is_refused(jar: str) -> None:
    with pytest.raises(SessionError, match="one version") as caught:
        Laneshift(FakeGateway(version=jar or "0"))
    assert caught.value.condition == "LANESHIFT_JAR_VERSION_MISMATCH"
    assert laneshift.__version__ in str(caught.value)


def test_snapshots_are_the_same_and_go_on(live: Laneshift, gateway: FakeGateway) -> None:
    gateway.data["queries"].append(query(STOPPED, "old", active=False))
    first = live.snapshot()
    assert repr(first) == repr(Snapshot.from_json(gateway.data))
    stream = live.watch(0.1)
    assert next(stream).time_ms == first.time_ms
    gateway.data["time_ms"] += 700
    assert next(stream).time_ms == first.time_ms + 700
    stream.close()  # type: ignore[attr-defined]
    with pytest.raises(ArgumentError, match="interval_s"):
        live.watch(0.01)


def test_the_live_object_shows_its_version(live: Laneshift) -> None:
    assert live.version == laneshift.__version__
    assert laneshift.__version__ in repr(live)
