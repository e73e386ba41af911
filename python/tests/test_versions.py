"""scripts/versions.py: what it finds on a machine, and what it asks for as CI and docs do."""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """The script's names, on a machine that has nothing but this Python and its Java."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    names = runpy.run_path(str(ROOT / "scripts" / "versions.py"))
    inside = names["find"].__globals__
    inside.update(JDK_FOLDERS=(f"{tmp_path}/*",), PYTHON_FOLDERS=(), OUT=tmp_path / "out")
    for name in ("JAVA_HOME", "JDKS", "PYTHONS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setitem(inside, "known", _without_the_path(inside["known"], tmp_path))
    return names


def _without_the_path(known: Callable[[str], Any], folder: Path) -> Callable[[str], Any]:
    """Of the JDKs only those of the test, and those that are named."""
    return lambda kind: (
        place
        for place in known(kind)
        if kind == "PYTHONS" or place.is_relative_to(folder) or place.name == "named"
    )


def _jdk(folder: Path, version: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-01' >&2\n")
    java.chmod(0o755)
    return folder


def test_what_is_wanted_is_in_ci_and_in_the_docs(versions: dict[str, Any]) -> None:
    wanted = {kind: list(names) for kind, names in versions["WANTED"].items()}
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text("utf-8")
    matrix = {
        kind: [re.findall(r'"([\d.]+)"', line) for line in re.findall(rf"{kind}: \[.*", workflow)]
        for kind in ("java", "python")
    }
    assert wanted["JDKS"] in matrix["java"]
    assert matrix["python"] == [wanted["PYTHONS"]]
    page = (ROOT / "docs" / "deploy.md").read_text("utf-8")
    for kind, row in (("JDKS", "Java"), ("PYTHONS", "Python, of the package")):
        (cells,) = re.findall(rf"^\| {row} \|(.*)\|$", page, re.M)
        assert ", ".join(wanted[kind]) in cells


def test_the_newest_of_a_jdk_is_taken_and_old_ones_are_not(
    versions: dict[str, Any], tmp_path: Path
) -> None:
    for folder, version in (("a", "17.0.2"), ("b", "17.0.15"), ("c", "1.8.0_402"), ("d", "25-ea")):
        _jdk(tmp_path / folder, version)
    found = versions["find"]("JDKS")
    assert found == {
        "17": ("17.0.15", tmp_path / "b"),
        "21": ("21", None),
        "25": ("25", tmp_path / "d"),
    }


def test_what_is_named_goes_first(
    versions: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _jdk(tmp_path / "a", "17.0.15")
    named = _jdk(tmp_path / "elsewhere" / "named", "17.0.1")
    monkeypatch.setenv("JDKS", f"{named} 19")
    assert versions["find"]("JDKS") == {"17": ("17.0.1", named), "19": ("19", None)}
    monkeypatch.setenv("PYTHONS", sys.executable)
    assert [found[1] for found in versions["find"]("PYTHONS").values()] == [Path(sys.executable)]
    monkeypatch.setenv("JDKS", str(tmp_path / "nothing"))
    with pytest.raises(SystemExit, match="nothing, which is neither a version"):
        versions["find"]("JDKS")


@pytest.mark.parametrize(
    ("report", "code", "says"),
    [
        ("<testcase name='a' time='1'/><testcase name='b' time='1'/>", 0, "2 passed"),
        ("<testcase name='a' time='1'><skipped/></testcase>", 0, "0 passed, 1 left out"),
        ("<testcase name='a' time='1'><failure/></testcase>", 1, "**failed**: a; 0 passed"),
        ("", 2, "**failed**: exit code 2; 0 passed"),
    ],
)
def test_a_cell_says_what_the_reports_and_the_exit_code_say(
    versions: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    report: str, code: int, says: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "of-before.xml").write_text("<x><testcase name='old' time='1'/></x>")
    write = f"open('now.xml', 'w').write({f'<x>{report}</x>'!r}); raise SystemExit({code})"
    said = versions["run"]("all", "log", [sys.executable, "-c", write], "*.xml")
    assert said.startswith(says)
