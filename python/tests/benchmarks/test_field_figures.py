"""The field's rows and its one measuring code, on answers that are made up: no system."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from laneshift_bench import field
from laneshift_bench.query import BenchmarkError
from laneshift_field.cases import CASES, Case, Rows, record
from laneshift_field.judge import Answers, answered_us, judge, longest_gap_s

START = 1_000_000_000
CASE = Case(
    "made up", "", stages=((100.0, 2.0), (200.0, 2.0)), changes=((2.0, 4),), keys=5, warm_s=1.0
)


def perfect(rows: Rows, late_us: int = 1000) -> Answers:
    """Each row answered so long after it was due."""
    seen: dict[int, int] = {}
    counts = []
    for key in rows.keys.tolist():
        seen[key] = seen.get(key, 0) + 1
        counts.append(seen[key])
    return Answers(rows.keys, np.array(counts), START + rows.dues_us + late_us)


def some(answers: Answers, chosen: np.ndarray) -> Answers:
    return Answers(answers.keys[chosen], answers.counts[chosen], answers.outs_us[chosen])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_recorded_rows_are_the_same_again_and_have_the_case_s_rate(
    case: Case, tmp_path: Path
) -> None:
    quick = case.quick(10)
    rows = record(quick)
    again = record(quick)
    assert np.array_equal(rows.keys, again.keys) and np.array_equal(rows.dues_us, again.dues_us)
    assert not np.array_equal(rows.keys, record(quick, seed=1).keys)
    assert np.all(np.diff(rows.dues_us) >= 0)
    assert len(rows.keys) == sum(round(rate * seconds) for rate, seconds in quick.stages)
    file = tmp_path / "rows.jsonl"
    rows.write(file)
    back = Rows.read(file)
    assert np.array_equal(rows.keys, back.keys) and np.array_equal(rows.dues_us, back.dues_us)


def test_the_hot_key_has_its_share_and_others_become_hot() -> None:
    hot = record(next(case for case in CASES if case.hot))
    assert np.mean(hot.keys == 0) == pytest.approx(0.6, abs=0.01)
    skewed = replace(next(case for case in CASES if case.shuffle_s), stages=((6000.0, 8.0),))
    rows = record(skewed)
    half = len(rows.keys) // 2
    first, second = (np.bincount(part).argmax() for part in (rows.keys[:half], rows.keys[half:]))
    assert first != second


def test_a_run_without_fault() -> None:
    rows = record(CASE)
    figures = judge(CASE, rows, perfect(rows), START)
    assert (figures.lost, figures.too_many, figures.again) == (0, 0, 0)
    assert figures.every.p50_ms == figures.every.max_ms == 1.0
    assert figures.gap_s == pytest.approx(0.01, abs=1e-3)
    assert figures.gaps_s[0] == pytest.approx(0.01, abs=1e-3)
    assert figures.full_s[0] == pytest.approx(0.5, abs=0.051)
    assert figures.rows_per_s == pytest.approx((100 + 400) / 3, rel=0.01)


def test_rows_that_are_lost_counted_twice_or_given_again_are_found() -> None:
    rows = record(CASE)
    answers = perfect(rows)
    last = np.flatnonzero(rows.keys == 3)[-1]
    assert judge(CASE, rows, some(answers, np.arange(len(rows.keys)) != last), START).lost == 1
    beyond = Answers(
        np.append(answers.keys, 3),
        np.append(answers.counts, answers.counts[last] + 2),
        np.append(answers.outs_us, answers.outs_us[-1]),
    )
    assert judge(CASE, rows, beyond, START).too_many == 2
    again = some(answers, np.append(np.arange(len(rows.keys)), [5, 6]))
    assert judge(CASE, rows, again, START).again == 2
    strange = Answers(
        np.append(answers.keys, 77), np.append(answers.counts, 1), np.append(answers.outs_us, START)
    )
    assert judge(CASE, rows, strange, START).too_many == 1


def test_an_answer_is_one_for_the_rows_before_it() -> None:
    rows = Rows(np.array([1, 2, 1, 1]), np.array([0, 10, 20, 30]))
    answers = Answers(np.array([1, 1, 2]), np.array([2, 3, 1]), np.array([100, 200, 150]))
    found, too_many = answered_us(rows, answers)
    assert found.tolist() == [100.0, 150.0, 100.0, 200.0]
    assert too_many == 0
    found, _ = answered_us(rows, some(answers, np.array([0, 2])))
    assert math.isinf(found[3])


def test_the_longest_gap_is_from_the_last_answer_before_on() -> None:
    outs = np.array([0.0, 1e6, 2e6, 5e6, 6e6])
    assert longest_gap_s(outs, 0.5e6, 6e6) == 3.0
    assert longest_gap_s(outs, 3e6, 6e6) == 3.0
    assert longest_gap_s(outs, 5.5e6, 9e6) == 3.0
    assert longest_gap_s(np.array([]), 1e6, 2e6) == 1.0


def test_a_file_that_was_cut_short_is_read(tmp_path: Path) -> None:
    file = tmp_path / "answers"
    file.write_text("1 1 100\n2 1 150\n1 2 20")
    answers = Answers.read(file)
    assert answers.outs_us.tolist() == [100, 150]
    assert Answers.read(_empty(tmp_path)).keys.size == 0


def _empty(folder: Path) -> Path:
    file = folder / "nothing"
    file.touch()
    return file


def test_without_an_answer_all_is_lost(tmp_path: Path) -> None:
    rows = record(CASE)
    figures = judge(CASE, rows, Answers.read(_empty(tmp_path)), START)
    assert figures.lost == len(rows.keys)
    assert math.isinf(figures.every.p50_ms) and math.isinf(figures.full_s[0])
    assert figures.data()["every"]["p50_ms"] is None


def test_a_case_in_which_nothing_changes_has_one_gap() -> None:
    case = replace(CASE, changes=())
    rows = record(case)
    found = judge(case, rows, perfect(rows), START)
    assert found.gaps_s == () and found.gap_s == pytest.approx(0.01, abs=0.001)
    assert found.before.rows == found.every.rows


def test_a_system_or_case_that_does_not_exist_is_named_before_anything_runs() -> None:
    with pytest.raises(BenchmarkError, match=r"no system 'flink-zero'\. There are: spark, .*storm"):
        field.run(quick=True, systems=["laneshift", "flink-zero"])
    with pytest.raises(BenchmarkError, match=r"no case 'cold'\. There are: skew, .*kill"):
        field.run(quick=True, cases=["cold"])
