"""A gateway without a JVM: one running query, a stopped one, a record of what was sent."""

from __future__ import annotations

import copy
import json
import threading
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import laneshift
from laneshift.errors import LaneshiftError, error
from laneshift.plugin.gateway import LanesWish

RUNNING = "11111111-1111-4111-8111-111111111111"
STOPPED = "22222222-2222-4222-8222-222222222222"


def partition(number: int, *, shards: int = 8, lanes: int = 2) -> dict[str, Any]:
    return {
        "partition": number,
        "executor": "driver",
        "host": "localhost",
        "batch_id": 7,
        "running": True,
        "shards": shards,
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
    part["lane_of_shard"] = [shard % lanes for shard in range(part["shards"])]
    part["lane_busy"] = [0.5] * lanes
    part["queue_rows"] = part["queue_bytes"] = [0] * lanes


def rescaling(state: str, **more: Any) -> dict[str, Any]:
    return {
        "from": 4,
        "to": 16,
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
    "from": 0,
    "from_executor": "",
    "to": 8,
    "to_executor": "2",
    "reason": "user",
    "batch_id": 7,
    "drain_us": 700.5,
    "flush_us": 80,
    "switch_us": 9.5,
    "pause_us": 89.5,
    "moved_rows": 12,
}


class FakeGateway:
    """Answers like the plugin: its snapshot has running queries only, its history others too.

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
        # The policy of another scheduler, and who drives when it was asked once.
        self.driven_by: str | None = None
        self.renewed_by: str | None = None
        # What the next wait for pressed partitions gives, and who wakes it.
        self.presses: list[dict[str, Any]] = []
        self.pressed = threading.Event()
        self.heard = 0
        self._packed: tuple[bytes, list[dict[str, Any]]] = (b"", [])
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

    def snapshot(self) -> dict[str, Any]:
        return copy.deepcopy(self.data)

    def packed_snapshot(self, known: int) -> dict[str, Any]:
        """What :meth:`snapshot` says, as the plugin packs it for the control service."""
        from laneshift.control.codec import to_message
        from laneshift.control.v1 import control_pb2 as pb

        said = self.snapshot()
        head = to_message(
            pb.SnapshotReply(), {k: v for k, v in said.items() if k not in ("time_ms", "queries")}
        ).SerializeToString()
        queries, packed = [], head
        for one in said["queries"]:
            field = to_message(pb.SnapshotReply(), {"queries": [one]}).SerializeToString()
            named = {name: one.get(name) for name in ("id", "run_id", "name", "tenant")}
            queries.append(named | {"bytes": len(field)})
            packed += field
        if (packed, queries) != self._packed:
            self._packed = packed, queries
            self._number += 1
        new = self._number != known
        return {
            "time_ms": said["time_ms"],
            "number": self._number,
            "head": len(head),
            "queries": queries if new else [],
            "content": b64encode(packed).decode() if new else None,
        }

    def set_lanes(
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

    def set_many_lanes(self, wishes: Sequence[LanesWish]) -> list[dict[str, Any] | LaneshiftError]:
        """One by one by :meth:`set_lanes`, which tests replace."""
        found: list[dict[str, Any] | LaneshiftError] = []
        for wish in wishes:
            there = () if wish.elsewhere is None else (wish.elsewhere,)
            try:
                found.append(
                    self.set_lanes(wish.query, wish.operator, wish.partition, wish.lanes, *there)
                )
            except LaneshiftError as problem:
                found.append(problem)
        return found

    def set_tasks(self, query: str, operator: int, tasks: str) -> dict[str, Any]:
        self.sent.append(("set_tasks", query, operator, tasks))
        return {"tasks": tasks, "applied": "next-batch"}

    def rescale(self, query: str, partitions: int) -> dict[str, Any]:
        self.sent.append(("rescale", query, partitions))
        return self.rescaling(query)

    def rescaling(self, query: str) -> dict[str, Any]:
        return rescaling("building")

    def cancel_rescale(self, query: str) -> dict[str, Any]:
        self.sent.append(("cancel_rescale", query))
        return rescaling("cancelled")

    def move_shard(
        self, query: str, operator: int, partition: int, shard: int, lane: int
    ) -> dict[str, Any]:
        self.sent.append(("move_shard", query, operator, partition, shard, lane))
        return {"shard": shard, "from": 0, "to": lane, "applied": "next-batch"}

    def limit_source(self, query: str, rate: float, seconds: float) -> dict[str, Any]:
        self.sent.append(("limit_source", query, rate, seconds))
        return {"applied": "now"}

    def handoffs(self, query: str, limit: int) -> list[dict[str, Any]]:
        self.asked.append((query, limit))
        if query not in ("", RUNNING, "running", STOPPED, "stopped"):
            there = f"'running' ({RUNNING})" if self.data["queries"] else "none"
            raise error("LANESHIFT_NO_SUCH_QUERY", value=repr(query), range=there)
        return [HANDOFF]

    def claim(self, scheduler: str, policy: str, run: str, seconds: float) -> None:
        if self.driven_by is not None:
            held, self.driven_by = self.driven_by, self.renewed_by
            raise error("LANESHIFT_OTHER_SCHEDULER", policy=held, range="all queries", seconds=0.1)
        self.claims.append((policy, run))

    def release(self, scheduler: str) -> None:
        self.released += 1

    def demand_executors(
        self, scheduler: str, most: int, total: int, give_back: Sequence[str]
    ) -> dict[str, Any]:
        self.demanded.append((most, total, tuple(give_back)))
        return self.standing | ({"most": most} if most else {})

    def await_pressed(self, scheduler: str, run: str, after: int, seconds: float) -> dict[str, Any]:
        if seconds == 0:
            self.pressed.set()
            return {"seq": self.heard, "presses": []}
        self.pressed.wait(seconds)
        self.pressed.clear()
        presses, self.presses = self.presses, []
        self.heard += len(presses)
        return {"seq": self.heard, "presses": presses}

    def claim_keys(self, query: str, operator: int, apart: str, seconds: float) -> dict[str, Any]:
        self.sent.append(("claim_keys", query, operator, apart, seconds))
        return {"above": "none", "applied": "next-batch"}

    def decided(self, decision: dict[str, Any]) -> None:
        self.told.append(json.loads(json.dumps(decision)))


class FakeQuery:
    """What a StreamingQuery has that the facade reads."""

    def __init__(self, id: str, *, active: bool) -> None:
        self.id = id
        self.runId = id[::-1]
        self.isActive = active
        self.name = None
