"""Executors on demand on a cluster of executors in processes of their own.

In the gate: autoscale/test_tapes.py, autoscale/test_on_demand.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from live.conftest import run_app

pytestmark = [pytest.mark.live, pytest.mark.deep("policies"), pytest.mark.timeout(1000)]


def test_executors_come_for_a_hot_partition_and_go_again(tmp_path: Path) -> None:
    seen = run_app(Path(__file__).with_name("demand_app.py"), tmp_path, limit_s=900)
    assert seen["identical"], seen
    assert (seen["keys"], seen["errors"], seen["lost"]) == (300, [], 0), seen
    assert seen["calm"][0] == "None" and seen["calm"][1] > 0, seen["calm"]
    assert "gets no more tasks, the others have slots for all" in seen["calm_page"]
    assert seen["home"] == seen["first"], "the one that the application has without an autoscaler"
    assert seen["came"] and seen["first"] not in seen["asked"] and seen["most"] <= 3
    assert set(seen["lanes_on"]) & set(seen["asked"])
    assert seen["left"] == [False]
    said = seen["said"]
    (first, *_) = [line for line in said if "asks Spark for" in line]
    assert "of at most 3: with enough of them lanes would get" in first and "hot:0.0" in first
    given = [line for line in said if "is given back: for 8 s no lane has needed its cores" in line]
    assert len(given) >= 2 + len(seen["came"]), said
    assert "is given back: nothing was on it" in seen["page"]
