"""The parts of the demo that need no Spark."""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from laneshift.demo.__main__ import parse
from laneshift.demo.compare import compare
from laneshift.demo.display import Display, Sample
from laneshift.demo.feed import FileFeed, PacedFeed
from laneshift.demo.filesink import FileTail, FileWriter
from laneshift.demo.question import key_and_values
from laneshift.demo.updates import Updates


def line(count: int, key: str = "1357017300,IAH,UA") -> str:
    return f"{key},{count},1,2,2,2.0000,1400"


def test_a_line_has_a_key_of_three_parts() -> None:
    assert key_and_values("1,IAH,UA,3,2,-,-,-,9") == ("1,IAH,UA", "3,2,-,-,-,9")


def test_updates_keep_the_last_line_and_count_new_rows_once() -> None:
    updates = Updates()
    updates.add(10, 4, line(1))
    updates.add(20, 15, line(3))
    updates.add(30, 15, line(1, "1,BOS,B6"))
    assert updates.rows == 4
    assert updates.disorder == 0
    assert updates.answer["1357017300,IAH,UA"].startswith("3,")
    at, latency, new = updates.columns()
    assert (list(at), list(latency), list(new)) == ([10, 20, 30], [6, 5, 15], [1, 2, 1])
    assert updates.recent(3) != updates.recent(0)
    assert np.isnan(updates.recent(3)).all()


@pytest.mark.parametrize("counts", [(2, 1), (1, 1), (1, 2, 1, 3)])
def test_updates_of_a_key_that_go_back_are_disorder(counts: tuple[int, ...]) -> None:
    updates = Updates()
    for count in counts:
        updates.add(0, 0, line(count))
    assert updates.disorder == 1


def test_equal_answers_are_identical() -> None:
    same = compare({"a": "1", "b": "2"}, {"b": "2", "a": "1"})
    assert (same.identical, same.rows) == (True, 2)
    assert same.report() == "2 rows, all equal"


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        ({"a": "1"}, ["1 missing", "missing    b"]),
        ({"a": "1", "b": "2", "c": "3"}, ["1 too many", "too many   c"]),
        ({"a": "1", "b": "9"}, ["1 different", "b: stock 2, stream 9"]),
        ({}, ["2 missing"]),
    ],
)
def test_any_difference_is_found_and_shown(stream: dict[str, str], words: list[str]) -> None:
    differs = compare({"a": "1", "b": "2"}, stream)
    assert not differs.identical
    for word in words:
        assert word in differs.report()


def test_the_tail_reads_whole_lines_only_and_each_once(tmp_path: Path) -> None:
    tail = FileTail(tmp_path)
    file = tmp_path / "00000000-000.csv"
    file.write_text(f"10,4,{line(1)}\n20,15,1357017300,IAH")
    tail.poll()
    tail.poll()
    assert tail.updates.rows == 1
    with file.open("a") as more:
        more.write(",UA,3,1,2,2,2.0000,1400\n")
    tail.poll()
    assert tail.updates.rows == 3
    assert list(tail.updates.latency_us) == [6, 5]


def test_what_the_writer_writes_the_tail_reads(tmp_path: Path) -> None:
    for epoch in (0, 1):
        writer = FileWriter(str(tmp_path))
        assert writer.open(3, epoch)
        for count in (1, 2):
            writer.process((line(2 * epoch + count), 5))  # type: ignore[arg-type]
        writer.close(None)
    tail = FileTail(tmp_path)
    tail.poll()
    assert (tail.updates.rows, tail.updates.disorder) == (4, 0)


class Recorder(PacedFeed):
    def __init__(self, table: Any, rows_per_s: float, *, fail: bool = False) -> None:
        super().__init__(table, rows_per_s)
        self.sent: list[tuple[int, int]] = []
        self.fail = fail

    def send(self, number: int, rows: Any) -> None:
        if self.fail and number:
            raise OSError("disk full")
        self.sent.append((number, rows.num_rows))


def wait_for(feed: PacedFeed) -> None:
    until = time.monotonic() + 20
    while not feed.finished:
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_feed_sends_every_row_once_in_order_and_in_time() -> None:
    pa = pytest.importorskip("pyarrow")
    feed = Recorder(pa.table({"x": list(range(103))}), rows_per_s=200.0)
    feed.prime()
    began = time.monotonic()
    feed.start()
    wait_for(feed)
    feed.stop()
    assert feed.sent == [(0, 50), (1, 50), (2, 3)]
    assert time.monotonic() - began >= 0.25


def test_what_goes_wrong_in_a_feed_is_raised_when_it_is_stopped() -> None:
    pa = pytest.importorskip("pyarrow")
    feed = Recorder(pa.table({"x": list(range(100))}), rows_per_s=200.0, fail=True)
    feed.prime()
    feed.start()
    wait_for(feed)
    with pytest.raises(OSError, match="disk full"):
        feed.stop()


def test_a_file_feed_leaves_complete_stamped_files(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    before = int(time.time() * 1e6)
    feed = FileFeed(pa.table({"x": [1, 2, 3]}), 8.0, tmp_path / "in")
    feed.prime()
    feed.start()
    wait_for(feed)
    feed.stop()
    files = sorted((tmp_path / "in").glob("*.parquet"))
    assert [f.name for f in files] == ["slice-000000.parquet", "slice-000001.parquet"]
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    assert [row["x"] for row in rows] == [1, 2, 3]
    assert all(before <= row["sent_us"] <= time.time() * 1e6 for row in rows)


def sample(seconds: float, progress: float = 0.5) -> Sample:
    quiet = Sample("real-time", seconds, progress, 12345.6, float("nan"), 12_345.0)
    return quiet.with_lanes((4, 2), 1234, 0.5, 2000.0)


def test_a_plain_display_prints_few_lines() -> None:
    out = io.StringIO()
    display = Display(out)
    for tick in range(100):
        display.show(sample(tick / 10))
    display.show(sample(10.0, 1.0))
    display.end()
    lines = out.getvalue().splitlines()
    assert len(lines) == 3
    for word in ("12,346 rows/s", "lanes 4+2", "moves 1,234", "2,000 ms", "12.3 s", "100%"):
        assert word in lines[-1]


def test_a_terminal_display_rewrites_one_line() -> None:
    out = io.StringIO()
    out.isatty = lambda: True  # type: ignore[method-assign]
    display = Display(out)
    display.show(sample(0.1))
    display.show(sample(0.2))
    display.say("done")
    assert out.getvalue().count("\n") == 2
    assert out.getvalue().count("\r") == 2
    assert out.getvalue().endswith("\ndone\n")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--seconds", "0", "flights"], "--seconds"),
        (["flights", "--rows", "-5"], "--rows"),
        (["flights", "--moves-per-s", "fast"], "--moves-per-s"),
        (["flights", "--modes", "batch"], "--modes"),
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
    settings = parse(["kafka", "--modes", "real-time", "real-time", "--stock"])
    assert settings.modes == ("real-time",)
    assert settings.picture == Path("demo-kafka.png")
    assert settings.work == Path("build/demo/kafka")
    assert settings.stock
