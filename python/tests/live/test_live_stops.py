"""A query whose Python function hangs is stopped: its lanes of every kind end as Spark's own tasks.

In the gate: live/test_live_rowwise.py (test_a_function_that_does_not_return_ends_with_its_query).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from live.conftest import run_app

pytestmark = [pytest.mark.live, pytest.mark.deep("remote")]

# Spark looks at a killed task's worker every second, and ends it two seconds later.
FREE_S = 15


@pytest.mark.parametrize("kind", ["stock", "home", "dealt", "range", "elsewhere"])
def test_slots_are_free_although_the_function_does_not_return(tmp_path: Path, kind: str) -> None:
    seen = run_app(Path(__file__).with_name("stop_app.py"), kind, tmp_path, limit_s=240)
    assert seen["free"] < FREE_S, seen
