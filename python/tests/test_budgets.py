"""What the tests of both languages may cost."""

from __future__ import annotations

import sys
from collections import Counter

import budgets


def test_what_costs_more_than_its_budget_is_told_how_it_may_go_on() -> None:
    budget = Counter(queries=2, sessions=1)
    assert not budgets.over("test_it.py", {"queries": 2}, budget)
    said = budgets.over("test_it.py", {"queries": 3, "processes": 1}, budget)
    assert said and "test_it.py costs more than it may: 3 queries instead of 2, 1 processes" in said
    assert "LANESHIFT_BUDGETS=renew pytest test_it.py" in said


def test_what_is_started_is_counted() -> None:
    class Writer:
        def start(self) -> str:
            return "started"

    before = budgets.spent.copy()
    budgets.count_calls(Writer, "start", "queries")
    assert Writer().start() == "started"
    sys.audit("subprocess.Popen", sys.executable, [], None, None)  # as Python does
    assert budgets.spent - before == {"queries": 1, "processes": 1}
    budgets.spent.subtract(("queries", "processes"))


def test_budgets_are_of_what_there_is() -> None:
    gone = [module for module in budgets.listed() if not (budgets.ROOT / module).is_file()]
    suites = {file.stem for file in budgets.ROOT.glob("jvm/*/src/test/**/*Suite.scala")}
    gone += budgets.listed(budgets.ROOT / "jvm" / "budgets.txt").keys() - suites
    assert not gone, "take their lines out"
