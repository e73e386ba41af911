"""The two tiers of Python's tests: the gate, and rooms of what proves more and takes its time.

A verdict of the gate is a function of the commit, not of the machine's load, a clock or a seed.
What cannot promise that, or takes minutes, is marked ``deep("room")`` and runs with
``--deep ROOM[,ROOM]`` or ``--deep all``, on a machine that has nothing else to do.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from hypothesis import is_hypothesis_test, settings

ROOMS = {
    "pairs": "more queries, formats and tasks beside stock Spark than the gate has; test sources",
    "motion": "handoffs whose moment is up to timers, threads and what a query was measured to do",
    "policies": "autoscalers, limits and rescales that act on a running query by its measurements",
    "remote": "lanes on other executors, and hosts that fall silent, fail and go away",
    "kills": "tasks, executors, drivers and autoscalers killed while lanes and partitions change",
    "cluster": "whole clusters in Docker whose workers, driver, network and disk fail",
    "matrix": "every operator, output mode, trigger and course of a checkpoint's life",
    "mutants": "mutants of the source, which the gate has to notice; a million schedules; races",
    "surface": "wheel, spark-submit, pages, tab, history, logs: what a user touches",
    "speed": "rates, time-outs and decisions that are measured in seconds",
    "endurance": "hours of motion, rescales and kills, every answer checked",
}
"""What each room searches; `make deep` runs them, the JVM's tests of a room with Python's."""

RANDOM_EXAMPLES = "policies"
"""The room where tests with examples by hypothesis run again, with ten times as many."""

DEEP_S = 900.0
"""Limit of a deep test without one of its own; the gate's is `timeout` in pyproject.toml."""

WHOLLY_DEEP = Path(__file__).parents[2] / "integration_tests"
"""Never collected but by name: then it runs, and ``--deep`` only chooses."""

GATES_SEED = "1"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--deep",
        metavar="ROOM[,ROOM]",
        help=f"run the tests of these rooms instead of the gate: all, {', '.join(ROOMS)}",
    )


@pytest.hookimpl(tryfirst=True)  # hypothesis reads its seed in this hook
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "deep(room): not of the gate, see python/tests/tiers.py")
    settings.register_profile("gate", derandomize=True, deadline=None, print_blob=True)
    settings.register_profile("deep", derandomize=False, deadline=None, print_blob=True)
    if not wanted(config):
        os.environ.setdefault("LANESHIFT_SEED", GATES_SEED)
        settings.load_profile("gate")
    else:
        seed = os.environ.setdefault("LANESHIFT_SEED", str(random.randrange(1, 2**32)))
        settings.load_profile("deep")
        config.option.hypothesis_seed = config.option.hypothesis_seed or seed


def pytest_report_header(config: pytest.Config) -> str:
    tier = f"deep: {', '.join(sorted(wanted(config)))}" if wanted(config) else "the gate"
    return f"{tier}; LANESHIFT_SEED={os.environ['LANESHIFT_SEED']}"


def wanted(config: pytest.Config) -> frozenset[str]:
    """The rooms that were asked for; none is the gate."""
    given = config.getoption("--deep")
    rooms = frozenset(filter(None, (given or "").split(",")))
    if given is not None and (not rooms or rooms - ROOMS.keys() - {"all"}):
        raise pytest.UsageError(f"--deep {given}: expected all, or some of {', '.join(ROOMS)}")
    return frozenset(ROOMS) if "all" in rooms else rooms


def room_of(item: pytest.Item) -> str | None:
    """The room of a deep test."""
    marker = item.get_closest_marker("deep")
    if marker is None:
        return None
    if len(marker.args) != 1 or marker.kwargs or marker.args[0] not in ROOMS:
        raise pytest.UsageError(
            f"{item.nodeid}: expected deep(room) with one of {', '.join(ROOMS)}; found"
            f" deep{marker.args!r}"
        )
    return str(marker.args[0])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    rooms, kept, others = wanted(config), list[pytest.Item](), list[pytest.Item]()
    for item in items:
        room = room_of(item)
        if room and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(DEEP_S))
        if not rooms:
            runs = room is None or item.path.is_relative_to(WHOLLY_DEEP)
        elif room is None:
            runs = RANDOM_EXAMPLES in rooms and with_more_examples(item)
        else:
            runs = room in rooms
        (kept if runs else others).append(item)
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = kept


def with_more_examples(item: pytest.Item) -> bool:
    """Whether a test has examples by hypothesis; then it gets ten times as many."""
    function = getattr(item, "function", None)
    if not is_hypothesis_test(function):
        return False
    # What a test says of itself hides the profile's number. One function may be several items.
    if not hasattr(function, "_more_examples"):
        function._more_examples = True  # type: ignore[union-attr]
        said = getattr(function, "_hypothesis_internal_use_settings", None) or settings()
        function._hypothesis_internal_use_settings = settings(  # type: ignore[union-attr]
            said, max_examples=10 * said.max_examples
        )
    item.add_marker(pytest.mark.timeout(DEEP_S))
    return True
