"""One cluster per run of pytest, stock Spark's answers, and a report of the scenarios."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from cluster.cluster import SMALL_DISK, SMALL_DISK_MB, Cluster, Driver
from cluster.compare import Answers, Same, count, difference
from cluster.engine import Engine, docker, missing, remove_leftovers
from cluster.kafka import Kafka
from cluster.orders import Orders, write_input
from cluster.report import Report

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "itest"
KAFKA_JARS = ROOT / "build" / "kafka"
JAR = ROOT / "python" / "laneshift" / "jars" / "laneshift-spark.jar"

REPORT = pytest.StashKey[Report]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[REPORT] = Report(BUILD / "report.md")


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.deep("cluster"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.config.stash[REPORT].add(report)
    if report.failed:
        _keep_logs(item.name)
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    session.config.stash[REPORT].write()


def _keep_logs(test: str) -> None:
    """What every container has printed, for a test that failed."""
    if missing() is None:
        folder = BUILD / "logs" / test
        folder.mkdir(parents=True, exist_ok=True)
        run = f"laneshift-itest-{os.getpid()}"
        names = docker("ps", "--all", "--filter", f"name={run}", "--format", "{{.Names}}")
        for name in names.split():
            with (folder / f"{name}.log").open("w") as file:
                subprocess.run(["docker", "logs", name], stdout=file, stderr=file, check=False)


@pytest.fixture(scope="session")
def whole_cluster() -> Iterator[Cluster]:
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    if not JAR.is_file():
        pytest.skip("the plugin's jar is not built: make jar")
    remove_leftovers()
    shutil.rmtree(BUILD / "logs", ignore_errors=True)
    image = subprocess.run([ROOT / "docker" / "build.sh"], stdout=subprocess.PIPE, check=True)
    run = f"laneshift-itest-{os.getpid()}"
    data = BUILD / run
    data.mkdir(parents=True)
    volumes = {
        "/data": str(data),
        "/apps": f"{Path(__file__).parent / 'apps'}",
        "/opt/laneshift/laneshift-spark.jar": str(JAR),
        "/opt/laneshift/python/laneshift": str(ROOT / "python" / "laneshift"),
    }
    engine = Engine(run, image.stdout.decode().strip(), volumes)
    try:
        engine.disk("small", SMALL_DISK, SMALL_DISK_MB)
        yield Cluster(engine, data)
    finally:
        # What containers have written is theirs to delete.
        engine.start("cleaner", "sh", "-c", "rm -rf /data/*")
        docker("wait", engine.name("cleaner"))
        engine.close()
        shutil.rmtree(data)


@pytest.fixture
def cluster(whole_cluster: Cluster) -> Cluster:
    """The cluster, with all its workers and nothing running."""
    whole_cluster.heal()
    return whole_cluster


@pytest.fixture
def kafka(cluster: Cluster) -> Iterator[Kafka]:
    """A broker without topics."""
    broker = Kafka(cluster, KAFKA_JARS)
    yield broker
    broker.close()


@pytest.fixture(scope="session")
def orders_input(whole_cluster: Cluster) -> str:
    """The name of the folder with the orders."""
    write_input(whole_cluster.data / "orders")
    return "orders"


@pytest.fixture(scope="session")
def expected(whole_cluster: Cluster, orders_input: str) -> Answers:
    """What stock Spark makes of the orders, on a cluster that nothing happens to."""
    stock = Orders(whole_cluster, "stock")
    stock.start({}).succeed()
    assert stock.lives[0].handoffs == 0
    return stock.answers()


@pytest.fixture
def orders(cluster: Cluster, orders_input: str, request: pytest.FixtureRequest) -> Orders:
    """The application, before its first run."""
    return Orders(cluster, request.node.name)


@pytest.fixture
def same(record_property: Callable[[str, object], None]) -> Same:
    """Asserts that elastic lives left what stock Spark leaves, and notes how much that is.

    Each life of a query with state has to have moved shards.
    """

    def compare(
        found: Answers, expected: Answers, lives: list[Driver], *, state: bool = True
    ) -> None:
        record_property("rows", count(found))
        record_property("moves", sum(driver.handoffs for driver in lives))
        assert all(expected.values()), "an empty answer proves nothing"
        assert difference(found, expected) == ""
        assert not state or all(driver.handoffs > 0 for driver in lives), "nothing has moved"

    return compare
