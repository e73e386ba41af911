"""The plugin's JSON as messages and back: nothing is lost, nothing is slow."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from laneshift.autoscale.decisions import Decision, LaneChange, Note, SourceLimit
from laneshift.contract.ids import PartitionId, QueryId
from laneshift.contract.plan import PartitionsChange
from laneshift.control.codec import snapshot_json, to_json, to_message
from laneshift.control.v1 import control_pb2 as pb
from plugin.fake import HANDOFF, RUNNING, FakeGateway, partition, query


def without_nothing(value: Any) -> Any:
    """Without the keys that have None: JSON may leave them out."""
    if isinstance(value, dict):
        return {k: without_nothing(v) for k, v in value.items() if v is not None}
    return [without_nothing(v) for v in value] if isinstance(value, list) else value


def wide() -> dict[str, Any]:
    """200 partitions of 64 shards, with numbers that take their full length."""
    data = FakeGateway().data
    parts = []
    for number in range(200):
        part = partition(number, shards=64, lanes=6)
        part["shard_load"] = [1000 / 3 + shard / 7 for shard in range(64)]
        for name in ("lane_rows", "queue_rows", "queue_bytes"):
            part[name] = [10**8 + lane for lane in range(6)]
        part["lane_busy"] = [1 / 3] * 6
        parts.append(part)
    data["queries"] = [query(RUNNING, "running", active=True)]
    data["queries"][0]["operators"][0]["partitions"] = parts
    return data


@pytest.mark.parametrize("data", [FakeGateway().data, wide()], ids=["small", "wide"])
def test_a_snapshot_comes_back_as_it_was(data: dict[str, Any]) -> None:
    again = pb.SnapshotReply.FromString(to_message(pb.SnapshotReply(), data).SerializeToString())
    assert without_nothing(snapshot_json(again)) == without_nothing(data)


def test_handoffs_and_decisions_come_back_as_they_were() -> None:
    assert to_json(to_message(pb.Handoff(), HANDOFF)) == HANDOFF
    made = Decision(
        7.0, "1", "faa", (LaneChange(PartitionId("q:0.1"), 1, 2, "busy"),),
        (SourceLimit("q", 0.1, 2, "late"),), 3, True, (Note("so"),), None,
        (PartitionsChange(QueryId("q"), 200, 8, "commits"),),
    )  # fmt: skip
    assert Decision.from_json(to_json(to_message(pb.Decision(), made.to_json()))) == made


def test_what_json_cannot_say_and_what_the_protocol_does_not_know() -> None:
    data = copy.deepcopy(FakeGateway().data) | {"news": 1}
    part = data["queries"][0]["operators"][0]["partitions"][0]
    part["busy_s"] = "Infinity"
    part["shard_load"][0] = "NaN"
    read = to_json(to_message(pb.SnapshotReply(), data))
    assert "news" not in read
    parts = read["queries"][0]["operators"][0]["partitions"]
    assert [p["partition"] for p in parts] == [0, 1]
    part = parts[0]
    assert part["busy_s"] == float("inf") and part["shard_load"][0] != part["shard_load"][0]


@pytest.mark.parametrize(
    "wrong", [{"time_ms": "x"}, {"queries": 3}, {"executors": [{"cores": ""}]}]
)
def test_another_kind_of_value_is_an_error(wrong: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        to_message(pb.SnapshotReply(), FakeGateway().data | wrong)


def test_200_partitions_are_small() -> None:
    packed = to_message(pb.SnapshotReply(), wide()).SerializeToString()
    assert 100_000 < len(packed) <= 200_000


def test_the_generated_code_is_of_the_proto_file(tmp_path: Path) -> None:
    from importlib import resources

    from grpc_tools import protoc as tools

    import laneshift

    made = tmp_path / "control.bin"
    root = Path(laneshift.__file__).parents[1]
    include = resources.files("grpc_tools") / "_proto"
    wanted = ("protoc", f"-I{root}", f"-I{include}", f"--descriptor_set_out={made}")
    assert tools.main([*wanted, str(root / "laneshift/control/v1/control.proto")]) == 0
    from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

    (file,) = FileDescriptorSet.FromString(made.read_bytes()).file
    committed = FileDescriptorProto()
    pb.DESCRIPTOR.CopyToProto(committed)
    # Only a compiler that writes files spells out the fields' names in JSON.
    said = [line for line in str(file).splitlines() if "json_name" not in line]
    assert str(committed).splitlines() == said, "run: make proto"
