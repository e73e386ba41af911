"""A partition that waits for the lane of one key gets no lanes that cannot help, nor do others."""

from __future__ import annotations

from typing import Any

import pytest

from autoscale.scripted import Moving, keeping, loop
from laneshift.autoscale.loop import AutoscaleLoop
from laneshift.autoscale.measure import shard_of
from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.ids import KeyId
from laneshift.contract.partition_load import HotKey
from laneshift.policies import registry
from laneshift.policies.hot_keys import useful_cores, waits_for_a_key
from laneshift_lab.samples import partition as sample
from plugin.fake import FakeGateway, partition, set_lanes

PARTITIONS = 8


class OneKey(FakeGateway):
    """Nine tenths of what partition 0 does are of one key, whose lane is full; others are well.

    Without the ``key`` partition 0 is as the others are.
    """

    def __init__(self, *, key: bool) -> None:
        super().__init__()
        self.key = key
        self.data["executors"][0] |= {"cores": 64, "active_tasks": PARTITIONS}
        (operator,) = self.data["queries"][0]["operators"]
        operator |= {"partition_count": PARTITIONS, "tasks": PARTITIONS}
        operator["partitions"] = self.parts = [partition(n) for n in range(PARTITIONS)]
        for part in self.parts:
            part["hot_keys"] = []
            part["max_elsewhere"] = 0
            set_lanes(part, 1)

    def on_snapshot(self) -> dict[str, Any]:
        self.data["time_ms"] += 1000
        for part in self.parts:
            hot = self.key and part["partition"] == 0
            rows = 900
            if hot:
                rows = 1000 if part["lanes"] == 1 else 1110
                part["hot_keys"] = [{"key": "0badcafe", "value": None, "share": 0.9}]
                part["blocked_s"] += 0.8
                part["lane_busy"] = [0.11] * part["lanes"]
                shard = shard_of("0badcafe", PARTITIONS, len(part["lane_of_shard"]))
                part["lane_busy"][part["lane_of_shard"][shard]] = 1.0
            self.data["queries"][0]["given"]["rows"] += rows
            for name in ("rows_in", "rows_taken"):
                part[name] += rows
            part["busy_s"] += rows / 1000
        return super().on_snapshot()

    def on_set_lanes(
        self, query: str, operator: int, partition: int, lanes: int, elsewhere: Any = None
    ) -> Any:
        set_lanes(self.parts[partition], lanes)
        return super().on_set_lanes(query, operator, partition, lanes)


def lanes_after(policy: str, turns: int, *, key: bool) -> list[int]:
    gateway = OneKey(key=key)
    made = AutoscaleLoop(gateway, registry.policy(policy))
    for _ in range(turns):
        for decision in made.turn():
            assert decision.error is None
    return [part["lanes"] for part in gateway.parts]


@pytest.mark.parametrize("policy", ["laneshift", "elasticutor"])
def test_others_have_what_they_need_without_it(policy: str) -> None:
    alone, beside = lanes_after(policy, 60, key=False), lanes_after(policy, 60, key=True)
    assert beside[1:] == alone[1:]
    if policy == "laneshift":
        assert beside[0] == 2, "one for the key, one for all others"


def test_every_policy_sees_hot_keys() -> None:
    seen: list[ClusterLoad] = []
    loop(Moving(), keeping(seen)).turn()
    for part in seen[0].partitions:
        (hot,) = part.hot_keys
        assert (hot.key, hot.ways) == ("0badcafe", 1)
        # Five eighths of the work lately, and no more than its lane works now.
        assert hot.load_cores == 0.25 < 0.625 * part.offered_load


@pytest.mark.parametrize(
    ("cores", "share", "offered", "saturated", "waits", "useful"),
    [
        (2, 0.9, 1.05, True, True, 2),
        (6, 0.9, 1.05, True, True, 2),
        (1, 0.9, 1.05, True, False, 2**31),  # a second lane is for the others
        (2, 0.5, 1.9, True, False, 2**31),  # there may be more to do for the others
        (6, 0.3, 1.9, True, False, 2**31),
        (6, 0.9, 1.05, False, False, 2**31),
        (6, 0.9, 1.5, False, False, 2),  # more than a lane can do, whatever waits
    ],
)
def test_who_waits_for_a_key(
    cores: int, share: float, offered: float, saturated: bool, waits: bool, useful: int
) -> None:
    hot = HotKey(KeyId("k"), share * offered)
    part = sample("p", {"n": cores}, offered_rate=1000 * offered, saturated=saturated)
    values = {name: getattr(part, name) for name in part.__dataclass_fields__}
    part = type(part)(**{**values, "hot_keys": (hot,)})
    assert waits_for_a_key(part) is waits
    assert useful_cores(part) == useful
