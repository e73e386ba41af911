"""The examples of docs/control.md, against a driver."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import laneshift
from live.applications import controlled

pytestmark = [pytest.mark.live, pytest.mark.deep("surface")]

PAGE = (Path(__file__).parents[3] / "docs" / "control.md").read_text("utf-8")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("control")
    with controlled(folder) as token:
        address = (folder / "token.address").read_text("utf-8").strip()
        with laneshift.attach(address, token_file=token) as app:
            end = time.monotonic() + 60
            while not [o for q in app.snapshot().queries for o in q.operators]:
                assert time.monotonic() < end
                time.sleep(0.2)
        scripts = str(Path(sys.executable).parent)
        yield os.environ | {
            "LANESHIFT_CONTROL": address,
            "LANESHIFT_TOKEN_FILE": str(token),
            "PATH": os.pathsep.join((scripts, os.environ["PATH"])),
            "PYTHONPATH": str(Path(laneshift.__file__).parents[1]),
        }


def block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


def output(command: list[str], environment: dict[str, str], folder: Path) -> str:
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=200,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_commands(environment: dict[str, str], tmp_path: Path) -> None:
    said = output(["bash", "-ec", block("bash")], environment, tmp_path)
    assert "['orders']" in said
    assert re.search(r"elasticutor-1-\w+: running", said)
    assert re.search(r"elasticutor-1-\w+ has stopped", said)
    assert "<html" in (tmp_path / "orders.html").read_text("utf-8")


def test_python(environment: dict[str, str], tmp_path: Path) -> None:
    said = output([sys.executable, "-c", block("python")], environment, tmp_path)
    assert "elasticutor True" in said
