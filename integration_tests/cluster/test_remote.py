"""Lanes on other executors: their host dies, the network to it is cut or slow, one comes late."""

from __future__ import annotations

import pytest
from cluster.cluster import MOTION, Cluster, until
from cluster.compare import Answers, Same
from cluster.orders import Orders

pytestmark = pytest.mark.timeout(1500)

PORT = "7200"
AWAY = {
    **MOTION,
    "spark.sql.laneshift.lanes": "1",
    "spark.sql.laneshift.motion": "never",
    "spark.sql.laneshift.remote.port": PORT,
    # The input waits for the lanes, so that they are there while it goes on.
    "spark.sql.laneshift.queueBytes": "8k",
    "spark.task.maxFailures": "10",
}


def begin(orders: Orders) -> None:
    """Start it, and wait until lanes elsewhere work."""
    driver = orders.start(AWAY, "away.py")
    driver.until("rows elsewhere", lambda: driver.rows_elsewhere > 100)
    orders.until_batches(1)


@pytest.mark.fast
def test_host_killed(cluster: Cluster, orders: Orders, expected: Answers, same: Same) -> None:
    """A worker dies that is home of some partitions and has lanes of others."""
    begin(orders)
    (driver,) = orders.lives
    driver.until("lanes elsewhere", lambda: driver.lanes_elsewhere > 0)
    cluster.kill_worker(cluster.workers[0])
    cluster.add_worker()
    orders.until_batches(2)
    driver.succeed()
    assert "Lost executor" in driver.log()
    same(orders.answers(), expected, orders.lives)


def test_way_to_host_cut(cluster: Cluster, orders: Orders, expected: Answers, same: Same) -> None:
    """Between two executors the lanes' connections, and only these, come to nothing for a while."""
    begin(orders)
    (driver,) = orders.lives
    for worker in cluster.workers:
        for chain in ("INPUT", "OUTPUT"):
            for end in ("--dport", "--sport"):
                command = ("iptables", "--append", chain, "--protocol", "tcp", end, PORT)
                cluster.engine.inside(worker, *command, "--jump", "DROP")
    driver.until("lanes are given up", lambda: driver.lanes_elsewhere == 0)
    orders.until_batches(1)
    for worker in cluster.workers:
        cluster.engine.inside(worker, "iptables", "--flush")
    driver.succeed()
    same(orders.answers(), expected, orders.lives)


def test_way_to_host_slow(cluster: Cluster, orders: Orders, expected: Answers, same: Same) -> None:
    """All that a worker sends goes out at two megabits per second."""
    begin(orders)
    (driver,) = orders.lives
    device = cluster.engine.inside(cluster.workers[0], "sh", "-c", "ls /sys/class/net | grep eth")
    limit = ("rate", "2mbit", "burst", "32kbit", "latency", "400ms")
    for name in device.split():
        cluster.engine.inside(
            cluster.workers[0], *("tc", "qdisc", "add", "dev", name, "root", "tbf", *limit)
        )
    before = driver.rows_elsewhere
    driver.until("rows elsewhere", lambda: driver.rows_elsewhere > before)
    driver.succeed()
    same(orders.answers(), expected, orders.lives)


def test_host_added(cluster: Cluster, orders: Orders, expected: Answers, same: Same) -> None:
    """Partitions that have one executor have lanes on another once it is there."""
    while len(cluster.workers) > 1:
        cluster.kill_worker(cluster.workers[-1])
    until("one worker left", lambda: cluster.alive() == 1)
    driver = orders.start(AWAY, "away.py")
    driver.until("a batch", lambda: cluster.committed(f"{orders.checkpoints}/amounts") > 0)
    assert driver.rows_elsewhere == 0
    cluster.add_worker()
    driver.until("rows elsewhere", lambda: driver.rows_elsewhere > 100)
    driver.succeed()
    same(orders.answers(), expected, orders.lives)
