"""The benchmark of planners names planners that there are, and figures that are published."""

from __future__ import annotations

import pytest

from laneshift.errors import InputError
from laneshift.policies import registry
from laneshift_bench import planners
from laneshift_bench.planner_queries import CASES


def test_every_system_is_a_planner_and_has_its_simulated_figure() -> None:
    for case in CASES:
        assert set(case.systems) <= set(registry.PLANNERS)
    notes = list(planners._simulated(CASES, planners.SKEWS))
    assert len(notes) == 2 * len(planners.SKEWS) + 1
    for note in notes[:-1]:
        assert all(f"{system} " in note for system in CASES[0].systems), note
    assert all(f"{system} " in notes[-1] for system in ("mnrt", "qmmp", "readj", "pkg"))
    assert all("stated by the paper" in n or "Reconstructed" in n for n in planners._stated(CASES))


def test_a_wrong_planner_is_refused_before_spark_starts() -> None:
    with pytest.raises(InputError, match=r"planner: found 'balancer'"):
        planners.run(True, ["balancer"])
