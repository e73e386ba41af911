"""What is said of a race: latencies of all rows, who kept up, the last line, the picture."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from laneshift_demo.__main__ import parse
from laneshift_demo.calibrate import Calibration
from laneshift_demo.compare import compare
from laneshift_demo.picture import draw, per_second, percentile
from laneshift_demo.race import Race, SideRun
from laneshift_demo.settings import ELASTIC, STOCK
from laneshift_demo.show import result, verdict
from laneshift_demo.stream import Spell, Stream
from laneshift_demo.updates import Updates
from plugin.fake import HANDOFF, handoff_of

START_S = 1_700_000_000.0
ROWS, RATE = 1000, 100.0


def stream() -> Stream:
    table = pa.table({"dest": ["IAH", "BOS"] * (ROWS // 2)})
    return Stream(table, (Spell(250, 750, ("IAH",), 1),), RATE)


def side(name: str, late_ms: float, rows: int = ROWS, *, moved: bool = False) -> SideRun:
    """Answers to the first ``rows`` rows, each so late; moves that have a pause, and one not."""
    updates = Updates()
    for row in range(rows):
        due_us = int((START_S + row / RATE) * 1e6)
        dest = ("IAH", "BOS")[row % 2]
        updates.add(int(due_us + late_ms * 1e3), f"{due_us},{dest},{row // 2 + 1},1,2,2,2.0,5")
    handoffs = [handoff_of(HANDOFF | {"pause_us": us}) for us in (0, 1000, 2000)]
    lanes = [(at, (2, 2, 2, 2) if at < 3 else (1, 5, 1, 1)) for at in np.arange(0.5, 10.5, 0.5)]
    return SideRun(name, updates, lanes if moved else [], [], tuple(handoffs) if moved else ())


def raced(stock: SideRun, elastic: SideRun) -> Race:
    return Race(stream(), START_S, stock, elastic, end_s=START_S + 20)


def test_a_row_without_answer_counts_with_its_age() -> None:
    both = raced(side(STOCK, 5.0, rows=600), side(ELASTIC, 5.0))
    due, latency = both.latencies(both.stock)
    assert due.size == latency.size == ROWS
    np.testing.assert_allclose(np.sort(due), np.arange(ROWS) / RATE, atol=1e-4)
    np.testing.assert_allclose(latency[:600], 5.0)
    np.testing.assert_allclose(np.sort(latency[600:]), np.sort(20_000 - due[600:] * 1e3))
    np.testing.assert_allclose(both.latencies(both.elastic)[1], 5.0)


def test_rows_behind_are_those_answered_after_the_last_was_due() -> None:
    both = raced(side(STOCK, 2505.0), side(ELASTIC, 5.0))
    assert (both.behind(both.stock), both.behind(both.elastic)) == (250, 0)


@pytest.mark.parametrize(
    ("stock_ms", "elastic_ms", "words", "more"),
    [
        (2505.0, 5.0, ("fell behind", "kept up"), None),
        (5.0, 5.0, ("kept up", "kept up"), "Stock has kept up, too"),
        (2505.0, 2505.0, ("fell behind", "fell behind"), "laneshift has not kept up"),
    ],
)
def test_the_verdict_says_who_kept_up_and_if_that_shows_nothing(
    stock_ms: float, elastic_ms: float, words: tuple[str, str], more: str | None
) -> None:
    lines = verdict(raced(side(STOCK, stock_ms), side(ELASTIC, elastic_ms)))
    assert [word in line for word, line in zip(words, lines, strict=False)] == [True, True]
    assert f"p50 {stock_ms:,.1f} ms" in lines[0]
    assert len(lines) == (2 if more is None else 3)
    assert more is None or more in lines[2]


def test_the_last_line_has_identity_rows_moves_and_the_pause() -> None:
    runs = {"a": side(ELASTIC, 1.0, moved=True), "b": side(ELASTIC, 1.0, moved=True)}
    same = compare(runs["a"].updates.answers, runs["a"].updates.answers)
    both = {"a": same, "b": same}
    line = "RESULT identical=true rows=2000 moves=6 pause_p99_ms=2.000"
    assert result(runs, both) == (line, True)
    lost = compare(runs["a"].updates.answers, {})
    assert result(runs, both | {"b": lost})[0].startswith("RESULT identical=false rows=1000 ")
    still = {name: dataclasses.replace(run, handoffs=()) for name, run in runs.items()}
    assert result(still, both) == (
        "RESULT identical=true rows=2000 moves=0 pause_p99_ms=0.000",
        False,
    )
    runs["b"].updates.disorder = 1
    assert result(runs, both)[0].startswith("RESULT identical=false")


@pytest.mark.parametrize("moved", [True, False])
def test_a_picture_is_drawn(tmp_path: Path, moved: bool) -> None:
    file = tmp_path / "new" / "demo.png"
    both = raced(side(STOCK, 3000.0, rows=700), side(ELASTIC, 5.0, moved=moved))
    draw(both, Calibration(2000, RATE, 100.0, 1.0), parse(["flights", "--picture", str(file)]))
    assert file.read_bytes().startswith(b"\x89PNG")
    assert file.stat().st_size > 20_000


@pytest.mark.parametrize("hot", ["shared", "random"])
def test_what_a_picture_says_is_within_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hot: str
) -> None:
    figures: list[Any] = []
    monkeypatch.setattr("matplotlib.pyplot.close", figures.append)
    both = raced(side(STOCK, 3000.0, rows=700), side(ELASTIC, 5.0))
    words = ["flights", "--hot", hot, "--picture", str(tmp_path / "demo.png")]
    draw(both, Calibration(2000, RATE, 100.0, 1.0), parse(words))
    (figure,) = figures
    assert len(figure.texts) > 1
    assert all(text.get_window_extent().x1 <= figure.bbox.x1 for text in figure.texts)


def test_rates_are_of_the_time_at_which_answers_came() -> None:
    both = raced(side(STOCK, 1000.0), side(ELASTIC, 0.0))
    edges = np.array([0.0, 1.0, 5.0, 10.0])
    np.testing.assert_allclose(per_second(both, both.stock, edges), [0.0, RATE, RATE], atol=1)


def test_percentiles_per_bin_are_nan_where_nothing_was_due() -> None:
    at = np.array([0.1, 2.5, 0.2, 2.6])
    values = percentile(at, np.array([1.0, 10.0, 3.0, 30.0]), np.array([0.0, 1.0, 2.0, 3.0]), 50)
    np.testing.assert_allclose(values, [2.0, np.nan, 20.0])
