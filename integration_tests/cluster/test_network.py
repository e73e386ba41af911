"""The network between the driver and its executors is cut, loses packets, is slow."""

from __future__ import annotations

import pytest
from cluster.cluster import MOTION, Cluster
from cluster.compare import Answers, Same
from cluster.orders import Orders

pytestmark = pytest.mark.timeout(1500)

DELAY_S = 0.05
PORTS = ("7078", "7079")


def test_network_cut(cluster: Cluster, orders: Orders, expected: Answers, same: Same) -> None:
    """One worker and the driver do not hear each other, until Spark has given that executor up."""
    driver = orders.start({**MOTION, "spark.network.timeout": "20s"})
    orders.until_batches(3)
    worker, peer = cluster.workers[0], cluster.engine.address(driver.name)
    cut = [("INPUT", "--source"), ("OUTPUT", "--destination")]
    for chain, end in cut:
        cluster.engine.inside(worker, "iptables", "--append", chain, end, peer, "--jump", "DROP")
    driver.until("a lost executor", lambda: "Lost executor" in driver.log())
    cluster.engine.inside(worker, "iptables", "--flush")
    driver.succeed()
    same(orders.answers(), expected, orders.lives)


def test_packets_lost(cluster: Cluster, orders: Orders, expected: Answers, same: Same) -> None:
    """Of all packets from and to the driver, a twentieth is lost."""
    driver = orders.start(MOTION)
    orders.until_batches(1)
    lossy = ["--match", "statistic", "--mode", "random", "--probability", "0.05", "--jump", "DROP"]
    for chain in ("INPUT", "OUTPUT"):
        cluster.engine.inside(driver.name, "iptables", "--append", chain, *lossy)
    orders.until_batches(5)
    counted = cluster.engine.inside(driver.name, "iptables", "--list", "--verbose", "--exact")
    dropped = [int(line.split()[0]) for line in counted.splitlines() if "DROP" in line]
    assert len(dropped) == 2 and min(dropped) > 0, counted
    driver.succeed()
    same(orders.answers(), expected, orders.lives)


def test_slow_network(cluster: Cluster, orders: Orders, expected: Answers, same: Same) -> None:
    """All that executors and the driver tell each other takes ``DELAY_S`` each way."""
    far = {
        "spark.driver.host": cluster.engine.name("far"),
        "spark.driver.bindAddress": "0.0.0.0",
        "spark.driver.port": PORTS[0],
        "spark.driver.blockManager.port": PORTS[1],
    }
    driver = orders.start({**MOTION, **far})
    host = cluster.engine.name(driver.name)
    cluster.engine.start("far", "python", "/apps/far.py", host, str(DELAY_S), *PORTS)
    try:
        driver.succeed()
        forwarded = cluster.engine.log("far")
        assert all(f"port {port}" in forwarded for port in PORTS), forwarded
    finally:
        cluster.engine.remove("far")
    same(orders.answers(), expected, orders.lives)
