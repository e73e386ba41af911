"""The commands that list policies and show recorded traces."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from laneshift.cli.main import COMMANDS, LAB, main
from laneshift.policies import registry
from policies.recorded import BAD


def run(*args: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, args)
    return result.exit_code, result.output


def test_cli_help_and_version_import_no_sub_command() -> None:
    code, text = run("--help")
    assert code == 0 and all(name in text for name in COMMANDS)
    assert run("--version")[0] == 0


@pytest.mark.parametrize("name", LAB)
def test_what_the_lab_does_is_said(name: str) -> None:
    code, text = run(name, "trace.jsonl")
    assert code == 2 and "pip install laneshift-lab" in text


def test_cli_lists_and_explains_policies() -> None:
    code, text = run("policies")
    assert code == 0 and all(name in text for name in registry.BUILT_IN)
    code, text = run("policies", "elasticutor")
    assert code == 0 and "target_s = 0.1" in text
    code, text = run("policies", "nope")
    assert code == 2 and "elasticutor" in text


@pytest.mark.parametrize(("text", "words"), BAD)
def test_a_bad_trace_is_refused_before_anything_is_shown(
    tmp_path: Path, text: str | None, words: list[str]
) -> None:
    path = tmp_path / "t.jsonl"
    if text is not None:
        path.write_text(text)
    code, said = run("report", str(path))
    assert code == 2
    assert said.startswith("Error:")
    for word in words:
        assert word in said
    assert not list(tmp_path.glob("*.html"))
