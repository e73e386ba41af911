"""``laneshift jar``: a path, or the way to get one."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from laneshift.cli.main import main
from laneshift.plugin import jar


@pytest.mark.parametrize("there", [True, False])
def test_jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    path = tmp_path / "laneshift" / "jars" / "laneshift-spark.jar"
    path.parent.mkdir(parents=True)
    monkeypatch.setattr(jar.resources, "files", lambda _: tmp_path / "laneshift")
    if there:
        path.write_bytes(b"jar")
    said = CliRunner().invoke(main, ["jar"])
    if there:
        assert (said.exit_code, said.output) == (0, f"{path}\n")
    else:
        assert said.exit_code == 1
        assert f"not at {path}" in said.output and "make jar" in said.output
