"""The arithmetic of the benchmark of the papers' loads: no Spark."""

from __future__ import annotations

import numpy as np
import pytest

from laneshift_bench.shapes import (
    BUFFER,
    CORES,
    CRAA,
    LOADS,
    MODES,
    OERA,
    SCALE,
    UNIT,
    WINDOW_S,
    beyond,
    shape,
    simulated,
)


def test_rows_that_find_the_buffer_full_are_those_by_which_the_excess_grows() -> None:
    times = np.arange(1.0, 6.0)
    due = 10 * times
    waiting = np.array([0.0, 5.0, 15.0, 15.0, 2.0])
    assert beyond(times, waiting, due, np.full(5, 100.0)) == 0
    assert beyond(times, waiting, due, np.full(5, 10.0)) == pytest.approx(5 / 50)
    # It cannot have been more rows than came.
    assert beyond(times, np.array([0, 40.0, 40, 40, 40]), due, np.full(5, 0.0)) == 10 / 50


@pytest.mark.parametrize("name", LOADS)
@pytest.mark.parametrize("mode", MODES)
def test_every_load_fits_its_setting(name: str, mode: str) -> None:
    of = shape(name, quick=False)
    setting = of.setting(mode)
    assert setting.seconds == pytest.approx(of.seconds)
    assert setting.cost_us == 1e6 * SCALE / UNIT
    assert setting.due(of.seconds) == pytest.approx(of.windows.sum() * WINDOW_S / SCALE)
    # All but the capped one can be served with the cores that there are.
    assert (of.windows.max() <= UNIT * of.cores) == (name != "capped")
    assert (setting.batch is None) == (mode == "micro-batch")
    for side in of.policies:
        assert setting.side(side).options["lanes"] == str(of.first_lanes)


def test_a_policy_that_sets_lanes_serves_what_one_with_too_few_lanes_cannot() -> None:
    of, capped = shape("stage", quick=False), shape("capped", quick=False)
    for name in CRAA:
        enough, few = simulated(of, name), simulated(capped, name)
        assert enough.beyond < 0.05 < few.beyond, name
        assert 0 < enough.use <= 1 and enough.changes > 0, name


def test_the_model_of_a_day_has_changes_for_oera_and_none_for_static() -> None:
    of = shape("day", quick=False)
    found = {name: simulated(of, name) for name in OERA}
    assert found["static"].changes == 0 < found["oera"].changes
    assert found["oera"].beyond < found["static"].beyond


def test_a_quick_run_is_short() -> None:
    assert shape("sine", quick=True).seconds == 60
    assert shape("step", quick=True).cores == CORES and BUFFER > 0
