"""The control process with a policy alone."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autoscale.scripted import until
from laneshift.autoscale.options import AutoscaleOptions
from laneshift.control import process
from laneshift.control.policy import PolicySettings, unused
from laneshift.errors import error
from laneshift.policies.registry import policy
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
        (
            {"policy": "craa", "parameters": {"occ_hihg": "0.9"}},
            "expected one of target_utilisation, target_batch_s, buffer_s, occ_high",
        ),
        ({"policy": "craa", "parameters": {"occ_hihg": "0.9"}}, "Did you mean occ_high?"),
        ({"policy": "craa", "parameters": {"occ_high": "much"}}, "occ_high"),
        ({"policy": "laneshift", "parameters": {"target_utilisation": "1.2"}}, "> 0 and <= 1"),
        ({"policy": "static", "parameters": {"occ_high": "0.9"}}, "expected one of none"),
        ({"cores": 0.5}, "cores"),
        ({"trace": "/no/such/folder/trace"}, "Make the folder first"),
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


def test_a_demand_that_cannot_be_is_never_tried_again(
    start: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuses(*_: object) -> dict[str, Any]:
        raise error("LANESHIFT_DYNAMIC_ALLOCATION", most=3)

    monkeypatch.setattr(FakeGateway, "demand_executors", refuses)
    assert start() == 2
    assert "dynamicAllocation.enabled is true" in capsys.readouterr().out


def test_parameters_come_as_text(tmp_path: Path) -> None:
    more = {
        "policy": "laneshift",
        "target_latency_ms": 250,
        "parameters": {"horizon": "2", "target_utilisation": "0.5", "release_surplus": "false"},
        "cores": 6,
        "dry_run": True,
        "trace": str(tmp_path / "trace"),
    }
    found = PolicySettings.of(SETTINGS | more)
    assert found.policy == policy(
        "laneshift", horizon=2, target_utilisation=0.5, release_surplus=False, target_s=0.25,
        target_batch_s=0.25,
    )  # fmt: skip
    trace = tmp_path / "trace"
    assert found.options == AutoscaleOptions(cores=6, dry_run=True, interval_s=0.1, trace=trace)


def test_a_trace_is_never_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    names = []
    for _ in range(3):
        names.append(unused(file).name)
        unused(file).touch()
    assert names == ["trace.jsonl", "trace-2.jsonl", "trace-3.jsonl"]


def test_only_the_query_that_is_named_is_driven_run_by_run(
    start: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Looked(FakeGateway):
        looks = 0

        def on_snapshot(self) -> dict[str, Any]:
            self.looks += 1
            return super().on_snapshot()

    gateway = Looked()
    queries = gateway.data["queries"]
    again = [queries[0] | {"run_id": "another run"}]
    gateway.data["queries"] = []
    told: list[int] = []
    run = queries[0]["run_id"]

    class Driver(io.StringIO):
        """Keeps its input open until the query has come, gone and come again."""

        def read(self, size: int | None = -1, /) -> str:
            for there in ([], queries, [], again):
                gateway.data["queries"] = there
                looks = gateway.looks
                # A look that goes on may have begun before, and its turn may claim again while it
                # rests: once the second from now begins, the first has been followed.
                until(lambda looks=looks: gateway.looks > looks + 1)
                claims = len(gateway.claims)
                until(lambda looks=looks: gateway.looks > looks + 3)
                told.append(len(gateway.claims) - claims)
            return ""

    monkeypatch.setattr(process, "PortGateway", lambda *_: gateway)
    monkeypatch.setattr(sys, "stdin", Driver())
    assert start(query="running") == 0
    assert (told[0], told[1] > 0, told[2], told[3] > 0) == (0, True, 0, True)
    assert list(dict.fromkeys(claim[1] for claim in gateway.claims)) == [run, "another run"]
    assert gateway.released == 1
    assert "for the query running" in capsys.readouterr().out


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
