"""Workers that die and workers that come, under a query whose shards move."""

from __future__ import annotations

import pytest
from cluster.cluster import MOTION, Cluster, until
from cluster.compare import Answers, Same
from cluster.orders import Orders

pytestmark = pytest.mark.timeout(1500)


@pytest.mark.fast
def test_worker_killed(cluster: Cluster, orders: Orders, expected: Answers, same: Same) -> None:
    """Each of the first workers dies, the second one when another has come in its place."""
    driver = orders.start(MOTION)
    for worker in list(cluster.workers):
        orders.until_batches(2)
        cluster.kill_worker(worker)
        cluster.add_worker()
    orders.until_batches(1)
    driver.succeed()
    assert driver.log().count("Lost executor") >= 2
    same(orders.answers(), expected, orders.lives)


def test_worker_added(cluster: Cluster, orders: Orders, expected: Answers, same: Same) -> None:
    while len(cluster.workers) > 1:
        cluster.kill_worker(cluster.workers[-1])
    until("one worker left", lambda: cluster.alive() == 1)
    # Spark keeps tasks where their state is as long as it waits for room there.
    driver = orders.start({**MOTION, "spark.locality.wait": "0s"})
    orders.until_batches(2)
    first = set(driver.hosts)
    address = cluster.engine.address(cluster.add_worker())
    assert first and address not in first
    driver.until("partitions on the new worker", lambda: address in driver.hosts)
    orders.until_batches(1)
    driver.succeed()
    same(orders.answers(), expected, orders.lives)
