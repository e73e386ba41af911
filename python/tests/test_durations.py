"""Durations as users give them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from laneshift.durations import seconds
from laneshift.errors import InputError


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (2, 2.0),
        (0.05, 0.05),
        (np.float32(0.5), 0.5),
        (np.int64(3), 3.0),
        ("500us", 0.0005),
        ("50ms", 0.05),
        (" 1.5 s ", 1.5),
        ("2min", 120.0),
        ("1h", 3600.0),
        (timedelta(minutes=1, milliseconds=1), 60.001),
    ],
)
def test_each_form(given: Any, found: float) -> None:
    assert seconds("timeout", given) == pytest.approx(found)


@pytest.mark.parametrize(
    "wrong",
    [
        *("", "50", "ms", "-1s", "1e3s", "1 day", "1m", "nan", True, None, [1], -0.1),
        *(-timedelta(1), float("nan"), float("inf"), 10**400),
    ],
)
def test_what_is_no_duration_is_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match=r"found .*, expected a duration >= 0 s") as caught:
        seconds("timeout", wrong)
    assert "50ms, 1.5s, 2min, 1h" in str(caught.value)


def test_bounds() -> None:
    assert seconds("d", "100ms", low=0.1, high=3600) == 0.1
    assert seconds("d", "1h", low=0.1, high=3600) == 3600
    for wrong, bound in (("99ms", ">= 0.1 s"), ("61min", "<= 3600 s")):
        with pytest.raises(InputError, match=bound):
            seconds("d", wrong, low=0.1, high=3600)
    with pytest.raises(InputError, match="> 0 s"):
        seconds("d", 0, low_open=True)


def test_text_without_a_unit_is_asked_for_one() -> None:
    with pytest.raises(InputError, match=r"This text has no unit: 50ms or 50s\?"):
        seconds("target_latency", " 50 ")
