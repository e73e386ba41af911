"""The programs under ``examples/`` do what their pages say.

In the gate: LaneGrowthSuite, SpreadTrialSuite.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from live.conftest import environment, require_jar

pytestmark = [pytest.mark.live, pytest.mark.deep("policies")]
EXAMPLES = Path(__file__).parents[3] / "examples"


def _lines(program: str, *arguments: str) -> list[str]:
    require_jar()
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / program), *arguments],
        env=environment(EXAMPLES.parent / "python"),
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout.splitlines()


def _lanes(lines: list[str], operator: str) -> list[int]:
    said = [re.match(rf"{operator}: .*?(\d+) lanes", line) for line in lines]
    return [int(found[1]) for found in said if found]


def test_few_partitions_get_more_lanes() -> None:
    lanes = _lanes(_lines("few_partitions.py", "--seconds", "40"), "rowWise")
    assert lanes[0] == 2
    assert max(lanes) > 2, "on a machine with nothing else to do"


def test_a_hot_key_gets_many_lanes_above_its_state() -> None:
    lines = _lines("hot_key.py", "--seconds", "30")
    lanes = _lanes(lines, "rowWise")
    assert lanes[0] == 1
    assert max(lanes) > 1, "on a machine with nothing else to do"
    said = re.fullmatch(
        r"rowWise: \d+ lanes, ([\d,]+) answers; the hottest key has (\d+)%", lines[-1]
    )
    assert said is not None, lines
    assert int(said[1].replace(",", "")) > 0
    assert 50 < int(said[2]) < 70
