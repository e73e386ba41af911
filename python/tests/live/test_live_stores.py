"""An autoscaler that rescales: many state partitions on two cores become few, and it says why.

In the gate: autoscale/test_tapes.py, autoscale/test_rescales.py.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from live.conftest import run_app

pytestmark = [pytest.mark.live, pytest.mark.deep("policies")]
APP = Path(__file__).with_name("stores_app.py")
PARTITIONS = 64


@pytest.mark.timeout(1300)
@pytest.mark.parametrize("policy", ["laneshift", "resource-centric"])
def test_commits_of_many_stores_are_seen_and_fewer_take_over(tmp_path: Path, policy: str) -> None:
    seen = run_app(APP, tmp_path, PARTITIONS, policy, limit_s=1200)
    assert "laneshift, naive-ec, resource-centric do" in seen["refused"]
    assert seen["errors"] == [] and seen["applied"]
    ((before, after, words),) = seen["decided"]
    assert before == PARTITIONS and 1 <= after <= 8
    assert re.fullmatch(
        rf"counted {PARTITIONS} -> {after} state partitions: a batch takes .* s of it commits of"
        rf" {PARTITIONS} stores in 2 tasks at a time; with {after}, .* s are expected; .*",
        words,
    )
    assert not seen["dry_applied"]
    assert seen["dry"][0].startswith(f"counted {PARTITIONS} -> ")
    assert seen["partitions"] == [PARTITIONS, after]
    assert seen["equal"] and seen["keys"] > 40
    was, now = seen["batch_s"]
    print(
        f"{policy}: {PARTITIONS} -> {after} partitions, a batch took {was:.2f} s, now {now:.2f} s"
    )
