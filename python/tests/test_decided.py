"""A live test of a policy says which tests of the gate prove what is decided in it.

The last sentence of its docstring, or of its module's, is ``In the gate: FILE, FILE.``: a module
below ``python/tests``, or a suite of the JVM.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIVE = Path(__file__).with_name("live")
DEEP = re.compile(r"""mark\.deep\(['"]policies['"]\)""")


def deep_tests() -> Iterator[tuple[str, str]]:
    """Names of tests of the room, and the docstrings that speak for them."""
    for file in sorted(LIVE.glob("test_*.py")):
        tree = ast.parse(file.read_text("utf-8"))
        marks = [ast.unparse(n.value) for n in tree.body if isinstance(n, ast.Assign)
                 and ast.unparse(n.targets[0]) == "pytestmark"]  # fmt: skip
        for test in tree.body:
            if isinstance(test, ast.FunctionDef) and test.name.startswith("test_"):
                own = " ".join(map(ast.unparse, test.decorator_list))
                if DEEP.search(own + " ".join(marks)):
                    said = ast.get_docstring(test) or ""
                    if "In the gate:" not in said:
                        said = ast.get_docstring(tree) or ""
                    yield f"{file.stem}::{test.name}", said


@pytest.mark.parametrize(
    ("name", "said"), list(deep_tests()), ids=lambda each: each.split()[0][:80]
)
def test_who_proves_the_decision_is_said(name: str, said: str) -> None:
    found = re.search(r"In the gate: ([^.]+(?:\.py[^.]*)*)\.\s*$", said)
    assert found, (
        f"{name}: end its docstring with `In the gate: FILE.`, which proves what it decides"
    )
    for each in re.split(r",\s+", found[1]):
        file = ROOT / "python" / "tests" / each
        suites = list(ROOT.glob(f"jvm/*/src/test/**/{each}.scala"))
        files = [file] if each.endswith(".py") and file.is_file() else suites
        assert files, f"{name}: no {each}"
        text = files[0].read_text("utf-8")
        assert not re.search(r"^pytestmark = .*mark\.deep|with DeepSuite", text, re.M), each
