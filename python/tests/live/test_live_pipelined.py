"""Python functions that Spark feeds from a thread of its own, under motion."""

from __future__ import annotations

from pathlib import Path

import pytest

from live.conftest import run_app

pytestmark = [pytest.mark.live, pytest.mark.deep("pairs")]


@pytest.mark.timeout(600)
def test_pipelined_functions_give_stocks_rows(tmp_path: Path) -> None:
    seen = run_app(Path(__file__).with_name("pipelined_app.py"), tmp_path, limit_s=500)
    assert seen["pipelined"] == "true"
    assert seen["rows"] > 0
    assert (seen["missing"], seen["extra"]) == (0, 0)
    assert seen["handoffs"] > 0
