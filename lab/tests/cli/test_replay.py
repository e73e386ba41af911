"""The command that decides again on recorded traces; what is said of files that are no trace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from laneshift.cli.main import COMMANDS as OWN
from laneshift.cli.main import LAB
from laneshift_lab.cli.main import COMMANDS, main
from policies.recorded import BAD, sample, write


def run(*args: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, args)
    return result.exit_code, result.output


def test_cli_help_and_version_import_no_sub_command() -> None:
    code, text = run("--help")
    assert code == 0 and all(name in text for name in COMMANDS)
    assert run("--version")[0] == 0


def test_laneshift_names_the_commands_of_the_lab() -> None:
    assert sorted(LAB) == sorted(COMMANDS.keys() - OWN.keys())


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


@pytest.mark.parametrize(("text", "words"), BAD)
@pytest.mark.parametrize("command", [["replay"], ["simulate", "--trace"]])
def test_a_bad_trace_is_refused_before_anything_is_shown(
    tmp_path: Path, command: list[str], text: str | None, words: list[str]
) -> None:
    path = tmp_path / "t.jsonl"
    if text is not None:
        path.write_text(text)
    code, said = run(*command, str(path), "--policy", "static")
    assert code == 2
    assert said.startswith("Error:")
    for word in words:
        assert word in said
