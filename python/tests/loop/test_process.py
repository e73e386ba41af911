"""The scheduler as a process beside the driver."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

from laneshift.errors import error
from laneshift.loop import process
from plugin.fake import FakeGateway

SETTINGS = {"port": 1, "token": "t", "policy": "static", "target_latency_ms": 0, "interval_s": 0.1}


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs ``main`` with the settings, some of them changed."""

    def run(**changed: object) -> int:
        monkeypatch.setenv(process.VARIABLE, json.dumps(SETTINGS | changed))
        return process.main()

    monkeypatch.setattr(process, "PortGateway", lambda *_: FakeGateway())
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    return run


def test_it_ends_when_the_driver_closes_its_input(
    start: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert start() == 0
    assert "static decides every 0.1 s" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"policy": "elastik"}, "elastik"),
        ({"policy": "craa", "target_latency_ms": 5}, "no latency target"),
    ],
)
def test_wrong_settings_are_told_and_never_tried_again(
    start: Callable[..., int],
    wrong: dict[str, Any],
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert start(**wrong) == 2
    assert words in capsys.readouterr().out


def test_a_driver_that_does_not_answer_is_a_failure(
    start: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def gone(*_: object) -> FakeGateway:
        raise error("LANESHIFT_SESSION_STOPPED", method="version")

    monkeypatch.setattr(process, "PortGateway", gone)
    assert start() == 1
    assert "has stopped" in capsys.readouterr().out
