"""The commands that list policies and read recorded traces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from laneshift.cli.main import COMMANDS, main
from laneshift.scheduler import registry
from scheduler.recorded import sample, write


def run(*args: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, args)
    return result.exit_code, result.output


def test_cli_help_and_version_import_no_sub_command() -> None:
    code, text = run("--help")
    assert code == 0 and all(name in text for name in COMMANDS)
    assert run("--version")[0] == 0


def test_cli_lists_and_explains_policies() -> None:
    code, text = run("policies")
    assert code == 0 and all(name in text for name in registry.BUILT_IN)
    code, text = run("policies", "elasticutor")
    assert code == 0 and "target_s = 0.1" in text
    code, text = run("policies", "nope")
    assert code == 2 and "elasticutor" in text


def test_cli_replays(tmp_path: Path) -> None:
    path = str(write(tmp_path / "t.jsonl", [sample(0, 15), sample(5, 35)]))
    code, text = run("replay", path, "--policy", "elasticutor", "--set", "target_s=2")
    assert code == 0 and "2->" in text and "2 decisions" in text
    code, text = run("replay", path, "--policy", "elasticutor", "--json")
    lines = [json.loads(line) for line in text.splitlines()]
    assert code == 0 and [each["time_s"] for each in lines] == [0, 5]
    code, text = run("replay", path, "--policy", "elasticutor", "--set", "target_s=-1")
    assert code == 2 and "target_s" in text
    assert run("replay", path, "--policy", "elasticutor", "--set", "target_s")[0] == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, ["trace", "expected a file", "start(policy, trace=FILE)"]),
        ("hello\n", ["first line", "hello", "laneshift_trace"]),
        ('{"laneshift_trace":1}\n', ["no cluster load", "at least one"]),
        ('{"laneshift_trace":1}\n{"time_s":1}\n', ["line 2"]),
    ],
)
@pytest.mark.parametrize("command", [["replay", "--policy", "static"], ["report"]])
def test_a_bad_trace_is_refused_before_anything_is_shown(
    tmp_path: Path, command: list[str], text: str | None, words: list[str]
) -> None:
    path = tmp_path / "t.jsonl"
    if text is not None:
        path.write_text(text)
    code, said = run(*command, str(path))
    assert code == 2
    assert said.startswith("Error:")
    for word in words:
        assert word in said
    assert not list(tmp_path.glob("*.html"))
