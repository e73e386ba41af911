"""A gateway without a JVM: one running query, a stopped one, a record of what was sent."""

from __future__ import annotations

import pickle
import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf.message import Message

import laneshift
from laneshift.errors import LaneshiftError, error
from laneshift.plugin.gateway import Gateway
from laneshift.plugin.handoff import Handoff
from laneshift.plugin.press import Press
from laneshift.plugin.snapshot import Snapshot
from laneshift.plugin.v1 import control_pb2 as pb
from laneshift.plugin.wire import M, failure, filled

RUNNING = "11111111-1111-4111-8111-111111111111"
STOPPED = "22222222-2222-4222-8222-222222222222"


def partition(number: int, *, shards: int = 8, lanes: int = 2) -> dict[str, Any]:
    return {
        "partition": number,
        "executor": "driver",
        "host": "localhost",
        "batch_id": 7,
        "running": True,
        "lanes": lanes,
        "max_lanes": 6,
        "lane_of_shard": [shard % lanes for shard in range(shards)],
        "shard_load": [float(shard) for shard in range(shards)],
        "load_metric": "rows",
        "rows_in_per_s": 100.0,
        "rows_out_per_s": 50,
        "bytes_in_per_s": 4800.0,
        "bytes_out_per_s": 1600.0,
        "rows_in": 1000,
        "rows_out": 500,
        "bytes_in": 48000,
        "bytes_out": 16000,
        "lane_rows": [600, 400][:lanes],
        "lane_busy": [0.5, 0.25][:lanes],
        "queue_rows": [3, 0][:lanes],
        "queue_bytes": [300, 0][:lanes],
        "queue_bytes_limit": 1 << 20,
        "rows_taken": 1000,
        "busy_s": 2.0,
        "rows_taken_elsewhere": 0,
        "busy_elsewhere_s": 0.0,
        "blocked_s": 0.0,
        "handoffs": 5,
        "handoffs_per_s": 0.5,
        "in_flight": 0,
        "max_elsewhere": 32,
        "wanted_elsewhere": [],
        "elsewhere": [],
        "hot_keys": [{"key": "0badcafe", "value": None, "share": 0.625}],
        "pause_us": {"p50": 800.0, "p99": 2000.0, "max": 2500, "count": 5},
        "state_rows": 300,
        "state_memory_bytes": 70_000,
        "state_file_bytes": 20_000,
        "latency_ms": {"mean": 4.5, "p50": 4, "p99": 9, "max": 12, "count": 450},
    }


def executor(name: str, cores: int, active_tasks: int, **more: Any) -> dict[str, Any]:
    return {
        "executor": name,
        "host": "localhost",
        "cores": cores,
        "active_tasks": active_tasks,
        "leaving": False,
        "asked": False,
        "home_lanes": 2,
        "host_lanes": 0,
        "idle_cores": 3,
        "remote_kept_bytes": 0,
        "remote_rows": 700,
        "remote_frames": 70,
        "remote_state_reads": 7,
        "remote_bytes_sent": 70_000,
        "remote_bytes_received": 7_000,
        "remote_lost_hosts": 0,
    } | more


def set_lanes(part: dict[str, Any], lanes: int) -> None:
    """``part`` with other lanes, whose queues are empty."""
    part["lanes"] = lanes
    part["lane_of_shard"] = [shard % lanes for shard in range(len(part["lane_of_shard"]))]
    part["lane_busy"] = [0.5] * lanes
    part["queue_rows"] = part["queue_bytes"] = [0] * lanes


def rescaling(state: str, **more: Any) -> dict[str, Any]:
    return {
        "before": 4,
        "after": 16,
        "state": state,
        "ended": state in ("done", "cancelled", "failed"),
        "failure": None,
        "stores_written": 8,
        "stores": 16,
        "lag_batches": 0,
        "batch_id": None,
        "pause_ms": 0.0,
    } | more


def query(id: str, name: str | None, *, active: bool) -> dict[str, Any]:
    return {
        "id": id,
        "run_id": id[::-1],
        "name": name,
        "mode": "real-time",
        "active": active,
        "given": {"rows": 2000, "batch_id": None},
        "rescale": rescaling("building", lag_batches=3),
        "batch": {
            "batch_id": 6,
            "duration_s": 5.25,
            "sources": [
                {"name": "KafkaV2[...]", "rows": 900, "rows_per_s": 171.4, "backlog_rows": 40},
                {"name": "RateStreamV2[...]", "rows": 9, "rows_per_s": 1.7, "backlog_rows": None},
            ],
            "state": [
                {
                    "name": "stateStoreSave",
                    "partitions": 2,
                    "stores": 2,
                    "commit_s": 0.125,
                    "written_bytes": 4096,
                }
            ],
        },
        "operators": [
            {
                "operator_id": 0,
                "name": "stateStoreSave",
                "handoff": "mid-batch",
                "upstream": [],
                "partitions": [partition(0), partition(1)],
                "tasks": 2,
                "partition_count": 2,
                "inputs": 1,
                "above": "none",
            }
        ],
    }


HANDOFF: dict[str, Any] = {
    "seq": 3,
    "time_ms": 1_700_000_000_000,
    "query_id": RUNNING,
    "operator_id": 0,
    "partition": 1,
    "shard": 5,
    "source": 0,
    "target": 8,
    "target_executor": "2",
    "reason": "user",
    "batch_id": 7,
    "drain_us": 700.5,
    "flush_us": 80,
    "switch_us": 9.5,
    "pause_us": 89.5,
    "moved_rows": 12,
}


WISHES = {"SetLanes": "set_lanes", "SetTasks": "set_tasks", "Move": "move_shard"}
"""Methods of many wishes, and what each is to :class:`FakeGateway`."""


def message(made: M, data: Mapping[str, Any]) -> M:
    """``made`` with the values of its fields' names; enums by their words, in any case."""
    for field in made.DESCRIPTOR.fields:
        value = data.get(field.name)
        if value is None:
            continue
        there: Any = getattr(made, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            # On tapes, and in words here, as a list.
            pairs = ((w["executor"], w["lanes"]) for w in value)
            there.update(pairs if isinstance(value, list) else value)
        elif field.message_type is not None and field.is_repeated:
            for item in value:
                message(there.add(), item)
        elif field.message_type is not None:
            there.SetInParent()
            message(there, value)
        elif field.is_repeated:
            there.extend(value)
        elif field.enum_type is not None:
            name = str(value).upper().replace("-", "_")
            setattr(made, field.name, field.enum_type.values_by_name[name].number)
        else:
            setattr(made, field.name, value)
    return made


def words(said: Message) -> dict[str, Any]:
    """What :func:`message` makes a message of; enums by their names in the protocol."""
    found: dict[str, Any] = {}
    for field in said.DESCRIPTOR.fields:
        value: Any = getattr(said, field.name)
        if field.has_presence and not said.HasField(field.name):
            found[field.name] = None
        elif field.message_type is not None and field.message_type.GetOptions().map_entry:
            found[field.name] = dict(value)
        elif field.message_type is not None:
            found[field.name] = [words(v) for v in value] if field.is_repeated else words(value)
        elif field.enum_type is not None:
            found[field.name] = field.enum_type.values_by_number[value].name
        else:
            found[field.name] = list(value) if field.is_repeated else value
    return found


def snapshot_of(data: Mapping[str, Any]) -> Snapshot:
    return filled(Snapshot, message(pb.SnapshotReply(), data))


def press_of(data: Mapping[str, Any]) -> Press:
    return filled(Press, message(pb.Press(), data))


def handoff_of(data: Mapping[str, Any]) -> Handoff:
    return filled(Handoff, message(pb.Handoff(), data))


def call_of(method: str, said: Any) -> tuple[str, tuple[Any, ...]]:
    """A request, or one of its wishes, as the ``on_`` method of that name takes it."""
    if method == "SetLanes":
        partition = said.partition if said.HasField("partition") else None
        there = (dict(said.elsewhere.lanes),) if said.HasField("elsewhere") else ()
        return "set_lanes", (said.query, said.operator, partition, said.lanes, *there)
    if method == "ClaimKeys":
        apart = str(said.apart).lower() if said.HasField("apart") else ""
        return "claim_keys", (said.query, said.operator, apart, said.seconds)
    if method == "Decided":
        return "decided", (words(said),)
    name = WISHES.get(method) or re.sub("(?<!^)([A-Z])", r"_\1", method).lower()
    values = (getattr(said, field.name) for field in said.DESCRIPTOR.fields)
    return name, tuple(values)


class FakeGateway(Gateway):
    """Answers like the plugin, what its ``on_`` methods say in words: its snapshot has running
    queries only, its history others too.

    ``sent`` has the commands that reached it, ``asked`` the look-ups in the history.
    """

    def __init__(self, version: str | None = None) -> None:
        self.sent: list[tuple[Any, ...]] = []
        self.asked: list[tuple[str, int]] = []
        self.told: list[dict[str, Any]] = []
        self.claims: list[tuple[str, str]] = []
        self.released = 0
        # What was wanted of executors on demand, and how they stand; 0: there are none.
        self.demanded: list[tuple[int, int, tuple[str, ...]]] = []
        self.standing: dict[str, Any] = {
            "most": 0,
            "rest_s": 60.0,
            "there": 1,
            "requested": 1,
            "at_start": 1,
            "asked": [],
            "why": None,
        }
        # The policy of another autoscaler, and who drives when it was asked once.
        self.driven_by: str | None = None
        self.renewed_by: str | None = None
        # What the next wait for pressed partitions gives, and who wakes it.
        self.presses: list[dict[str, Any]] = []
        self.pressed = threading.Event()
        self.heard = 0
        self._content: Any = None
        self._number = 0
        self._version = version or laneshift.__version__
        self.data: dict[str, Any] = {
            "time_ms": 1_700_000_000_000,
            "version": self._version,
            "executors": [
                executor("driver", cores=8, active_tasks=3),
            ],
            "silent": [],
            "queries": [
                query(RUNNING, "running", active=True),
            ],
        }

    def version(self) -> str:
        return self._version

    def ask(self, method: str, request: Any, reply: type[M]) -> M:
        """What the ``on_`` method of the call answers, as a message."""
        if method == "Snapshot":
            return self._snapshot(request.known, reply)
        if method in WISHES:
            return reply(outcomes=[self._outcome(*call_of(method, w)) for w in request.wishes])
        name, arguments = call_of(method, request)
        said = getattr(self, f"on_{name}")(*arguments)
        return message(reply(), {"handoffs": said} if method == "Handoffs" else said or {})

    def said(self, request: pb.SnapshotRequest) -> pb.SnapshotReply:
        """A snapshot as a message."""
        return self.ask("Snapshot", request, pb.SnapshotReply)

    def _outcome(self, name: str, arguments: tuple[Any, ...]) -> pb.Outcome:
        try:
            return message(pb.Outcome(), getattr(self, f"on_{name}")(*arguments))
        except LaneshiftError as problem:
            return pb.Outcome(failure=failure(problem))

    def _snapshot(self, known: int, reply: type[M]) -> M:
        """Numbered as the plugin does."""
        whole: Any = message(reply(), self.on_snapshot())
        count_ms = whole.count_ms if whole.HasField("count_ms") else None
        times = {"time_ms": whole.time_ms, "count_ms": count_ms}
        for name in times:
            whole.ClearField(name)
        if whole != self._content:
            self._content = whole
            self._number += 1
        made: M = reply(same=True) if self._number == known else reply()
        if self._number != known:
            made.CopyFrom(whole)
        return message(made, times | {"number": self._number})

    def on_snapshot(self) -> dict[str, Any]:
        # A copy; of that many partitions this way is the fastest.
        copied: dict[str, Any] = pickle.loads(pickle.dumps(self.data))
        return copied

    def on_set_lanes(
        self,
        query: str,
        operator: int,
        partition: int | None,
        lanes: int,
        elsewhere: Mapping[str, int] | None = None,
    ) -> dict[str, Any]:
        more = (dict(elsewhere),) if elsewhere else ()
        self.sent.append(("set_lanes", query, operator, partition, lanes, *more))
        return {"lanes": lanes, "applied": "now"}

    def on_set_tasks(self, query: str, operator: int, tasks: str) -> dict[str, Any]:
        self.sent.append(("set_tasks", query, operator, tasks))
        return {"tasks": tasks, "applied": "next-batch"}

    def on_rescale(self, query: str, partitions: int) -> dict[str, Any]:
        self.sent.append(("rescale", query, partitions))
        return self.on_rescaling(query)

    def on_rescaling(self, query: str) -> dict[str, Any]:
        return rescaling("building")

    def on_cancel_rescale(self, query: str) -> dict[str, Any]:
        self.sent.append(("cancel_rescale", query))
        return rescaling("cancelled")

    def on_move_shard(
        self, query: str, operator: int, partition: int, shard: int, lane: int
    ) -> dict[str, Any]:
        self.sent.append(("move_shard", query, operator, partition, shard, lane))
        return {"shard": shard, "from": 0, "to": lane, "applied": "next-batch"}

    def on_limit_source(self, query: str, rate: float, seconds: float) -> dict[str, Any]:
        self.sent.append(("limit_source", query, rate, seconds))
        return {"applied": "now"}

    def on_handoffs(self, query: str, limit: int) -> list[dict[str, Any]]:
        self.asked.append((query, limit))
        if query not in ("", RUNNING, "running", STOPPED, "stopped"):
            there = f"'running' ({RUNNING})" if self.data["queries"] else "none"
            raise error("LANESHIFT_NO_SUCH_QUERY", value=repr(query), range=there)
        return [HANDOFF]

    def on_claim(self, autoscaler: str, policy: str, run: str, seconds: float) -> None:
        if self.driven_by is not None:
            held, self.driven_by = self.driven_by, self.renewed_by
            raise error("LANESHIFT_OTHER_AUTOSCALER", policy=held, range="all queries", seconds=0.1)
        self.claims.append((policy, run))

    def on_release(self, autoscaler: str) -> None:
        self.released += 1

    def on_demand_executors(
        self, autoscaler: str, most: int, total: int, give_back: Sequence[str]
    ) -> dict[str, Any]:
        self.demanded.append((most, total, tuple(give_back)))
        return self.standing | ({"most": most} if most else {})

    def on_await_pressed(
        self, autoscaler: str, run: str, after: int, seconds: float
    ) -> dict[str, Any]:
        if seconds == 0:
            self.pressed.set()
            return {"seq": self.heard, "presses": []}
        self.pressed.wait(seconds)
        self.pressed.clear()
        presses, self.presses = self.presses, []
        self.heard += len(presses)
        return {"seq": self.heard, "presses": presses}

    def on_claim_keys(
        self, query: str, operator: int, apart: str, seconds: float
    ) -> dict[str, Any]:
        self.sent.append(("claim_keys", query, operator, apart, seconds))
        return {"above": "none", "applied": "next-batch"}

    def on_decided(self, decision: dict[str, Any]) -> None:
        self.told.append(decision)


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


class FakeQuery:
    """What a StreamingQuery has that the facade reads."""

    def __init__(self, id: str, *, active: bool) -> None:
        self.id = id
        self.runId = id[::-1]
        self.isActive = active
        self.name = None
