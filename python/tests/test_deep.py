"""What the deep tier runs first, how it judges, and what it tells of wrong input."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def deep(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import deep  # type: ignore[import-not-found]

    monkeypatch.setattr(deep, "OUT", ROOT / "build" / "deep-tests" / tmp_path.name)
    return deep  # type: ignore[no-any-return]


def line(units: dict[str, float], failed: tuple[str, ...] = (), date: str = "1") -> dict[str, Any]:
    reds = [{"unit": u, "tests": ["t"], "cause": "", "repeat": "again"} for u in failed]
    return {
        "commit": "c0ffee",
        "date": date,
        "units": units,
        "failed": reds,
        "left_out": {},
    }


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("ROOMS=kills,kitchen", "'kitchen'.*Rooms: pairs, motion"),
        ("MINUTES=soon", "MINUTES is 'soon'; allowed are numbers above 0"),
        ("MINUTES=0", "MINUTES is '0'"),
        ("SEED=-3", "SEED is '-3'; allowed are whole numbers"),
        ("KILLS=many", "KILLS is 'many'"),
    ],
)
def test_wrong_input_is_told_before_anything_runs(deep: ModuleType, word: str, says: str) -> None:
    with pytest.raises(SystemExit, match=says):
        deep.asked_for([word])


def test_too_few_kills_are_told_before_anything_runs(deep: ModuleType) -> None:
    from deep_units import commands  # type: ignore[import-not-found]

    words = ["ROOMS=kills", "KILLS=5"]
    with pytest.raises(SystemExit, match="KILLS is 5; RandomKills takes whole numbers from 12"):
        list(commands("kills", deep.asked_for(words)))
    drivers = list(commands("kills", deep.asked_for([*words, "ONLY=test_driver_kill"])))
    assert drivers


def test_red_units_come_first_then_new_changed_and_old_ones(deep: ModuleType) -> None:
    lines = [
        line({"red": 1, "mended": 1}, failed=("red", "mended"), date="1"),
        line({"mended": 1, "old": 1, "changed": 1}, date="2"),
        line({"young": 1}, date="3"),
    ]
    names = ("young", "changed", "old", "new", "mended", "red")
    units = [deep.Unit("pairs", name, ("true",)) for name in names]
    ordered = sorted(units, key=lambda u: deep.urgency(u, lines, u.name == "changed"))
    assert [u.name for u in ordered] == ["red", "new", "changed", "old", "mended", "young"]


def shell(deep: ModuleType, script: str, **more: Any) -> Any:
    return deep.run(deep.Unit("speed", "unit", ("sh", "-c", script), **more), seed=5)


def test_a_unit_is_judged_by_its_exit_code_and_gets_the_seed(deep: ModuleType) -> None:
    assert shell(deep, "exit 0").failed == ()
    red = shell(deep, "echo why; exit 3")
    assert red.failed == ("exit code 3",)
    assert shell(deep, "exit 77").left_out == "not on this machine"
    assert shell(deep, 'test "$LANESHIFT_SEED" = 5').failed == ()
    assert shell(deep, "test {seed} = 5").failed == ()
    assert (ROOT / red.log).read_text() == "why\n", "kept, whatever ran since"


def test_reports_name_what_failed_and_none_is_no_green(deep: ModuleType, tmp_path: Path) -> None:
    report = tmp_path / "a.xml"
    cases = (
        '<testsuite><testcase name="good" time="1"/>'
        '<testcase name="bad" time="1"><failure/></testcase></testsuite>'
    )
    script = f"echo '{cases}' > {report}; exit 1"
    result = shell(deep, script, reports=str(report))
    assert (result.passed, result.failed) == (1, ("bad",))
    some = '<testcase name="good" time="1"/><testcase name="docker" time="0"><skipped/></testcase>'
    result = shell(deep, f"echo '<testsuite>{some}</testsuite>' > {report}", reports=str(report))
    assert (result.passed, result.left_out) == (1, "1 of 2 tests")
    # The report of the run before does not count.
    assert shell(deep, "exit 0", reports=str(report)).left_out == "no test of it ran here"


def test_a_unit_that_hangs_ends_with_what_it_started(deep: ModuleType, tmp_path: Path) -> None:
    held = tmp_path / "held"
    os.mkfifo(held)
    end = os.open(held, os.O_RDONLY | os.O_NONBLOCK)
    result = shell(deep, f"setsid tail -f /dev/null > {held} & wait", limit_s=1)
    assert result.failed == ("not done within 1 s",)
    os.set_blocking(end, True)
    assert os.read(end, 1) == b"", "what it started has ended, and its end of the pipe with it"
    os.close(end)


def test_a_unit_leaves_no_temporary_files(deep: ModuleType) -> None:
    red = shell(deep, 'mktemp -d; touch "$TMPDIR/more"; echo "$TMPDIR"; kill -9 $$')
    made = (ROOT / red.log).read_text().split()
    assert len(made) == 2 and not any(Path(folder).exists() for folder in made)


def test_a_line_says_what_repeats_a_failure(deep: ModuleType) -> None:
    unit = deep.Unit("kills", "RandomKills", ("true",))
    other = deep.Unit("kills", "HostKills", ("true",))
    red = deep.Result(unit, 7, 2.0, 0, ("exit code 1",), log="build/log")
    # The third of TIMES=3, say: each has a seed of its own.
    told = deep.line_of("kills", [red], [other], seed=5)
    assert told["failed"][0]["repeat"] == "make deep ROOMS=kills ONLY=RandomKills SEED=7"
    assert told["not_reached"] == ["HostKills"]
    assert json.loads(json.dumps(told)) == told


def test_the_page_has_a_failure_until_its_unit_is_green_again(
    deep: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    import verification  # type: ignore[import-not-found]

    red = line({"a": 1, "b": 1}, failed=("a",))
    assert [f["unit"] for f in verification.open_failures([red])] == ["a"]
    assert verification.open_failures([red, line({"a": 1})]) == []
    assert verification.last_green([red]) == "never"
    assert "1 of 2 units" in verification.last_green([red, line({"a": 1})])
    waits = line({"a": 1}) | {"not_reached": ["c", "d"]}
    assert "1 of 4 units" in verification.last_green([red, waits]), "what has not run is no green"


def test_the_rooms_of_the_build_are_some_of_them(deep: ModuleType) -> None:
    jvm = (ROOT / "build.sbt").read_text().split("deepRooms = Seq(")[1].split(")")[0]
    assert set(jvm.replace('"', "").split(", ")) <= set(deep.ROOMS)
