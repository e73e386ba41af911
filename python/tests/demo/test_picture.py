"""The picture is drawn for one mode or two, with moves or without."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from laneshift import Handoff
from laneshift.demo.picture import _percentile, _rate, draw
from laneshift.demo.run import Run
from laneshift.demo.updates import Updates
from plugin.fake import HANDOFF

pytest.importorskip("matplotlib")


def made_run(mode: str, *, moved: bool) -> Run:
    updates = Updates()
    began = 1_700_000_000_000_000
    for number in range(1, 501):
        at = began + number * 10_000
        updates.add(at, at - 5_000, f"1,IAH,UA,{number},1,2,2,2.0,5")
    handoffs = tuple(
        Handoff.from_json(HANDOFF | {"time_ms": began // 1000 + 1000 + n, "reason": reason})
        for n, reason in enumerate(["user", "balance", "scale", "motion", "new"])
    )
    changes = ((0.0, 1), (1.5, 4), (3.0, 2)) if moved else ()
    return Run(mode, began, 5.0, updates, handoffs if moved else (), changes)


@pytest.mark.parametrize("moved", [True, False])
@pytest.mark.parametrize("modes", [("micro-batch", "real-time"), ("real-time",)])
def test_a_picture_is_drawn(tmp_path: Path, modes: tuple[str, ...], moved: bool) -> None:
    file = tmp_path / "new" / "demo.png"
    draw([made_run(mode, moved=moved) for mode in modes], "A title", file)
    assert file.read_bytes().startswith(b"\x89PNG")
    assert file.stat().st_size > 20_000


def test_a_steady_rate_stays_steady_to_the_ends() -> None:
    rate = _rate(np.full(200, 50.0), 0.5)
    np.testing.assert_allclose(rate, 1000.0)


def test_percentiles_per_bin_are_nan_where_nothing_came() -> None:
    at = np.array([0.1, 2.5, 0.2, 2.6])
    values = _percentile(at, np.array([1.0, 10.0, 3.0, 30.0]), np.array([0.0, 1.0, 2.0, 3.0]), 50)
    np.testing.assert_allclose(values, [2.0, np.nan, 20.0])
