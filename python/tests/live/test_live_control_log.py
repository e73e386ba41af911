"""What a driver's log says at PySpark's own level when its control process has a wrong setting."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from live.applications import running

pytestmark = [pytest.mark.live, pytest.mark.deep("surface")]

APP = """
import sys
from pyspark.sql import SparkSession
import laneshift

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
for option in sys.argv[1:]:
    builder = builder.config(*option.split("=", 1))
spark = laneshift.configure(builder).getOrCreate()
print("started", flush=True)
sys.stdin.read()
spark.stop()
"""


def said(folder: Path, until: str, *options: str) -> str:
    """What an application with these options has said once it has said ``until``."""
    app, log = folder / "app.py", folder / "log"
    app.write_text(APP)
    given = (f"spark.sql.laneshift.{option}" for option in options)
    with running([sys.executable, str(app), *given], log, until, reads=True):
        return " ".join(log.read_text("utf-8").split())


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        log = said(tmp_path, f"cannot listen at {at}", f"control.port={at.rpartition(':')[2]}")
    assert "another process has it" in log and "control.port to another port" in log


def test_a_token_that_others_may_read(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a-token-that-all-may-read")
    token.chmod(0o644)
    options = ("control.port=0", f"control.tokenFile={token}")
    log = said(tmp_path, "goes on without an autoscaler and a control service", *options)
    assert f"Run chmod 600 {token}" in log and token.read_text() not in log


def test_a_python_without_the_packages(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -E -S "$@"\n')
    bare.chmod(0o755)
    log = said(tmp_path, "has ended with code", "control.port=0", f"autoscaler.python={bare}")
    assert (
        f"{bare} has no package laneshift. Install laneshift's wheel with [control] into it" in log
    )
    assert "spark.sql.laneshift.autoscaler.python" in log


def test_a_python_that_is_not_there(tmp_path: Path) -> None:
    options = ("control.port=0", "autoscaler.python=/nowhere/python")
    log = said(tmp_path, "goes on without an autoscaler and a control service", *options)
    assert "cannot be started by /nowhere/python" in log and "autoscaler.python" in log
