"""Minutes of random arrivals at a constant rate: no policy changes lanes again and again."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from laneshift.autoscale.measure import Meter
from laneshift.policies.registry import names
from laneshift.policies.registry import policy as named
from plugin.fake import FakeGateway, partition, set_lanes, snapshot_of

CORES, PARTITIONS, RATE, COST_S = 16, 4, 118.75, 0.02
SETTLED = 60


class Lanes:
    """One partition: its rows arrive at random, each on a random lane, and wait there."""

    def __init__(self, data: dict[str, Any], rng: np.random.Generator) -> None:
        self.data, self.rng = data, rng
        self.resize(CORES // PARTITIONS)

    def resize(self, lanes: int) -> None:
        self.work = np.zeros(lanes)  # what is left to do on each lane (s); moving takes it away
        set_lanes(self.data, lanes)

    def second(self) -> None:
        rows = int(self.rng.poisson(RATE))
        lane = self.rng.integers(self.work.size, size=rows)
        at = np.zeros(self.work.size)
        busy = 0.0
        for i, when in zip(lane, np.sort(self.rng.random(rows)), strict=True):
            done = min(self.work[i], when - at[i])
            busy, self.work[i], at[i] = busy + done, self.work[i] - done + COST_S, when
        done_at_last = np.minimum(self.work, 1.0 - at)
        self.work -= done_at_last
        queue = np.floor(self.work / COST_S)
        self.data["queue_rows"] = queue.astype(int).tolist()
        self.data["queue_bytes"] = (48 * queue).astype(int).tolist()
        self.data["rows_in"] += rows
        self.data["rows_taken"] += rows
        self.data["rows_out"] += rows
        self.data["busy_s"] += busy + float(done_at_last.sum())


@pytest.mark.parametrize(
    ("windows", "seed"),
    [
        (2 * SETTLED, 0),
        *(pytest.param(600, seed, marks=pytest.mark.deep("policies")) for seed in range(2)),
    ],
)
@pytest.mark.parametrize("name", names())
def test_lanes_stay_as_they_are(name: str, windows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    data: dict[str, Any] = FakeGateway().data
    data["executors"][0].update(cores=CORES, active_tasks=PARTITIONS)
    parts = [partition(n, shards=64) for n in range(PARTITIONS)]
    data["queries"] = data["queries"][:1]
    data["queries"][0]["operators"] = data["queries"][0]["operators"][:1]
    data["queries"][0]["operators"][0]["partitions"] = parts
    running = [Lanes(part, rng) for part in parts]
    meter, policy = Meter(), named(name)
    state, late = policy.start(), 0
    for window in range(windows):
        (island,) = meter.measure(snapshot_of(copy.deepcopy(data)))
        if island.cluster is not None:
            plan, state = policy.answer(island.cluster, state)
            for change in plan.core_changes:
                seen = island.partitions[change.partition]
                running[seen.part.partition].resize(change.after)
                late += window >= SETTLED
        data["time_ms"] += 1000
        for one in running:
            one.second()
    assert late <= 1
