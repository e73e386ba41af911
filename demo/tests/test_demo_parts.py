"""The parts of the demo that need no Spark."""

from __future__ import annotations

import io
import math
from pathlib import Path

import numpy as np
import pytest

from laneshift_demo.__main__ import parse
from laneshift_demo.calibrate import LOAD, choose
from laneshift_demo.compare import compare
from laneshift_demo.display import HEADER, Display, Moment, SideMoment
from laneshift_demo.question import key_and_values
from laneshift_demo.updates import Updates


def line(sent_us: int, count: int, dest: str = "IAH") -> str:
    return f"{sent_us},{dest},{count},1,2,2,2.0000,1400"


def test_a_line_has_a_key_of_two_parts() -> None:
    assert key_and_values("IAH,3,2,-,-,-,9") == ("IAH,3", "2,-,-,-,9")


def test_updates_keep_every_answer_and_count_new_rows_once() -> None:
    updates = Updates()
    updates.add(10, line(4, 1))
    updates.add(20, line(15, 3))
    updates.add(30, line(15, 1, "BOS"))
    assert updates.rows == 4
    assert updates.disorder == 0
    assert updates.counts == {"IAH": 3, "BOS": 1}
    assert set(updates.answers) == {"IAH,1", "IAH,3", "BOS,1"}
    at, latency, new = updates.columns()
    assert (list(at), list(latency), list(new)) == ([10, 20, 30], [6, 5, 15], [1, 2, 1])
    assert updates.p99_ms(2) == 0.015
    assert math.isnan(updates.p99_ms(3))


@pytest.mark.parametrize("counts", [(2, 1), (1, 1), (1, 2, 1, 3)])
def test_updates_of_a_key_that_go_back_are_disorder(counts: tuple[int, ...]) -> None:
    updates = Updates()
    for count in counts:
        updates.add(0, line(0, count))
    assert updates.disorder == 1


BATCH = {"a,1": "1", "a,2": "3", "b,1": "2"}


@pytest.mark.parametrize("left_out", [(), ("a,1",)])
def test_equal_answers_are_identical_if_the_last_ones_are_there(left_out: tuple[str, ...]) -> None:
    same = compare(BATCH, {k: v for k, v in BATCH.items() if k not in left_out})
    assert (same.identical, same.rows) == (True, 3 - len(left_out))
    assert same.report() == f"{same.rows} answers, all equal"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"b,1": None}, ["1 missing", "missing    b,1"]),
        ({"a,2": None}, ["1 missing", "missing    a,2"]),
        ({"a,3": "9"}, ["1 too many", "too many   a,3"]),
        ({"a,1": "9"}, ["1 different", "a,1: batch 1, stream 9"]),
        (dict.fromkeys(BATCH), ["2 missing"]),
    ],
)
def test_any_difference_is_found_and_shown(change: dict[str, str | None], words: list[str]) -> None:
    stream = {key: value for key, value in (BATCH | change).items() if value is not None}
    differs = compare(BATCH, stream)
    assert not differs.identical
    for word in words:
        assert word in differs.report()


def test_the_cost_is_the_least_that_outweighs_a_rows_own_time() -> None:
    found = {own: choose(own, 1.0) for own in (0.0, 500.0, 501.0, 3999.0, 50_000.0)}
    assert [one.cost_us for one in found.values()] == [2000, 2000, 4000, 16_000, 16_000]
    assert [one.fits for one in found.values()] == [True, True, True, True, False]
    assert found[0.0].rows_per_s == pytest.approx(LOAD * 4000)
    assert found[500.0].rows_per_s == pytest.approx(LOAD * 3200)
    assert choose(0.0, 1.0, least_us=4000).cost_us == 4000
    assert "0.50 ms more on this machine, so 8 cores take 3,200 rows/s" in found[500.0].words


def test_cost_and_load_of_the_command_line_are_kept() -> None:
    chosen = choose(100.0, 1.0, cost_us=3000, rows_per_s=7.5)
    assert (chosen.cost_us, chosen.rows_per_s) == (3000, 7.5)


def moment(seconds: float) -> Moment:
    stock, elastic = SideMoment(1234.6, 12_345.0, 9876), SideMoment(2000.0, math.nan, 0)
    hot = ("ORD", "ATL", "FLL", "CMH", "STT")
    return Moment(seconds, hot, stock, elastic, (5, 1, 1, 1))


def test_a_plain_display_prints_a_table_with_a_line_every_two_seconds() -> None:
    out = io.StringIO()
    display = Display(out)
    for tick in range(100):
        display.show(moment(tick / 10))
    display.show(moment(10.0), last=True)
    display.end()
    lines = out.getvalue().splitlines()
    assert lines[0] == HEADER
    assert [line.split()[0] for line in lines[1:]] == ["0.0", "2.0", "4.0", "6.0", "8.0", "10.0"]
    for word in ("ORD ATL FLL +2 ", "1,235", "12.3 s", "9,876", "2,000", "- ms", "5+1+1+1"):
        assert word in lines[-1]
    for title, value in (("stock: rows/s", "1,235"), ("laneshift: rows/s", "2,000")):
        end = HEADER.index(title) + len(title)
        assert lines[-1][:end].endswith(value)


def test_a_terminal_display_rewrites_one_line() -> None:
    out = io.StringIO()
    out.isatty = lambda: True  # type: ignore[method-assign]
    display = Display(out)
    display.show(moment(0.1))
    display.show(moment(0.2))
    display.show(moment(0.3))
    display.say("done")
    assert out.getvalue().count("\r") == 3
    assert out.getvalue().count("\n") == 4
    assert out.getvalue().endswith("\ndone\n")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--seconds", "0", "flights"], "--seconds"),
        (["flights", "--cost-us", "-5"], "--cost-us"),
        (["flights", "--rate", "fast"], "--rate"),
        (["trains"], "trains"),
        ([], "source"),
    ],
)
def test_a_wrong_command_line_ends_with_a_message(
    arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(arguments)
    assert caught.value.code == 2
    assert word in capsys.readouterr().err


def test_settings_of_a_command_line() -> None:
    settings = parse(["kafka", "--rate", "500", "--policy", "laneshift"])
    assert (settings.rows_per_s, settings.cost_us) == (500.0, None)
    assert settings.policy == "laneshift"
    assert settings.picture == Path("demo-kafka.png")
    assert settings.work == Path("build/demo/kafka")


def test_latencies_are_numbers() -> None:
    updates = Updates()
    updates.add(1_500_000, line(500_000, 1))
    assert updates.p99_ms(0) == 1000.0
    assert np.array(updates.new_rows).tolist() == [1]
