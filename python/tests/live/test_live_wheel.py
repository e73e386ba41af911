"""The wheel in an environment of its own: the jar is found there, and README's commands work."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pyspark
import pytest

import laneshift
from live.conftest import require_jar
from live.test_live_blocks import blocks
from live.test_live_submit import APP

pytestmark = [pytest.mark.live, pytest.mark.deep("surface")]
ROOT = Path(__file__).parents[3]


def done(command: list[str], folder: Path, **variables: str) -> str:
    """What it says, with nothing of this source tree in reach."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYSPARK"))}
    run = subprocess.run(
        command, cwd=folder, env=kept | variables, capture_output=True, text=True, timeout=240,
        check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[:3000] + run.stderr[-6000:]
    return run.stdout + run.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment's folder: the wheel, installed by pip, and what it needs from here."""
    require_jar()
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    shutil.copytree(
        ROOT / "python" / "laneshift", source / "python" / "laneshift",
        ignore=shutil.ignore_patterns("__pycache__"),
    )  # fmt: skip
    for name in ("pyproject.toml", "LICENSE", "NOTICE", "README.md"):
        shutil.copy(ROOT / name, source / name)
    done(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)],
        source,
        SETUPTOOLS_SCM_PRETEND_VERSION=laneshift.__version__,
    )
    (wheel,) = folder.glob("laneshift-*.whl")
    assert "laneshift/jars/laneshift-spark.jar" in zipfile.ZipFile(wheel).namelist()

    made = folder / "env"
    done([sys.executable, "-m", "venv", "--without-pip", str(made)], folder)
    python = str(made / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    done([*pip, "install", "--no-deps", "--no-index", str(wheel)], folder)
    # Behind the environment's own packages: no file in that folder that adds paths is read.
    place = done([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], folder)
    (Path(place.strip()) / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return made


def user(installed: Path) -> dict[str, str]:
    """Variables of who has activated the environment."""
    home = str(Path(pyspark.__file__).parent)
    path = os.pathsep.join((str(installed / "bin"), f"{home}/bin", os.environ["PATH"]))
    return {
        "PATH": path,
        "SPARK_HOME": home,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": str(installed / "bin" / "python"),
    }


def test_the_command_finds_the_jar(installed: Path, tmp_path: Path) -> None:
    said = Path(done(["laneshift", "jar"], tmp_path, **user(installed)).strip())
    assert said.is_file() and said.is_relative_to(installed)
    code = "import laneshift; print(laneshift.__file__, laneshift.__version__)"
    where, version = done(["python", "-c", code], tmp_path, **user(installed)).split()
    assert Path(where).is_relative_to(installed) and version == laneshift.__version__


def test_spark_submit(installed: Path, tmp_path: Path) -> None:
    """README's command with the option that it names below, but for its master."""
    (command,) = blocks("README.md", "live/test_live_wheel.py::test_spark_submit")
    there = "--master spark://master:7077 --executor-cores 8"
    assert there in command
    autoscaler = "--conf spark.sql.laneshift.autoscaler=laneshift"
    assert f"`{autoscaler}`" in (ROOT / "README.md").read_text("utf-8")
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "conf").mkdir()
    defaults = "spark.log.level INFO\nspark.ui.enabled false\n"
    (tmp_path / "conf" / "spark-defaults.conf").write_text(defaults)
    said = done(
        ["bash", "-ec", command.replace(there, f"--master local[4] {autoscaler}")], tmp_path,
        **user(installed), SPARK_CONF_DIR=str(tmp_path / "conf"),
    )  # fmt: skip
    assert "laneshift decides every 1 s" in said
    assert "Elastic" in said


def test_the_first_program(installed: Path, tmp_path: Path) -> None:
    """README's; its first wait is as long there, for a slow machine begins its first batch late."""
    (text,) = blocks("README.md", "live/test_live_wheel.py::test_the_first_program")
    before, after = text.split("query.awaitTermination(15)\nfor")
    assert before.count("awaitTermination(15)") == 1
    (tmp_path / "first.py").write_text(f"{before}query.awaitTermination(6)\nfor{after}")
    said = done(["python", "first.py"], tmp_path, **user(installed))
    for number in (0, 1):
        assert f"\n{number} lanes 4 rows by lane [" in "\n" + said
