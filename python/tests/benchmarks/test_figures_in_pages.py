"""A figure that stands beside a link to a benchmark's result is in that result.

Of a table the row is looked at, of a list the item, else the paragraph; a table or list without
links has those of the paragraph before it. Whole numbers below a thousand are settings as often as
figures, and only looked up in front of a percent sign.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "benchmarks" / "results"
# docs/results.md is made from the results; decisions quote those of their day.
PAGES = [ROOT / "README.md", *sorted({*(ROOT / "docs").glob("*.md")} - {ROOT / "docs/results.md"})]
FIGURE = re.compile(
    r"(?<![\w.])\d{1,3}(?:,\d{3})+(?:\.\d+)?|(?<![\w.,-])\d+\.\d+(?![\w.])|(?<![\w.,-])\d+(?= ?%)"
)


def parts(text: str) -> list[tuple[str, list[str]]]:
    """Paragraphs, items of lists and rows of tables, each with the results that it is about.

    Blocks of code are none.
    """
    found: list[tuple[str, list[str]]] = []
    before: list[str] = []
    for block in re.split(r"\n\s*\n", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        is_table = block.lstrip().startswith("|")
        pieces = re.split(r"\n" if is_table else r"\n(?=- |\d+\. )", block)
        own = linked(block)
        belongs = not own and (is_table or block.lstrip().startswith("- "))
        found += [(piece, before if belongs else linked(piece)) for piece in pieces]
        if not belongs:
            before = own
    return found


def linked(part: str) -> list[str]:
    return re.findall(r"benchmarks/results/([\w-]+\.md)", part)


def absent(part: str, results: str) -> list[str]:
    """Figures of ``part`` that no number in ``results`` rounds to, in percent or thousands neither:
    pages have seconds for milliseconds."""
    numbers = [float(n.replace(",", "")) for n in re.findall(r"\d[\d,]*(?:\.\d+)?", results)]
    found = []
    for figure in FIGURE.findall(part):
        digits = len(figure.partition(".")[2])
        near, value = 0.5 * 10**-digits + 1e-9, float(figure.replace(",", ""))
        if not any(abs(scale * n - value) <= near for n in numbers for scale in (1, 100, 0.001)):
            found.append(figure)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_figures_are_those_of_the_linked_results(page: Path) -> None:
    wrong = {}
    for part, names in parts(page.read_text("utf-8")):
        results = "\n".join((RESULTS / name).read_text("utf-8") for name in names)
        if results and (figures := absent(part, results)):
            wrong[part[:80]] = figures
    assert not wrong


def test_readmes_rows_are_looked_at() -> None:
    rows = [part for part, names in parts((ROOT / "README.md").read_text("utf-8")) if names]
    assert len(rows) >= 4
    assert all(FIGURE.findall(row) for row in rows)


def test_a_figure_that_was_not_measured_is_seen() -> None:
    result = "| a | 1.278 (1.255 to 1.306) | 12,340 | 0.746 |"
    assert not absent("1.28 times, 12,340 rows/s, 75 % in 4 partitions", result)
    assert absent("1.27 times, 12,345 rows/s, 74 %, 3 ms", result) == ["1.27", "12,345", "74"]
