"""Messages as dataclasses: nothing is lost, nothing is slow, what is not known is an error."""

from __future__ import annotations

import dataclasses
from enum import StrEnum
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest

import laneshift
from laneshift import SessionError
from laneshift.autoscale.decisions import Decision, LaneChange, SourceLimit
from laneshift.contract.ids import PartitionId, QueryId
from laneshift.contract.plan import PartitionsChange, TasksChange
from laneshift.errors import error
from laneshift.plugin import handoff, partition, press, rescale, snapshot, standing
from laneshift.plugin.gateway import Applied
from laneshift.plugin.v1 import control_pb2 as pb
from laneshift.plugin.wire import failed, failure, filled, parsed
from plugin.fake import HANDOFF, FakeGateway, handoff_of, message, snapshot_of, wide, words

KINDS: dict[type[Any], Any] = {
    snapshot.Snapshot: pb.SnapshotReply,
    snapshot.ExecutorSnapshot: pb.Executor,
    snapshot.QuerySnapshot: pb.Query,
    snapshot.Trigger: pb.Trigger,
    snapshot.BatchSnapshot: pb.Batch,
    snapshot.SourceSnapshot: pb.Source,
    snapshot.StoresSnapshot: pb.Stores,
    snapshot.SourceCount: pb.SourceCount,
    snapshot.OperatorSnapshot: pb.Operator,
    partition.PartitionSnapshot: pb.Partition,
    partition.PartitionBatch: pb.LastBatch,
    partition.RemoteLane: pb.RemoteLane,
    partition.HotKey: pb.HotKey,
    partition.Pauses: pb.Pauses,
    partition.Latency: pb.Ages,
    rescale.RescaleProgress: pb.RescaleReply,
    rescale.OfflineRescale: pb.OfflineRescaleReply,
    handoff.Handoff: pb.Handoff,
    press.Press: pb.Press,
    standing.Standing: pb.DemandExecutorsReply,
    LaneChange: pb.LaneChange,
    SourceLimit: pb.SourceLimit,
    PartitionsChange: pb.PartitionsChange,
    TasksChange: pb.TasksChange,
}
ENUMS: dict[type[StrEnum], Any] = {
    snapshot.Mode: pb.Query.Mode,
    snapshot.TriggerKind: pb.Trigger.Kind,
    snapshot.HandoffMode: pb.Operator.HandoffMode,
    snapshot.RowWork: pb.Operator.RowWork,
    partition.LoadMetric: pb.Partition.LoadMetric,
    rescale.RescaleState: pb.RescaleReply.State,
    Applied: pb.Applied,
}
OF_ONE_SIDE = {
    (snapshot.Snapshot, "set_back_ms"),  # Python's own
    (snapshot.Snapshot, "same"),
    (snapshot.Snapshot, "number"),
    (snapshot.QuerySnapshot, "tenant"),
}


def plain(value: Any) -> Any:
    """A dataclass as :func:`words` has it of its message."""
    if dataclasses.is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, StrEnum):
        return value.name
    if isinstance(value, np.ndarray):
        return value.tolist()
    return list(map(plain, value)) if isinstance(value, tuple) else value


def without(said: Any, *names: str) -> Any:
    if isinstance(said, list):
        return [without(each, *names) for each in said]
    if isinstance(said, dict):
        return {k: without(v, *names) for k, v in said.items() if k not in names}
    return said


@pytest.mark.parametrize("data", [FakeGateway().data, wide()], ids=["small", "wide"])
def test_a_snapshot_is_what_was_said(data: dict[str, Any]) -> None:
    said = message(pb.SnapshotReply(), data)
    one_side = ("set_back_ms", "same", "number", "tenant")
    again = pb.SnapshotReply.FromString(said.SerializeToString())
    assert without(plain(filled(snapshot.Snapshot, again)), *one_side) == without(
        words(said), *one_side
    )


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_field_of_a_message_is_read(kind: type[Any]) -> None:
    of_message = {field.name for field in KINDS[kind].DESCRIPTOR.fields}
    of_kind = {field.name for field in dataclasses.fields(kind)}
    assert {(kind, name) for name in of_message ^ of_kind} <= OF_ONE_SIDE


@pytest.mark.parametrize("kind", [k for k in KINDS if not hasattr(k, "__post_init__")])
def test_what_is_left_out_is_none(kind: type[Any]) -> None:
    hints, nothing = get_type_hints(kind), filled(kind, KINDS[kind]())
    for field in KINDS[kind].DESCRIPTOR.fields:
        if field.has_presence and type(None) in get_args(hints.get(field.name)):
            assert getattr(nothing, field.name) is None


@pytest.mark.parametrize("kind", ENUMS, ids=lambda kind: kind.__name__)
def test_an_enum_has_the_protocols_values(kind: type[StrEnum]) -> None:
    names = list(ENUMS[kind].DESCRIPTOR.values_by_name)
    assert [member.name for member in kind] == names
    assert [member.value for member in kind] == [n.lower().replace("_", "-") for n in names]


def test_handoffs_and_decisions_come_back_as_they_were() -> None:
    found = handoff_of(HANDOFF)
    assert plain(found) == HANDOFF | {"source_executor": None}
    made = Decision(
        7.0, "1", "faa", (LaneChange(PartitionId("q:0.1"), 1, 2, "busy"),),
        (SourceLimit("q", 0.1, 2, "late"),), 3, True, ("so",), None,
        (PartitionsChange(QueryId("q"), 200, 8, "commits"),),
        (TasksChange(QueryId("q"), 200, 8, 200, "few rows"),),
    )  # fmt: skip
    assert (
        Decision.of_message(pb.Decision.FromString(made.to_message(7).SerializeToString())) == made
    )
    assert Decision.from_json(made.to_json()) == made
    assert made.to_message(7).number == 7


def test_numbers_that_json_does_not_have() -> None:
    data = FakeGateway().data
    part = data["queries"][0]["operators"][0]["partitions"][0]
    part["busy_s"] = float("inf")
    part["shard_load"][0] = float("nan")
    found = snapshot_of(data).queries[0].operators[0].partitions[0]
    assert found.busy_s == float("inf") and np.isnan(found.shard_load[0])


def test_a_value_of_a_later_version_is_an_error() -> None:
    said = message(pb.SnapshotReply(), FakeGateway().data)
    said.queries[0].mode = 99  # type: ignore[assignment]
    again = pb.SnapshotReply.FromString(said.SerializeToString())
    with pytest.raises(SessionError, match=r"99.*reinstall the wheel") as caught:
        filled(snapshot.Snapshot, again)
    assert caught.value.condition == "LANESHIFT_BAD_REPLY"


@pytest.mark.parametrize("data", [b"<html>", b"\xff", None, "text"])
def test_bytes_that_are_no_message_are_an_error(data: Any) -> None:
    with pytest.raises(SessionError) as caught:
        parsed("Snapshot", pb.SnapshotReply, data)
    assert caught.value.condition == "LANESHIFT_BAD_REPLY"


def test_an_error_comes_back_as_it_was() -> None:
    made = error("LANESHIFT_NO_SUCH_QUERY", value="'x'", range="none")
    again = failed(pb.Failure.FromString(failure(made).SerializeToString()))
    assert (type(again), str(again)) == (type(made), str(made))
    assert (again.parameters, again.sqlstate) == (made.parameters, made.sqlstate)


def test_200_partitions_are_small() -> None:
    packed = message(pb.SnapshotReply(), wide()).SerializeToString()
    assert 100_000 < len(packed) <= 200_000


def test_the_generated_code_is_of_the_proto_file(tmp_path: Path) -> None:
    from importlib import resources

    from grpc_tools import protoc as tools

    made = tmp_path / "control.bin"
    root = Path(laneshift.__file__).parents[1]
    include = resources.files("grpc_tools") / "_proto"
    wanted = ("protoc", f"-I{root}", f"-I{include}", f"--descriptor_set_out={made}")
    assert tools.main([*wanted, str(root / "laneshift/plugin/v1/control.proto")]) == 0
    from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

    (file,) = FileDescriptorSet.FromString(made.read_bytes()).file
    committed = FileDescriptorProto()
    pb.DESCRIPTOR.CopyToProto(committed)
    # Only a compiler that writes files spells out the fields' names in JSON.
    said = [line for line in str(file).splitlines() if "json_name" not in line]
    assert str(committed).splitlines() == said, "run: make proto"
