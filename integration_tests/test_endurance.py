"""The endurance run for a minute and a half: it goes on, and a wrong answer stops it.

The seed is printed and can be set with ``LANESHIFT_SEED``.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from laneshift_bench.endurance import checked, lives, run
from laneshift_bench.numbered import KEYS
from laneshift_bench.query import BenchmarkError

SEED = int(os.environ["LANESHIFT_SEED"])


@pytest.mark.deep("endurance")
@pytest.mark.timeout(3600)
def test_it_goes_on_and_a_wrong_answer_stops_it(tmp_path: Path) -> None:
    print(f"seed {SEED}")
    first = run(60, tmp_path, SEED)
    (life,) = lives(tmp_path)
    answers, rows = checked(tmp_path)
    print(f"{answers} answers, {rows} rows, {life}")
    assert life.ended and life.moves > 0 and life.states == 2
    assert answers > 10 * KEYS and rows > 20_000
    assert {row[0] for row in first.rows} == {"driver", "executor", "python"}
    # As if the input were a batch further than what was answered: a batch is lost.
    file = tmp_path / "totals.json"
    known = json.loads(file.read_text())
    file.write_text(json.dumps(known | {"rows": known["rows"] + 2000}))
    with pytest.raises(BenchmarkError, match=r"WRONG ANSWER: totals, batch \d+: .* lost"):
        run(120, tmp_path)
    with pytest.raises(BenchmarkError, match="does not go on"):
        run(120, tmp_path)
