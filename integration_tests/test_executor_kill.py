"""kill -9 of executors under a query that an autoscaler drives: the answer is stock Spark's.

``LANESHIFT_KILLS`` sets the number of kills (default 3; `make deep ROOMS=kills KILLS=50`).
The seed is printed and can be set with ``LANESHIFT_SEED``.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from live.conftest import run_app

KILLS = int(os.environ.get("LANESHIFT_KILLS", "3"))
SEED = int(os.environ["LANESHIFT_SEED"])


@pytest.mark.deep("kills")
@pytest.mark.timeout(7200)
def test_killed_executors_leave_the_answer_of_stock_spark(tmp_path: Path) -> None:
    print(f"seed {SEED}")
    app = Path(__file__).with_name("executors_app.py")
    seen = run_app(app, tmp_path, KILLS, SEED, limit_s=600 + 60 * KILLS)
    print(f"{seen['killed']} killed, {seen['moved']} moves, {seen['rows']} rows")
    assert seen["wrong"] == [], f"seed {SEED}"
    assert seen["identical"], f"seed {SEED}"
    assert seen["killed"] == KILLS and seen["moved"] > 0
    assert seen["errors"] == []
