"""``laneshift-lab jar``: a path, or the way to get one; and a builder gets what is there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from laneshift_lab import workload
from laneshift_lab.cli.main import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where it would be."""
    monkeypatch.setattr(workload.resources, "files", lambda _: tmp_path / "laneshift_lab")
    path = tmp_path / "laneshift_lab" / "jars" / "laneshift-workload.jar"
    path.parent.mkdir(parents=True)
    return path


class Builder:
    """As Spark's, as far as it is asked."""

    def __init__(self, **options: str) -> None:
        self._options = options

    def config(self, key: str, value: str) -> Builder:
        self._options[key] = value
        return self


def test_the_path(jar: Path) -> None:
    jar.write_bytes(b"jar")
    said = CliRunner().invoke(main, ["jar"])
    assert (said.exit_code, said.output) == (0, f"{jar}\n")


def test_without_it(jar: Path) -> None:
    said = CliRunner().invoke(main, ["jar"])
    assert said.exit_code == 1
    assert f"not at {jar}" in said.output and "make jar" in said.output


def test_a_builder_has_it_behind_the_plugins(jar: Path) -> None:
    jar.write_bytes(b"jar")
    builder: SparkSession.Builder = Builder(**{"spark.jars": "plugin.jar"})  # type: ignore[assignment]
    assert workload.with_workload(builder) is builder
    options: dict[str, str] = builder._options  # type: ignore[assignment]
    assert options["spark.jars"] == f"plugin.jar,{jar}"
    assert options["spark.driver.extraClassPath"] == str(jar)
