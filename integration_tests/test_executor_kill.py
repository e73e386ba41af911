"""kill -9 of executors under a query that a scheduler drives: the answer is stock Spark's.

``LANESHIFT_KILLS`` sets the number of kills (default 3; `make test-all` has more). The seed is
printed and can be set with ``LANESHIFT_SEED``.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

APP = Path(__file__).with_name("executors_app.py")
TESTS = Path(__file__).parents[1] / "python" / "tests"
KILLS = int(os.environ.get("LANESHIFT_KILLS", "3"))
SEED = int(os.environ.get("LANESHIFT_SEED", str(random.randrange(10**6))))


@pytest.mark.timeout(7200)
def test_killed_executors_leave_the_answer_of_stock_spark(tmp_path: Path) -> None:
    path = os.pathsep.join(p for p in (str(TESTS), os.environ.get("PYTHONPATH")) if p)
    done = subprocess.run(
        [sys.executable, str(APP), str(tmp_path), str(KILLS), str(SEED)],
        env=os.environ
        | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=600 + 60 * KILLS,
        check=False,
    )
    assert done.returncode == 0, f"seed {SEED}\n{done.stdout[-2000:]}{done.stderr[-6000:]}"
    seen = json.loads(done.stdout.splitlines()[-1])
    print(f"seed {SEED}: {seen['killed']} killed, {seen['moved']} moves, {seen['rows']} rows")
    assert seen["wrong"] == [], f"seed {SEED}"
    assert seen["identical"], f"seed {SEED}"
    assert seen["killed"] == KILLS and seen["moved"] > 0
    assert seen["errors"] == []
