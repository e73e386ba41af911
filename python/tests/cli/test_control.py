"""The commands that reach a running application: what they do, and the codes they end with."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from autoscale.scripted import Chain, until
from laneshift.cli.main import main
from plugin.fake import HANDOFF, RUNNING, FakeGateway, set_lanes
from session.transports import TOKEN, serving

OWN = """
from dataclasses import dataclass
from typing import ClassVar
from laneshift.contract.plan import CoreChange, Plan
from laneshift.contract.policy import Policy

@dataclass(frozen=True, kw_only=True)
class Own(Policy[None]):
    name: ClassVar[str] = "own"
    summary: ClassVar[str] = "of a file beside"
    source: ClassVar[str] = "ours"
    lanes: int = 2
    def start(self): return None
    def decide(self, cluster, state):
        changes = [CoreChange(p.partition, p.cores, self.lanes)
                   for p in cluster.partitions if p.cores != self.lanes]
        return Plan(core_changes=tuple(changes)), None

@dataclass(frozen=True, kw_only=True)
class Half(Policy[None]):
    name: ClassVar[str] = "half"
    def start(self): return None
"""


class Restless(Chain):
    """If it is, somebody else sets lanes all the time, and the load does not fall: there is always
    something to decide.
    """

    restless = False

    def on_snapshot(self) -> dict[str, Any]:
        if self.restless:
            part = self.data["queries"][0]["operators"][0]["partitions"][0]
            set_lanes(part, 1 + part["lanes"] % 5)
            self.looks = min(self.looks, 5)
        return super().on_snapshot()


@pytest.fixture
def gateway() -> Restless:
    return Restless()


@pytest.fixture
def token(gateway: FakeGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file with the token of a service whose address stands beside it."""
    file = tmp_path / "token"
    file.write_text(TOKEN)
    for name in ("LANESHIFT_CONTROL", "LANESHIFT_TOKEN", "LANESHIFT_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    with serving(gateway, tell=lambda _: None) as address:
        (tmp_path / "token.address").write_text(address + "\n")
        monkeypatch.setenv("LANESHIFT_TOKEN_FILE", str(file))
        yield file


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def done(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("command", ["lanes", "handoffs", "autoscale", "rescale"])
def test_without_the_extra_a_command_says_what_to_install(
    command: str, token: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # PySpark brings grpc, and not what belongs to it.
    monkeypatch.setitem(sys.modules, "google.rpc", None)
    for name in [name for name in sys.modules if name.startswith("laneshift.control.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "laneshift.cli.commands", raising=False)
    numbers = [2] if command in ("lanes", "rescale") else []
    result = run(command, "demo", *numbers, "--token-file", token)
    assert result.exit_code == 1, result.output
    assert "has google.rpc, which is not installed" in result.output
    assert "wheel with [control]" in result.output


def test_a_module_of_our_own_that_is_missing_is_nothing_to_install(
    token: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "laneshift.api.there", None)
    result = run("lanes", "demo", 2, "--token-file", token)
    assert isinstance(result.exception, ImportError)


@pytest.mark.usefixtures("token")
class TestCommands:
    def test_snapshot(self) -> None:
        said = json.loads(done("snapshot", "--json"))
        assert said["queries"][0]["id"] == RUNNING
        assert "running, real-time: operator 0" in done("snapshot")

    def test_top(self) -> None:
        assert "running, real-time: operator 0" in done("top", "--once")

    def test_queries(self) -> None:
        assert json.loads(done("queries", "--json"))[0]["id"] == RUNNING
        assert f"running  {RUNNING}  real-time  0 (stateStoreSave) 4 lanes" in done("queries")

    def test_lanes(self, gateway: FakeGateway) -> None:
        assert done("lanes", "running", 3, "--partition", 1, "--operator", 0) == "done\n"
        every = ("lanes", "running", 2, "--operator", 1, "--json")
        assert json.loads(done(*every)) == {"applied": "now"}
        assert gateway.sent == [
            ("set_lanes", RUNNING, 0, 1, 3),
            ("set_lanes", RUNNING, 1, None, 2),
        ]

    def test_tasks(self, gateway: FakeGateway) -> None:
        assert done("tasks", "running", 2) == "from the next batch on\n"
        assert done("tasks", "running", "auto", "--operator", 0) == "from the next batch on\n"
        assert gateway.sent == [
            ("set_tasks", RUNNING, 0, "2"),
            ("set_tasks", RUNNING, 1, "2"),
            ("set_tasks", RUNNING, 0, "auto"),
        ]

    def test_rescale(self, gateway: FakeGateway) -> None:
        here = ("rescale", "running")
        assert done(*here, 16, "--detach") == "4 -> 16 state partitions: building\n"
        assert done(*here, "--cancel") == "4 -> 16 state partitions: cancelled\n"
        assert gateway.sent == [("rescale", RUNNING, 16), ("cancel_rescale", RUNNING)]
        for wrong in (
            ("rescale",),
            (*here, 4, 5),
            here,
            (*here, 4, "--cancel"),
            ("checkpoint", "rescale", "folder"),
        ):
            assert run(*wrong).exit_code == 2
        assert len(gateway.sent) == 2

    def test_move_and_limit_source(self, gateway: FakeGateway) -> None:
        shard = ("move", "running", "--partition", 1, "--to-lane", 1, "--shard")
        assert done(*shard, 7, "--operator", 0) == "from the next batch on\n"
        assert done("limit-source", RUNNING, 100, "5.5s") == "done\n"
        assert [call[0] for call in gateway.sent] == ["move_shard", "limit_source"]

    def test_handoffs(self) -> None:
        assert json.loads(done("handoffs", "running", "--json")) == [
            HANDOFF | {"source_executor": None}
        ]
        assert "shard 5: lane 0 -> 8 (executor 2), user, paused 0.089 ms" in done("handoffs")

    def test_an_autoscaler(self, gateway: FakeGateway) -> None:
        assert done("autoscalers") == "no autoscaler runs in the control process\n"
        options = ("--interval", "100ms", "--set", "target_s=0.05", "--json")
        made = done("autoscale", "running", "--policy", "elasticutor", *options)
        id = json.loads(made)["id"]
        until(lambda: done("decisions"))
        assert f"{id}: running," in done("autoscalers")
        lines = [json.loads(line) for line in done("decisions", "--json").splitlines()]
        assert lines[0]["policy"] == "elasticutor" and lines[0]["changes"]
        assert json.loads(done("decisions", "running", "--json").splitlines()[0]) == lines[0]
        assert "Decisions, newest first" in done("top", "--once")
        assert json.loads(done("autoscale", "--stop", "--json"))["id"] == id
        assert gateway.released == 1
        assert "stopped" in done("autoscalers", "--all")
        assert "target_s = 0.1" in done("policies", "elasticutor")

    def test_a_policy_of_a_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "own_policies.py").write_text(OWN)
        monkeypatch.syspath_prepend(str(tmp_path))
        assert "of a file beside" in done("policies", "own_policies:Own")
        more = ("--set", "lanes=3", "--interval", "100ms", "--json")
        id = json.loads(done("autoscale", "--policy", "own_policies:Own", *more))["id"]
        until(lambda: "-> 3 lanes" in done("decisions"))
        assert id.startswith("own-1-")
        assert f"{id} has stopped" in done("autoscale", "--stop", "--id", id)

    def test_a_report_of_what_runs(self, tmp_path: Path, gateway: Restless) -> None:
        gateway.restless = True
        done("autoscale", "--policy", "elasticutor", "--interval", "100ms")
        page, trace = tmp_path / "run.html", tmp_path / "trace"
        said = done("report", "--live", "--duration", "3s", "-o", page, trace)
        assert said == f"wrote {page}\n"
        assert "running:0.0" in page.read_text("utf-8")
        assert "elasticutor" in trace.read_text("utf-8")
        assert run("report", "--live", "--duration", "3s", "-o", page, trace).exit_code == 2

    def test_a_report_that_cannot_be_drawn_is_told_before_the_wait(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        page, trace = tmp_path / "run.html", tmp_path / "trace"
        result = run("report", "--live", "--duration", "1h", "-o", page, trace)
        assert result.exit_code == 2 and "pip install matplotlib" in result.output
        assert not page.exists() and not trace.exists()

    @pytest.mark.parametrize(
        ("arguments", "code", "words"),
        [
            (("lanes", "nobody", 2), 3, ["no elastic query 'nobody'", "'running'"]),
            (("lanes", "running", 2, "--operator", 9), 3, ["no such elastic operator (9)"]),
            (("lanes", "running", 2), 2, ["several that could be meant", "1 (stateStoreSave)"]),
            (("lanes", "running", 99, "--operator", 0), 2, ["99 lanes", "1 to 6"]),
            (("lanes", "running", 2, "--partition", "some"), 2, ["--partition", "'some'"]),
            (("lanes", "running"), 2, ["Missing argument"]),
            (("lanes", "running", 2, "--operator", 0, "--on", "2"), 2, ["--on", "a number"]),
            (
                (
                    "move",
                    "running",
                    "--shard",
                    99,
                    "--to-lane",
                    1,
                    "--partition",
                    0,
                    "--operator",
                    0,
                ),
                3,
                ["no shard 99"],
            ),
            (("limit-source", "running", 1, "9999s"), 2, ["DURATION", "3600"]),
            (("limit-source", "running", 1, "9"), 2, ["DURATION", "'9'", "text with a unit"]),
            (("rescale", "nobody", "--cancel"), 3, ["no elastic query 'nobody'"]),
            (("autoscale", "--policy", "elastik"), 2, ["elastik", "one of"]),
            (("autoscale", "--policy", "faa", "--set", "x"), 2, ["KEY=VALUE"]),
            (("autoscale", "--policy", "faa", "--set", "a=1"), 2, ["parameter of faa", "'a'"]),
            (("autoscale", "--policy", "no_such:Policy"), 2, ["No module named", "PYTHONPATH"]),
            (("autoscale", "--policy", "os:system"), 2, ["a subclass of Policy"]),
            (("autoscale", "--target-latency", "50"), 2, ["--target-latency", "50ms"]),
            (("autoscale", "running", "--stop"), 2, ["without QUERY"]),
            (("autoscale", "--stop"), 3, ["no id was given", "laneshift autoscale"]),
            (("autoscale", "--stop", "--id", "faa-7"), 3, ["faa-7"]),
            (("decisions", "running"), 3, ["none has driven", "laneshift autoscale"]),
            (("decisions", "--id", "faa-7"), 3, ["faa-7"]),
            (("report",), 2, ["a recorded trace, or --live"]),
            (("report", "--live", "-o", "x.pdf"), 2, [".html"]),
        ],
    )
    def test_wrong_input(self, arguments: tuple[Any, ...], code: int, words: list[str]) -> None:
        result = run(*arguments)
        assert result.exit_code == code, result.output
        for word in words:
            assert word in " ".join(result.output.split())
        assert "Traceback" not in result.output


def test_a_half_policy_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "half_policies.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    result = run("policies", "half_policies:Half")
    assert result.exit_code == 2
    assert "Half without summary, source, decide" in " ".join(result.output.split())


class TestTheWayThere:
    def test_nothing_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("LANESHIFT_CONTROL", "LANESHIFT_TOKEN", "LANESHIFT_TOKEN_FILE"):
            monkeypatch.delenv(name, raising=False)
        result = run("snapshot")
        assert result.exit_code == 2 and "LANESHIFT_CONTROL" in result.output
        result = run("snapshot", "--control", "h:1")
        assert result.exit_code == 2 and "LANESHIFT_TOKEN_FILE" in result.output
        result = run("snapshot", "--token-file", "/nowhere/token")
        assert result.exit_code == 2 and "token file /nowhere/token" in result.output
        assert "Copy it from the driver's machine" in result.output

    def test_the_environment_and_options(
        self, token: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        address = (tmp_path / "token.address").read_text().strip()
        monkeypatch.delenv("LANESHIFT_TOKEN_FILE")
        done("snapshot", "--control", address, "--token-file", token)
        monkeypatch.setenv("LANESHIFT_CONTROL", address)
        monkeypatch.setenv("LANESHIFT_TOKEN", TOKEN)
        done("snapshot")
        monkeypatch.setenv("LANESHIFT_TOKEN_FILE", str(tmp_path / "nowhere"))
        done("snapshot")
        monkeypatch.setenv("LANESHIFT_TOKEN", "another-one-of-these")
        result = run("snapshot")
        assert result.exit_code == 5 and "lets nobody in" in result.output
        assert "another-one" not in result.output
        done("snapshot", "--token-file", token)

    def test_nobody_answers(self, token: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        for command in (("snapshot",), ("top", "--once"), ("autoscale", "--stop"),
                        ("report", "--live")):  # fmt: skip
            result = run(*command, "--control", f"127.0.0.1:{port}")
            assert result.exit_code == 4, result.output
            assert "No control service answers" in result.output
            assert "Traceback" not in result.output

    def test_no_option_takes_a_token(self) -> None:
        for command in ("snapshot", "top", "lanes", "decisions", "report"):
            assert "--token " not in run(command, "--help").output
