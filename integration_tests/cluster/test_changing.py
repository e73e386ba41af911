"""State partitions that change in number while workers and drivers die."""

from __future__ import annotations

import pytest
from cluster.cluster import MOTION, PACKAGE, Cluster, Driver
from cluster.compare import Answers, Same

NUMBERS = ("7", "3", "5", "2")


class Changing:
    """The lives of ``apps/changing.py`` on one checkpoint."""

    def __init__(self, cluster: Cluster, name: str, orders: str) -> None:
        self._cluster = cluster
        self._folders = (f"/data/{orders}", f"/data/{name}/checkpoint", f"/data/{name}/results")
        self.lives: list[Driver] = []

    def start(self, conf: dict[str, str], *partitions: str) -> Driver:
        more = ("--partitions", *partitions) if partitions else ()
        env = {"PYTHONPATH": PACKAGE}
        driver = self._cluster.submit("changing.py", *self._folders, *more, conf=conf, env=env)
        self.lives.append(driver)
        return driver

    def answers(self) -> Answers:
        """Rows of all batches and of the state, sorted, as stock Spark reads them."""
        _, checkpoint, results = self._folders
        rows = self._cluster.rows([f"{results}/*"], [checkpoint])
        return dict(zip(("results", "state"), rows, strict=True))


def rescaled(driver: Driver) -> int:
    """How many rescales an application has seen through."""
    return sum(line.startswith("rescaled to") for line in driver.log().splitlines())


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("tasks", ["stock", "3"])
def test_partitions_change(cluster: Cluster, orders_input: str, same: Same, tasks: str) -> None:
    stock = Changing(cluster, f"fixed-{tasks}", orders_input)
    stock.start({}).succeed()
    changing = Changing(cluster, f"changing-{tasks}", orders_input)
    conf = {**MOTION, "spark.sql.laneshift.tasks": tasks}
    first = changing.start(conf, *NUMBERS)
    first.until("a rescale", lambda: rescaled(first) >= 1)
    cluster.kill_worker(cluster.workers[0])
    cluster.add_worker()
    first.until("its loss", lambda: "Lost executor" in first.log())
    first.until("another rescale", lambda: rescaled(first) >= 2)
    first.kill()
    second = changing.start(conf, *NUMBERS[1:])
    second.succeed()
    assert rescaled(second) >= 1, second.tail()
    same(changing.answers(), stock.answers(), changing.lives)
