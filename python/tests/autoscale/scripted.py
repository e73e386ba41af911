"""An autoscaler whose policy says what a test wants, and a gateway whose time goes on."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from laneshift.autoscale.loop import AutoscaleLoop
from laneshift.autoscale.options import AutoscaleOptions
from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.plan import CoreChange, Plan
from laneshift.contract.policy import Policy
from plugin.fake import FakeGateway


@dataclass(frozen=True, kw_only=True)
class Scripted(Policy[int]):
    """Says what the test wants; its state counts the turns."""

    name: ClassVar[str] = "scripted"
    summary: ClassVar[str] = "for tests"
    source: ClassVar[str] = "ours"
    say: Callable[[ClusterLoad, int], Plan]

    def start(self) -> int:
        return 0

    def decide(self, cluster: ClusterLoad, state: int) -> tuple[Plan, int]:
        return self.say(cluster, state), state + 1


def keeping(seen: list[ClusterLoad]) -> Callable[[ClusterLoad, int], Plan]:
    """Changes nothing, and adds what is shown to ``seen``."""

    def say(cluster: ClusterLoad, _: int) -> Plan:
        seen.append(cluster)
        return Plan()

    return say


def lanes(**wanted: int) -> Callable[[ClusterLoad, int], Plan]:
    """A plan for ``running:0.N``: pN=lanes."""

    def say(cluster: ClusterLoad, _: int) -> Plan:
        changes = []
        for name, after in wanted.items():
            part = cluster.partitions[int(name[1:])]
            if part.cores != after:
                changes.append(CoreChange(part.partition, part.cores, after))
        return Plan(core_changes=tuple(changes))

    return say


class Moving(FakeGateway):
    """Time and counts go on with every look: so many rows come to each of two partitions."""

    rows = 500
    passed = 1.0

    def on_snapshot(self) -> dict[str, Any]:
        self.data["time_ms"] += 1000
        for query in self.data["queries"]:
            if query["given"]:
                query["given"]["rows"] += round(2 * self.rows / self.passed)
            for part in query["operators"][0]["partitions"]:
                for name in ("rows_in", "rows_taken"):
                    part[name] += self.rows
                part["busy_s"] += 0.5
        return super().on_snapshot()


class Chain(Moving):
    """Operator 1 feeds operator 0; load and queues rise, then fall."""

    def __init__(self) -> None:
        super().__init__()
        self.data["executors"][0]["cores"] = 16
        (down,) = self.data["queries"][0]["operators"]
        self.data["queries"][0]["operators"] = [
            down | {"upstream": [1]},
            copy.deepcopy(down) | {"operator_id": 1},
        ]
        self.looks = 0

    def on_snapshot(self) -> dict[str, Any]:
        self.looks += 1
        rising = self.looks <= 6
        self.data["time_ms"] += 1000
        self.data["queries"][0]["given"]["rows"] += 6000 if rising else 100
        for operator in self.data["queries"][0]["operators"]:
            for part in operator["partitions"]:
                rows = 3000 if rising else 50
                part["rows_in"] += rows
                part["rows_taken"] += min(rows, 1000)
                part["busy_s"] += 1.9 if rising else 0.1
                part["blocked_s"] += 0.5 if rising else 0.0
                part["queue_rows"] = [5000 if rising else 0] * part["lanes"]
                part["queue_bytes"] = [500_000 if rising else 0] * part["lanes"]
        return FakeGateway.on_snapshot(self)

    def on_set_lanes(
        self, query: str, operator: int, partition: int | None, lanes: int, elsewhere: Any = None
    ) -> Any:
        parts = self.data["queries"][0]["operators"][operator]["partitions"]
        for part in parts if partition is None else [parts[partition]]:
            part["lanes"] = lanes
            part["lane_of_shard"] = [shard % lanes for shard in range(len(part["lane_of_shard"]))]
            for name, value in (("lane_rows", 0), ("lane_busy", 0.5)):
                part[name] = [value] * lanes
        return super().on_set_lanes(query, operator, partition, lanes)


def loop(
    gateway: FakeGateway, say: Callable[[ClusterLoad, int], Plan], **more: Any
) -> AutoscaleLoop:
    made = AutoscaleLoop(gateway, Scripted(say=say), AutoscaleOptions(**more))
    assert made.turn() == ()  # nothing was measured yet
    return made


def until(condition: Callable[[], Any]) -> None:
    """Wait for something; only the test's limit ends that."""
    while not condition():
        time.sleep(0.005)
