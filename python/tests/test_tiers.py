"""Which tests run when, and what is said of a test that is stuck."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

import stuck
import tiers

pytest_plugins = ("pytester",)

SOME = """
import os, pytest
from hypothesis import given, settings, strategies as st

def test_gate():
    pass

@pytest.mark.deep("pairs")
def test_pair():
    pass

@pytest.mark.deep("kills")
@pytest.mark.timeout(7)
def test_kill():
    pass

drawn = []

@settings(max_examples=20)
@given(st.integers())
def test_property(n):
    drawn.append(n)

def test_seed():
    print("seed", os.environ["LANESHIFT_SEED"])
"""


@pytest.fixture
def tests(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.Pytester]:
    monkeypatch.delenv("LANESHIFT_SEED")
    pytester.makeini("[pytest]\naddopts = -p tiers -p no:cacheprovider")
    pytester.makepyfile(SOME)
    before = settings.get_current_profile_name()
    yield pytester
    settings.load_profile(before)


def ran(tests: pytest.Pytester, *options: str) -> set[str]:
    said = tests.runpytest_inprocess("-v", *options).stdout.str()
    return set(re.findall(r"::test_(\w+) PASSED", said))


def test_the_gate_is_all_that_is_not_deep(tests: pytest.Pytester) -> None:
    assert ran(tests) == {"gate", "property", "seed"}
    assert os.environ["LANESHIFT_SEED"] == tiers.GATES_SEED
    tests.runpytest_inprocess().assert_outcomes(passed=3, deselected=2)  # none is skipped


def test_rooms_are_chosen_by_name(tests: pytest.Pytester) -> None:
    assert ran(tests, "--deep", "pairs") == {"pair"}
    assert ran(tests, "--deep", "pairs,kills") == {"pair", "kill"}
    assert ran(tests, "--deep", "all") == {"pair", "kill", "property"}


@pytest.mark.parametrize("wrong", ["pears", "pairs,pears", ""])
def test_a_room_that_is_none_is_refused(tests: pytest.Pytester, wrong: str) -> None:
    done = tests.runpytest_inprocess("--deep", wrong)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines([f"ERROR: --deep {wrong}: *pairs, motion*"])


@pytest.mark.parametrize("mark", ["deep", 'deep("pears")', 'deep("pairs", 2)'])
def test_a_mark_without_a_room_is_refused(tests: pytest.Pytester, mark: str) -> None:
    tests.makepyfile(test_wrong=f"import pytest\n@pytest.mark.{mark}\ndef test_it(): pass\n")
    done = tests.runpytest_inprocess("--collect-only")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["ERROR: test_wrong.py::test_it: expected deep(room)*pairs, motion*"])


def test_examples_are_the_same_each_time_in_the_gate_and_more_and_others_in_depth(
    tests: pytest.Pytester,
) -> None:
    tests.makeconftest(
        "def pytest_runtest_teardown(item):\n"
        "    if item.name == 'test_property': print('drawn', item.module.drawn)\n"
    )

    def drawn(*options: str) -> list[str]:
        said = tests.runpytest_inprocess("-s", *options).stdout.str()
        (found,) = re.findall(r"drawn \[(.*)\]", said)
        return str(found).split(", ")

    gate = drawn()
    assert len(gate) <= 20 and drawn() == gate
    os.environ.pop("LANESHIFT_SEED")
    deep = drawn("--deep", "policies")
    assert len(deep) > 100 and os.environ["LANESHIFT_SEED"] != tiers.GATES_SEED
    assert drawn("--deep", "policies") == deep, "the seed that was printed repeats them"


def test_a_limit_is_the_tests_own_or_its_tiers(tests: pytest.Pytester) -> None:
    items, _ = tests.inline_genitems("--deep", "all")
    marks = {item.name: item.get_closest_marker("timeout") for item in items}
    assert {name: mark.args[0] for name, mark in marks.items() if mark} == {
        "test_pair": tiers.DEEP_S,
        "test_kill": 7,
        "test_property": tiers.DEEP_S,
    }


SLEEPY = """
public class Sleepy {
  public static void main(String[] none) throws Exception {
    System.out.println("up");
    System.in.read();
  }
}
"""


def test_threads_of_a_jvm_that_was_started_are_told(tmp_path: Path) -> None:
    """Of a child's child, too."""
    (tmp_path / "Sleepy.java").write_text(SLEEPY)
    code = "import subprocess, sys; subprocess.run(['java', 'Sleepy.java'], stdin=sys.stdin)"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as child:  # fmt: skip
        assert child.stdout is not None and child.stdout.readline() == "up\n"
        assert not stuck.jvms(child.pid + 10**7)
        (jvm,) = stuck.jvms(child.pid)
        said = stuck.said("the test")
        child.communicate("\n")
    assert "the test is near its limit" in said
    assert f"threads of JVM {jvm}" in said and "Sleepy.main" in said
