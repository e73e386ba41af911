"""Migration cost, C+, C-, data intensity: vectors and the closed forms as special cases."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laneshift.errors import InputError
from laneshift.models.migration import cost_to_add, cost_to_take, data_intensity, migration_bytes


def test_worked_examples() -> None:
    held = np.array([[2, 1, 0]])
    assert cost_to_add(held, [300]).tolist() == [[25, 50, 75]]
    assert cost_to_take(held, [300]).tolist() == [[50, 100, np.inf]]
    assert migration_bytes(held, np.array([[3, 1, 1]]), [300]) == pytest.approx(60)
    assert migration_bytes(held, np.array([[2, 0, 1]]), [300]) == pytest.approx(100)


placements = st.lists(st.integers(0, 4), min_size=2, max_size=5).filter(lambda x: sum(x) > 0)


@given(placements, st.floats(0, 1e9), st.data())
@settings(max_examples=80, deadline=None)
def test_one_core_costs_exactly_the_closed_form(
    held: list[int], state: float, data: st.DataObject
) -> None:
    x = np.array([held])
    i = data.draw(st.integers(0, len(held) - 1))
    more = x.copy()
    more[0, i] += 1
    added = cost_to_add(x, [state])[0, i]
    assert migration_bytes(x, more, [state]) == pytest.approx(added, abs=1e-6)
    taken = cost_to_take(more, [state])[0, i]
    assert migration_bytes(more, x, [state]) == pytest.approx(taken, abs=1e-6)


def test_last_core_is_never_taken_and_first_costs_nothing() -> None:
    assert cost_to_take(np.array([[0, 1]]), [10]).tolist() == [[np.inf, np.inf]]
    assert cost_to_add(np.array([[0, 0]]), [10]).tolist() == [[0, 0]]


def test_data_intensity_is_traffic_per_core() -> None:
    assert data_intensity([100.0], [60.0], [4]).tolist() == [40.0]
    with pytest.raises(InputError, match=r"cores\[0\]"):
        data_intensity([1.0], [1.0], [0])


def test_wrong_inputs_name_the_field() -> None:
    with pytest.raises(InputError, match="placement"):
        cost_to_add(np.array([1, 2]), [1.0])
    with pytest.raises(InputError, match="placement"):
        cost_to_add(np.array([[-1, 2]]), [1.0])
    with pytest.raises(InputError, match=r"after\[0\]"):
        migration_bytes(np.array([[1]]), np.array([[0]]), [1.0])
    with pytest.raises(InputError, match="state_bytes"):
        cost_to_add(np.array([[1]]), [1.0, 2.0])
