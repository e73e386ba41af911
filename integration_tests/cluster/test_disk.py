"""The checkpoint's disk is full for a while."""

from __future__ import annotations

import pytest
from cluster.cluster import MOTION, SMALL_DISK, Cluster
from cluster.compare import Answers, Same
from cluster.orders import Orders

pytestmark = pytest.mark.timeout(1500)


def test_disk_full(cluster: Cluster, expected: Answers, same: Same) -> None:
    orders = Orders(cluster, "disk_full", checkpoints=f"{SMALL_DISK}/checkpoints")
    ballast = f"{SMALL_DISK}/ballast"
    for _ in range(2):
        driver = orders.start(MOTION)
        orders.until_batches(3)
        fill = f"dd if=/dev/zero of={ballast} bs=4k 2>&1 | grep 'No space left'"
        cluster.engine.inside("master", "sh", "-c", fill)
        assert driver.finish() != 0
        assert "No space left on device" in driver.log()
        cluster.engine.inside("master", "rm", ballast)
    orders.start(MOTION).succeed()
    same(orders.answers(), expected, orders.lives)
