"""A driver that dies and is submitted again on the same checkpoint."""

from __future__ import annotations

import pytest
from cluster.cluster import MOTION
from cluster.compare import Answers, Same
from cluster.orders import Orders

pytestmark = pytest.mark.timeout(1500)


def test_driver_killed(orders: Orders, expected: Answers, same: Same) -> None:
    for seed in range(3):
        driver = orders.start({**MOTION, "spark.sql.laneshift.motion.seed": str(seed)})
        orders.until_batches(3)
        driver.kill()
    orders.start(MOTION).succeed()
    same(orders.answers(), expected, orders.lives)
