"""The application ``apps/orders.py``: its input, its runs, what they leave behind."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

from cluster.cluster import PACKAGE, Cluster, Driver
from cluster.compare import Answers

FILES = 18
ROWS_PER_FILE = 8_000
CUSTOMERS = 3_000
START = 1_700_000_000
QUERIES = ("minutes", "amounts")


def write_input(folder: Path) -> None:
    """Write the orders of ``FILES`` batches: few customers order much, some orders come late."""
    rng = random.Random(2013)
    folder.mkdir()
    for number in range(FILES):
        path = folder / f"{number:03}.json"
        with path.open("w") as file:
            for _ in range(ROWS_PER_FILE):
                at = START + number * 60 + rng.randrange(60) - (rng.random() < 0.1) * 75
                customer = int(CUSTOMERS * rng.random() ** 4)
                order = {"at": at, "customer": customer, "amount": rng.randrange(200)}
                file.write(json.dumps(order) + "\n")
        os.utime(path, (START + number, START + number))  # the order in which Spark takes them


class Orders:
    """The lives of the application on one checkpoint; folders are the containers' paths."""

    def __init__(self, cluster: Cluster, name: str, checkpoints: str | None = None) -> None:
        self._cluster = cluster
        self._name = name
        self._results = f"/data/{name}/results"
        self.checkpoints = checkpoints or f"/data/{name}/checkpoints"
        self.lives: list[Driver] = []

    def start(
        self,
        conf: dict[str, str],
        application: str = "orders.py",
        package: bool = False,
        until: str | None = None,
    ) -> Driver:
        """Submit it, on what an earlier life has left; ``away.py`` is it, too.

        With ``package`` its Python finds laneshift, which ``away.py`` imports. It ends with the
        input, or with the file ``until``.
        """
        folders = ("/data/orders", self.checkpoints, self._results)
        package = package or application == "away.py"
        env = {"PYTHONPATH": PACKAGE} if package else {}
        more = ("--until", until) if until else ()
        driver = self._cluster.submit(application, *folders, *more, conf=conf, env=env)
        self.lives.append(driver)
        return driver

    def until_batches(self, more: int) -> None:
        """Wait until its last life has moved shards and committed ``more`` batches from now."""
        driver = self.lives[-1]
        checkpoint = f"{self.checkpoints}/amounts"
        goal = self._cluster.committed(checkpoint) + more

        def reached() -> bool:
            return driver.handoffs > 0 and self._cluster.committed(checkpoint) >= goal

        driver.until(f"batch {goal}", reached)

    def answers(self) -> Answers:
        """Rows of results and states, sorted, as stock Spark reads them."""
        rows = self._cluster.rows(
            [f"{self._results}/{query}" for query in QUERIES],
            [f"{self.checkpoints}/{query}" for query in QUERIES],
        )
        names = [f"{kind} of {query}" for kind in ("results", "state") for query in QUERIES]
        return dict(zip(names, rows, strict=True))
