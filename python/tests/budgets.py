"""What a module of live tests costs in the gate, as counts that are the same on every machine.

``budgets.txt`` has the queries, sessions and child processes that each module may start; a module
that is not in it may start none. The Spark that all of them share is nobody's. How many processes
other tests start may hang on what is installed; ``no_clock.txt`` says which start any.
``LANESHIFT_BUDGETS=renew`` before pytest writes anew what the modules cost that run as a whole.
"""

from __future__ import annotations

import functools
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tiers import wanted

FILE = Path(__file__).with_name("budgets.txt")
WITH_SPARK = [Path(__file__).with_name(name) for name in ("live", "usage")]
ROOT = Path(__file__).parents[2]

spent = Counter[str]()


def pytest_configure() -> None:
    sys.addaudithook(lambda event, _: spent.update({"processes": event == "subprocess.Popen"}))


def count_calls(of: type, method: str, kind: str) -> None:
    original = getattr(of, method)

    @functools.wraps(original)
    def counting(*args: Any, **kwargs: Any) -> Any:
        spent[kind] += 1
        return original(*args, **kwargs)

    setattr(of, method, counting)


@functools.cache
def count_queries() -> None:
    """From here on, where they are started: a listener would hear of them later."""
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    count_calls(DataStreamWriter, "start", "queries")
    count_calls(DataStreamWriter, "toTable", "queries")
    count_calls(SparkSession, "newSession", "sessions")


def listed(file: Path = FILE) -> dict[str, Counter[str]]:
    lines = [line.split(": ") for line in file.read_text("utf-8").splitlines()]
    pairs = {name: [each.split(" ", 1) for each in kinds.split(", ")] for name, kinds in lines}
    return {name: Counter({kind: int(n) for n, kind in each}) for name, each in pairs.items()}


def over(name: str, cost: Mapping[str, int], budget: Mapping[str, int]) -> str | None:
    """What is said of a module that costs more than it may."""
    more = [f"{n} {kind} instead of {budget[kind]}" for kind, n in cost.items() if n > budget[kind]]
    return (more or None) and (
        f"{name} costs more than it may: {', '.join(more)}. Prove the same with less, or change its"
        f" line of {FILE.name} (LANESHIFT_BUDGETS=renew pytest {name}) and say in the commit why"
        " that is worth it."
    )


def renew(name: str, cost: Counter[str]) -> None:
    lines = {k: v for k, v in (listed() | {name: cost}).items() if v}
    text = {k: ", ".join(f"{n} {kind}" for kind, n in sorted(v.items())) for k, v in lines.items()}
    FILE.write_text("".join(f"{k}: {text[k]}\n" for k in sorted(text)), "utf-8")


@contextmanager
def shared() -> Iterator[None]:
    """Around what all modules share: not counted for the one that happens to need it first."""
    before = spent.copy()
    yield
    spent.clear()
    spent.update(before)


@pytest.fixture(scope="module", autouse=True)
def budget(request: pytest.FixtureRequest) -> Iterator[None]:
    """Of one module."""
    config, before = request.config, spent.copy()
    yield
    cost = spent - before
    name = request.path.relative_to(ROOT).as_posix()
    if wanted(config) or not any(map(request.path.is_relative_to, WITH_SPARK)):
        return
    if os.environ.get("LANESHIFT_BUDGETS") == "renew":
        parts = config.option.keyword, config.option.markexpr, "::" in " ".join(config.args)
        assert not any(parts), "a budget is renewed by all tests of its module: without -k, -m, ::"
        renew(name, cost)
    elif problem := over(name, cost, listed().get(name, Counter())):
        pytest.fail(problem, pytrace=False)
