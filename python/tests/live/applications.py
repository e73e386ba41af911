"""Applications that run in processes of their own while a test talks to them."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from laneshift.plugin.jar import jar_path
from live.conftest import environment, require_jar, until

HOME = Path(pyspark.__file__).parent
FOLDER = Path(__file__).parents[1]


@contextmanager
def running(command: list[str], log: Path, ready: Path | str, *, reads: bool) -> Iterator[None]:
    """A process that is ready once a file is there, or its log has a text; ended afterwards.

    One that ``reads`` its input ends with that, another one by a signal.
    """
    require_jar()
    env = environment(FOLDER, FOLDER.parent) | {"SPARK_HOME": str(HOME)}
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, env=env, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT
        )
    try:
        while not (ready.exists() if isinstance(ready, Path) else ready in log.read_text("utf-8")):
            assert process.poll() is None, log.read_text("utf-8")[-4000:]
            time.sleep(0.2)
        yield
    finally:
        assert process.stdin is not None
        process.stdin.close()
        if not reads:
            process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def controlled(folder: Path, *options: str) -> Iterator[Path]:
    """``control_app.py``, and the file with its token; the address is beside it."""
    token = folder / "token"
    command = [sys.executable, str(FOLDER / "live" / "control_app.py"), str(token), *options]
    with running(command, folder / "app.log", "started", reads=True):
        until((folder / "token.address").exists)
        yield token


@contextmanager
def connect_server(folder: Path, port: int, **options: str) -> Iterator[Path]:
    """A Spark Connect server at ``port`` with a control service, and the file with its token."""
    token = folder / "token"
    conf = {
        "spark.plugins": "org.apache.spark.sql.laneshift.LaneshiftPlugin",
        "spark.sql.laneshift.maxLanes": "4",
        "spark.sql.laneshift.lanes": "1",
        "spark.sql.laneshift.control.port": "0",
        "spark.sql.laneshift.control.tokenFile": str(token),
        "spark.sql.shuffle.partitions": "2",
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.log.level": "INFO",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    } | options
    command = [
        str(HOME / "bin" / "spark-submit"), "--master", "local[4]", "--jars", str(jar_path()),
        *(word for key, value in conf.items() for word in ("--conf", f"{key}={value}")),
        "--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal",
    ]  # fmt: skip
    with running(command, folder / "server.log", folder / "token.address", reads=False):
        yield token
