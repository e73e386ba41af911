"""A session after another in one process, as in a notebook: it finds nothing of the first one."""

from __future__ import annotations

from pathlib import Path

import pytest

from live.conftest import run_app

pytestmark = [pytest.mark.live, pytest.mark.deep("kills")]


def test_a_new_session_starts_clean(tmp_path: Path) -> None:
    seen = run_app(Path(__file__).with_name("again_app.py"), tmp_path, limit_s=240)
    assert seen["before"] == [1, 1]
    assert seen["left"] is False, "the first application's driver state"
    assert seen["executors"] == ["driver"]
    assert (seen["queries"], seen["decisions"], seen["handoffs"]) == ([], [], 0)
    assert seen["old query"] == "LANESHIFT_NO_SUCH_QUERY"
    assert seen["claim"] == "ok"
    assert seen["now"] == ["of the second session"]
