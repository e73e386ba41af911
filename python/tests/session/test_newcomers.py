"""What newcomers do wrong, on each way to an application: one sentence, with the way out.

What they do wrong where the driver starts, such as a port that is taken, is in its log:
control/test_process.py and live/test_live_control_log.py. A machine of its own has
integration_tests/cluster/test_operator.py.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner

import laneshift
from laneshift.cli.main import main
from laneshift.errors import LaneshiftError
from laneshift.plugin.v1 import control_pb2 as pb
from plugin.fake import FakeGateway
from session.transports import TOKEN, Connected, another_service, serving

Way = Callable[..., tuple[str, int]]
"""Goes to an address with a token, and says what was said, and a command's exit code."""
CODES = {
    "CONTROL_REFUSED": 5,
    "CONTROL_UNREACHABLE": 4,
    "CONTROL_VERSION": 4,
    "NO_SUCH_AUTOSCALER": 3,
}


def in_python(attach: Callable[[str, str | None], laneshift.Application]) -> Way:
    def go(address: str, token: str | None, then: str = "snapshot") -> tuple[str, int]:
        def ask() -> None:
            with attach(address, token) as app:
                client: Any = app._gateway
                client.stop_autoscaler() if then == "autoscale --stop" else app.snapshot()

        with pytest.raises(LaneshiftError) as caught:
            ask()
        found = caught.value
        code = next((code for name, code in CODES.items() if name in found.condition), 0)
        return str(found), code or (2 if isinstance(found, laneshift.ArgumentError) else 1)

    return go


def by_connect(address: str, token: str | None) -> laneshift.Application:
    host, _, port = address.rpartition(":")
    spark: Any = Connected((host, port, token or ""))
    return laneshift.attach(spark)


def by_command(address: str, token: str | None, then: str = "snapshot") -> tuple[str, int]:
    variables = {"LANESHIFT_TOKEN": token} if token else {}
    command = [*then.split(), "--control", address]
    done = CliRunner().invoke(main, command, env=variables)
    assert "Traceback" not in done.output
    return " ".join(done.output.split()), done.exit_code


WAYS: dict[str, Way] = {
    "address": in_python(laneshift.attach),
    "connect": in_python(by_connect),
    "command": by_command,
}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Way:
    for name in ("LANESHIFT_CONTROL", "LANESHIFT_TOKEN", "LANESHIFT_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    return WAYS[request.param]


def test_nobody_listens_there(way: Way) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    said, code = way(address, TOKEN)
    assert f"No control service answers at {address}: nobody listens at that port." in said
    assert "spark.sql.laneshift.control.port" in said and "the driver's log" in said
    assert code == 4


def test_another_token(way: Way) -> None:
    with serving(FakeGateway(), tell=lambda _: None) as address:
        said, code = way(address, TOKEN[::-1])
    assert f"The control service at {address} lets nobody in without its token" in said
    assert "The driver's log names the file that has it" in said
    assert TOKEN[::-1] not in said and code == 5


def test_no_token(way: Way) -> None:
    with serving(FakeGateway()) as address:
        said, code = way(address, None)
    assert "token" in said and code == 2
    assert "The driver's log names the file" in said or "The driver generates one" in said


def test_a_driver_of_another_release(way: Way) -> None:
    with another_service(Hello=lambda _: pb.HelloReply(version="0.0.1", revision=1)) as address:
        said, code = way(address, TOKEN)
    assert f"What answers at {address} is not the control service" in said
    assert "laneshift 0.0.1, revision 1" in said and laneshift.__version__ in said
    assert "pip install laneshift==VERSION" in said and code == 4


def test_no_autoscaler_runs(way: Way) -> None:
    with serving(FakeGateway()) as address:
        said, code = way(address, TOKEN, "autoscale --stop")
    assert "no id was given" in said and "none" in said
    assert "`laneshift autoscale` starts one" in said and code == 3


@pytest.mark.parametrize("name", ["address", "command"])
def test_what_is_no_address(name: str) -> None:
    said, code = WAYS[name]("driver.example.com", TOKEN)
    assert "found 'driver.example.com'" in said and "HOST:PORT" in said
    assert "The driver's log names the address" in said and code == 2
