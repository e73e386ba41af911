"""A Kafka broker of one node (KRaft), on loopback, with its data in a folder that is made anew."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from uuid import uuid4

from laneshift_demo.failure import DemoError

START_S = 60.0
STOP_S = 20.0

PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
"""


class Broker:
    """Runs while the ``with`` block does. ``address`` is what clients connect to.

    Errors: DemoError if Java is missing or the broker does not start; it names the broker's log.
    """

    def __init__(self, jars: Sequence[Path], folder: Path) -> None:
        self._jars = jars
        self._folder = folder.absolute()
        self._log = self._folder / "broker.log"
        self._pid_file = self._folder / "broker.pid"
        self._process: subprocess.Popen[bytes] | None = None
        port, self._controller = _free_ports(2)
        self.address = f"127.0.0.1:{port}"
        self._port = port

    def __enter__(self) -> Broker:
        self._end_earlier()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        properties = self._folder / "server.properties"
        properties.write_text(
            PROPERTIES.format(
                port=self._port, controller=self._controller, data=self._folder / "data"
            )
        )
        cluster = urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
        with self._log.open("wb") as log:
            format_command = self._java("kafka.tools.StorageTool", "format", "-t", cluster)
            format_command += ["-c", str(properties)]
            if subprocess.run(format_command, stdout=log, stderr=log, check=False).returncode:
                raise DemoError(f"Kafka could not format its storage; see {self._log}.")
            self._process = subprocess.Popen(
                self._java("kafka.Kafka", str(properties)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C ends the demo, which ends the broker
            )
        self._pid_file.write_text(str(self._process.pid))
        try:
            self._wait_for_port()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def _java(self, main: str, *arguments: str) -> list[str]:
        home = os.environ.get("JAVA_HOME")
        java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
        if java is None or not Path(java).exists():
            raise DemoError("Java is missing: install a JDK 17, or set JAVA_HOME to one.")
        class_path = os.pathsep.join(str(jar.absolute()) for jar in self._jars)
        return [java, "-Xmx512m", "-XX:+UseSerialGC", "-cp", class_path, main, *arguments]

    def _wait_for_port(self) -> None:
        assert self._process is not None
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            if self._process.poll() is not None:
                raise DemoError(f"The Kafka broker ended while it started; see {self._log}.")
            with socket.socket() as probe:
                probe.settimeout(0.5)
                if probe.connect_ex(("127.0.0.1", self._port)) == 0:
                    return
            time.sleep(0.1)
        raise DemoError(f"The Kafka broker did not open its port in {START_S} s; see {self._log}.")

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._pid_file.unlink(missing_ok=True)

    def _end_earlier(self) -> None:
        """End the broker that a killed demo left behind in this folder, and nothing else."""
        if not self._pid_file.is_file():
            return
        pid = int(self._pid_file.read_text() or 0)
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
        except OSError:
            return
        if "kafka.Kafka" in command and str(self._folder / "server.properties") in command:
            os.kill(pid, signal.SIGKILL)
            until = time.monotonic() + STOP_S
            while Path(f"/proc/{pid}").exists() and time.monotonic() < until:
                time.sleep(0.1)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()
