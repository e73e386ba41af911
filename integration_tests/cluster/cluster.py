"""A Spark standalone cluster in containers, with drivers that spark-submit starts in others."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from cluster.engine import Engine

WORKERS = 2
CORES = 4
LIMIT_S = 300.0

PLUGIN = "org.apache.spark.sql.laneshift.LaneshiftPlugin"
JAR = "/opt/laneshift/laneshift-spark.jar"
PACKAGE = "/opt/laneshift/python"

# What is small enough to be filled.
SMALL_DISK = "/small"
SMALL_DISK_MB = 96

# Many short-lived JVMs on few cores.
JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"

# Losses are noticed within seconds; state is where laneshift can be switched on and off.
SETTINGS = {
    "spark.executor.memory": "640m",
    "spark.driver.memory": "640m",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.network.timeout": "40s",
    "spark.network.timeoutInterval": "5s",
    "spark.executor.heartbeatInterval": "4s",
    "spark.executor.extraJavaOptions": JVM,
    "spark.driver.extraJavaOptions": JVM,
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "1s",
    "spark.locality.wait": "500ms",
}

# All that it takes to make the same application elastic.
ELASTIC = {"spark.jars": JAR, "spark.plugins": PLUGIN}

# Shards move and lanes come and go all the time.
MOTION = {
    **ELASTIC,
    "spark.sql.laneshift.lanes": "2",
    "spark.sql.laneshift.maxLanes": "4",
    "spark.sql.laneshift.shardsPerPartition": "16",
    "spark.sql.laneshift.motion": "always",
    "spark.sql.laneshift.motion.interval": "5ms",
}


def until(what: str, reached: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
    """Wait until ``reached()``. Errors: TimeoutError that names ``what`` after ``limit_s``."""
    end = time.monotonic() + limit_s
    while not reached():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {limit_s:.0f} s for {what}")
        time.sleep(0.2)


def said(url: str) -> Any:
    """The JSON at ``url``, or None if nobody answers with any."""
    try:
        with urlopen(url, timeout=5) as answer:
            return json.load(answer)
    except (URLError, OSError, ValueError):
        return None


class Driver:
    """One spark-submit of an application, in a container of its own."""

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine = engine
        self.name = name
        self._page = f"http://{engine.address(name)}:4040/laneshift/json/"
        self.handoffs = 0
        self.most_lanes = 0
        self.rows_beside = 0
        self.lanes_elsewhere = 0
        self.rows_elsewhere = 0
        self.hosts: set[str] = set()
        self.decisions: list[Any] = []

    def observe(self) -> None:
        """Ask the plugin, by the driver's UI, what it does.

        ``handoffs`` are the most that it has told of at once, ``most_lanes`` those of a partition,
        ``rows_beside`` the most rows that lanes beside each partition's first had taken at once,
        ``lanes_elsewhere`` those on other executors at the newest look, ``rows_elsewhere`` the most
        rows that these had worked on at once, ``hosts`` where partitions have been, ``decisions``
        what an autoscaler decided lately.
        """
        status = said(self._page) or {}
        partitions = [
            partition
            for query in status.get("snapshot", {}).get("queries", [])
            for operator in query["operators"]
            for partition in operator["partitions"]
        ]
        self.handoffs = max(self.handoffs, sum(p["handoffs"] for p in partitions))
        self.most_lanes = max([self.most_lanes, *(p["lanes"] for p in partitions)])
        beside = sum(sum(p["lane_rows"][1:]) for p in partitions)
        self.rows_beside = max(self.rows_beside, beside)
        self.lanes_elsewhere = sum(e["open"] for p in partitions for e in p["elsewhere"])
        taken = sum(p["rows_taken_elsewhere"] for p in partitions)
        self.rows_elsewhere = max(self.rows_elsewhere, taken)
        self.hosts.update(p["host"] for p in partitions)
        self.decisions = status.get("decisions") or self.decisions

    def ended(self) -> bool:
        return self._engine.exit_code(self.name) is not None

    def until(self, what: str, reached: Callable[[], bool]) -> None:
        """Wait until ``reached()``, while the application runs."""

        def look() -> bool:
            self.observe()
            done = reached()
            assert done or not self.ended(), f"ended before {what}:\n{self.tail()}"
            return done

        until(what, look)

    def until_moving(self) -> None:
        """Wait until shards move."""
        self.until("a shard moved", lambda: self.handoffs > 0)

    def finish(self, limit_s: float = LIMIT_S) -> int:
        """Wait until the application ends by itself; its exit code."""

        def ended() -> bool:
            self.observe()
            return self.ended()

        until(f"the end of {self.name}", ended, limit_s)
        code = self._engine.exit_code(self.name)
        assert code is not None
        return code

    def succeed(self) -> None:
        """Wait until the application has done its work."""
        code = self.finish()
        assert code == 0, f"exit code {code}:\n{self.tail()}"

    def kill(self) -> None:
        """``kill -9``."""
        assert not self.ended(), f"ended before it was killed:\n{self.tail()}"
        self._engine.kill(self.name)

    def log(self) -> str:
        return self._engine.log(self.name)

    def tail(self) -> str:
        return self.log()[-6000:]


class Cluster:
    """A master and workers; ``data`` on the host is ``/data`` everywhere in the cluster."""

    def __init__(self, engine: Engine, data: Path) -> None:
        self.engine = engine
        self.data = data
        self.workers: list[str] = []
        self._count = 0
        self._drivers: list[Driver] = []
        master = engine.start(
            "master",
            *("spark-class", "org.apache.spark.deploy.master.Master", "--port", "7077"),
            env={
                "SPARK_DAEMON_MEMORY": "384m",
                "SPARK_DAEMON_JAVA_OPTS": f"{JVM} -Dspark.worker.timeout=20",
            },
        )
        self.url = f"spark://{master}:7077"
        self._page = f"http://{engine.address('master')}:8080/json/"
        self.heal()

    def add_worker(self) -> str:
        """Start one more worker; its name."""
        self._count += 1
        name = f"worker-{self._count}"
        self.engine.start(
            name,
            *("spark-class", "org.apache.spark.deploy.worker.Worker", "--cores", str(CORES)),
            *("--memory", "1g", "--work-dir", "/tmp/work", self.url),
            env={"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": JVM},
        )
        self.workers.append(name)
        return name

    def kill_worker(self, name: str) -> None:
        """``kill -9`` of a worker and its executors."""
        self.engine.kill(name)
        self.workers.remove(name)

    def committed(self, checkpoint: str) -> int:
        """Batches that a query with this checkpoint has committed."""
        listed = f"ls {checkpoint}/commits 2>/dev/null || true"
        return sum(n.isdigit() for n in self.engine.inside("master", "sh", "-c", listed).split())

    def rows(
        self, results: list[str], checkpoints: list[str], conf: dict[str, str] | None = None
    ) -> list[list[str]]:
        """Rows of each folder of Parquet files and of each state, sorted, read by stock Spark."""
        target = "rows.json"
        reader = self.submit(
            *("rows.py", f"/data/{target}", "--results", *results, "--state", *checkpoints),
            conf=conf or {},
            master="local[2]",
        )
        reader.succeed()
        found: list[list[str]] = json.loads((self.data / target).read_text())
        return found

    def alive(self) -> int:
        """Workers that the master counts on."""
        state = said(self._page) or {"workers": []}
        return sum(worker["state"] == "ALIVE" for worker in state["workers"])

    def executors(self) -> int:
        """Workers on which an executor runs."""
        state = said(self._page) or {"workers": []}
        return sum(w["state"] == "ALIVE" and w["coresused"] > 0 for w in state["workers"])

    def heal(self) -> None:
        """End what still runs and have ``WORKERS`` workers again."""
        for driver in self._drivers:
            self.engine.remove(driver.name)
        self._drivers.clear()
        for worker in self.workers:
            self.engine.inside(worker, "iptables", "--flush")
        while len(self.workers) > WORKERS:
            self.kill_worker(self.workers[-1])
        while len(self.workers) < WORKERS:
            self.add_worker()
        until(f"{WORKERS} workers", lambda: self.alive() == WORKERS)

    def next_driver(self) -> str:
        """The host name of the driver that is submitted next."""
        return self.engine.name(f"driver-{self._count + 1}")

    def submit(
        self,
        application: str,
        *arguments: str,
        conf: dict[str, str],
        master: str | None = None,
        env: dict[str, str] | None = None,
        volumes: dict[str, str] | None = None,
    ) -> Driver:
        """spark-submit a script of ``apps`` with the options ``conf``, and return at once."""
        self._count += 1
        name = f"driver-{self._count}"
        host = self.engine.name(name)
        options = {**SETTINGS, "spark.driver.host": host, **conf}
        pairs = [f"--conf={key}={value}" for key, value in options.items()]
        self.engine.start(
            name,
            *("spark-submit", "--master", master or self.url, *pairs),
            *(f"/apps/{application}", *arguments),
            env=env,
            volumes=volumes,
        )
        driver = Driver(self.engine, name)
        self._drivers.append(driver)
        return driver
