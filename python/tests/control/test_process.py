"""The control process: what it listens on, what it writes, and how it fails."""

from __future__ import annotations

import io
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme

import laneshift
from autoscale.scripted import Moving, until
from laneshift.control import log, process
from laneshift.control.process import VARIABLE
from laneshift.errors import error


class Input(io.TextIOBase):
    """A standard input that the driver closes when it ends."""

    def __init__(self) -> None:
        self._closed = threading.Event()

    def read(self, *_: Any) -> str:
        self._closed.wait()
        return ""

    def end(self) -> None:
        self._closed.set()


class Process:
    """``main`` on a thread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, file: Path, **changed: Any) -> None:
        control = {"port": 0, "address": "127.0.0.1", "token_file": str(file)}
        settings = {
            "port": 1, "token": "t", "policy": "none", "target_latency_ms": 0, "interval_s": 0.1,
            "control": control | changed.pop("control", {}),
        }  # fmt: skip
        monkeypatch.setenv(VARIABLE, json.dumps(settings | changed))
        self.input = Input()
        self.code: int | None = None
        monkeypatch.setattr(sys, "stdin", self.input)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        self.code = process.main()

    def end(self) -> int | None:
        self.input.end()
        self.thread.join()
        return self.code


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Moving:
    made = Moving()
    monkeypatch.setattr(process, "PortGateway", lambda *_: made)
    return made


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(log, "say", lines.append)
    return lines


Start = Callable[..., Process]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch, gateway: Moving, said: list[str]) -> Start:
    return lambda file, **changed: Process(monkeypatch, file, **changed)


def test_it_writes_address_and_token_for_its_owner_and_takes_them_back(
    start: Start, tmp_path: Path, said: list[str]
) -> None:
    file = tmp_path / "token"
    running = start(file)
    beside = tmp_path / "token.address"
    until(beside.exists)
    assert beside.stat().st_mode & 0o777 == file.stat().st_mode & 0o777 == 0o600
    with laneshift.attach(beside.read_text().strip(), token_file=file) as app:
        assert app.snapshot().queries
    assert running.end() == 0
    assert not beside.exists() and file.exists()
    assert VARIABLE not in os.environ  # it has the plugin's token, and children inherit it
    assert any(str(file) in line and "no TLS" in line for line in said)
    assert not any(file.read_text().strip() in line for line in said)


def test_a_generated_token_goes_with_its_application(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".laneshift"
    folder.mkdir()
    file = folder / f"driver-{socket.gethostname()}-{os.getppid()}.token"
    file.write_text("of-a-driver-that-was-killed\n")
    tokens = []
    for key in ("a-drivers-key", "a-drivers-key", "another-ones"):
        running = start("", control={"tenant_key": key})
        until(lambda: list(folder.glob("*.address")))
        tokens.append(file.read_text())
        assert file.stat().st_mode & 0o777 == 0o600
        assert running.end() == 0
        assert list(folder.iterdir()) == []
    # A process that is started again has the one that its driver's clients have.
    assert tokens[0] == tokens[1] != tokens[2]
    assert "of-a-driver" not in "".join(tokens)


def test_the_drivers_policy_runs_beside_and_can_be_steered(start: Start, tmp_path: Path) -> None:
    running = start(tmp_path / "token", policy="static")
    beside = tmp_path / "token.address"
    until(beside.exists)
    with laneshift.attach(beside.read_text(), token_file=tmp_path / "token") as app:
        client: Any = app._gateway
        (run,) = client.autoscalers()
        assert (run.policy, run.running) == ("static", True)
        client.stop_autoscaler()
        assert [run.running for run in client.autoscalers()] == [False]
        with pytest.raises(laneshift.NotFoundError, match="run: none"):
            client.stop_autoscaler()
        app.autoscale(policy="elasticutor", interval=0.1)
        _, second = client.autoscalers()
        assert second.id.startswith("elasticutor-2-") and second.running
    assert running.end() == 0


def test_a_taken_port_is_told_once_and_had_when_it_is_free(
    start: Start, tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "AGAIN_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        running = start(tmp_path / "token", control={"port": port}, policy="static")
        until(lambda: any("cannot listen" in line for line in said))
        time.sleep(0.3)
        assert running.thread.is_alive()
    (line,) = (line for line in said if "cannot listen" in line)
    assert f"127.0.0.1:{port}" in line and "another process has it" in line
    assert "spark.sql.laneshift.control.port" in line
    until((tmp_path / "token.address").exists)
    assert running.end() == 0


@pytest.mark.parametrize(
    ("wrong", "policy"),
    [
        ({"tls_certificate": "/nowhere"}, "none"),
        ({"address": "192.0.2.1"}, "none"),
        ({}, "elastik"),
    ],
)
def test_who_is_refused_leaves_no_token(
    start: Start,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    wrong: dict[str, Any],
    policy: str,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    running = start("", control=wrong | {"tenant_key": "a-drivers-key"}, policy=policy)
    running.thread.join()
    assert running.code == 2
    assert not list(tmp_path.glob(".laneshift/*"))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"address": "192.0.2.1"}, ["control.address", "192.0.2.1", "0.0.0.0"]),
        ({"address": "no-such-host.invalid"}, ["control.address", "no-such-host.invalid"]),
        ({"tls_certificate": "/nowhere", "tls_key": "/nowhere"}, ["tls.", "/nowhere"]),
        ({"token": "short", "token_file": ""}, ["control.token", "16 to 512"]),
        ({"token_file": "/proc/no"}, ["token file /proc/no"]),
    ],
)
def test_wrong_settings_are_told_and_never_tried_again(
    start: Start, tmp_path: Path, said: list[str], wrong: dict[str, Any], words: list[str]
) -> None:
    running = start(tmp_path / "token", control=wrong)
    running.thread.join()
    assert running.code == 2
    for word in words:
        assert word in said[-1]


def test_a_certificate_with_another_key(start: Start, tmp_path: Path, said: list[str]) -> None:
    ca = trustme.CA()
    one, other = ca.issue_cert("h"), ca.issue_cert("h")
    cert, key = tmp_path / "cert", tmp_path / "key"
    one.cert_chain_pems[0].write_to_path(str(cert))
    other.private_key_pem.write_to_path(str(key))
    files = {"tls_certificate": str(cert), "tls_key": str(key)}
    running = start(tmp_path / "token", control=files)
    running.thread.join()
    assert running.code == 2 and "a certificate and its own key" in said[-1]


def test_a_driver_that_does_not_answer_is_a_failure(
    start: Start, tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object) -> Moving:
        raise error("LANESHIFT_SESSION_STOPPED", method="version")

    monkeypatch.setattr(process, "PortGateway", gone)
    running = start(tmp_path / "token")
    running.thread.join()
    assert running.code == 1 and "has stopped" in said[-1]


def test_an_open_address_without_tls_is_told(start: Start, tmp_path: Path, said: list[str]) -> None:
    running = start(tmp_path / "token", control={"address": "0.0.0.0"})
    until((tmp_path / "token.address").exists)
    assert running.end() == 0
    assert any("unencrypted" in line and "tls.certificate" in line for line in said)
