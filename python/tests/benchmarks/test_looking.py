"""Looks at queries begin with each query, and a look that fails is not lost."""

import threading

import pytest

from laneshift_bench.looking import looking


class Seen:
    """Counts looks."""

    def __init__(self, enough: int) -> None:
        self.looks = 0
        self.enough = threading.Event()
        self._enough = enough

    def look(self) -> None:
        """One more."""
        self.looks += 1
        if self.looks >= self._enough:
            self.enough.set()


def test_one_is_looked_at_before_the_next_is_there() -> None:
    """The last of many starts long after the first."""
    first, second = Seen(2), Seen(2)
    there = [first]
    with looking(there, 0.001) as wait:
        assert first.enough.wait(30)
        assert second.looks == 0
        there.append(second)
        assert second.enough.wait(30)
        wait(0.0)
        looks = first.looks, second.looks
    assert (first.looks, second.looks) == looks


def test_what_a_look_raises_is_raised_at_once() -> None:
    """A query that has failed must not be waited for."""

    class Failing:
        def look(self) -> None:
            raise ValueError("gone")

    with looking([Failing()], 0.001) as wait, pytest.raises(ValueError, match="gone"):
        wait(3600.0)
