"""Leases on a cluster of executors in processes of their own: tasks that hold lanes' cores.

In the gate: LeasesSuite.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from live.conftest import run_app

pytestmark = [pytest.mark.live, pytest.mark.deep("policies"), pytest.mark.timeout(900)]


def test_leases_keep_other_jobs_off_and_starve_nobody(tmp_path: Path) -> None:
    seen = run_app(Path(__file__).with_name("lease_app.py"), tmp_path, limit_s=800)
    assert seen["identical"] and seen["keys"] == 300 and seen["rows"] > 0, seen
    assert seen["without"] >= 2, (
        "other jobs use the executor's three cores where nothing holds them"
    )
    assert seen["with"] <= 1, "two of three cores are held"
    assert seen["jobs"] >= 2
    assert seen["beside"] == {}, "a Real-time query begins only where slots are free"
    assert seen["in_real_time"] == "LANESHIFT_NO_LEASE_IN_REAL_TIME"
    assert seen["beside_real_time"] == "LANESHIFT_NO_LEASE_BESIDE_REAL_TIME"
    assert "tasks of streaming queries need its cores" in seen["note"]
    assert seen["after"] == {}
