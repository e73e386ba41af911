"""Executors in processes of their own: policies place a hot partition's lanes on them.

In the gate: autoscale/test_tapes.py, autoscale/test_places.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from live.conftest import run_app

pytestmark = [pytest.mark.live, pytest.mark.deep("remote")]


@pytest.mark.parametrize("policy", ["laneshift", "elasticutor"])
def test_a_hot_partition_has_lanes_on_other_executors(tmp_path: Path, policy: str) -> None:
    seen = run_app(Path(__file__).with_name("place_app.py"), tmp_path, policy, limit_s=700)
    assert seen["identical"], seen
    assert (seen["keys"], seen["rows_out"]) == (300, 60_000)
    assert seen["errors"] == []
    assert seen["home"] not in seen["first"]
    assert seen["remote_rows"] > 1000
    assert seen["lost"] == 0, "an executor went before its lanes had left it"
    there = [line for line in seen["said"] if "on executor" in line and "lanes," in line]
    assert there and any("-> 1 lanes" in line for line in seen["said"]), seen["said"]
    for shown in (seen["page"], seen["top"]):
        assert f"on executor {seen['joined']}" in shown, shown[:6000]
    assert "of them idle" in seen["top"]


def test_lanes_have_the_cores_that_an_executor_got_without_asking(tmp_path: Path) -> None:
    seen = run_app(Path(__file__).with_name("cores_app.py"), tmp_path, limit_s=200)
    assert seen == {"room": 2, "cores": [3]}


def test_200_partitions_have_lanes_elsewhere_over_secured_connections(tmp_path: Path) -> None:
    seen = run_app(Path(__file__).with_name("many_app.py"), tmp_path, limit_s=500)
    assert seen["identical"], seen
    assert seen["keys"] == 300
    # Spark computes many of them on the other executor by the next batch: then that is home.
    assert min(seen["wanted"], seen["elsewhere"], seen["rows"]) > 0, seen
    assert (seen["lost"], seen["kept"]) == (0, 0), seen
