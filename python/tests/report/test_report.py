"""``laneshift report``: what it reads, says and draws."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from laneshift.autoscale.decisions import Decision, LaneChange, Note, SourceLimit
from laneshift.autoscale.moves import Moves
from laneshift.cli.main import main
from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.ids import PartitionId
from laneshift.contract.trace import TraceWriter
from laneshift.errors import InputError
from laneshift.report.page import page
from laneshift.report.picture import ROWS, _runs, save
from laneshift.report.recording import columns, read_recording
from laneshift.report.words import headline, summary, table
from laneshift_lab.samples import cluster, partition

START = 1_700_000_000.0


def change(before: int, after: int, why: str = "rows <wait>") -> LaneChange:
    return LaneChange(PartitionId("q:0.10"), before, after, why)


def window(second: int, lanes: int, node: str = "1", name: str = "q:0.10") -> ClusterLoad:
    part = partition(
        name, {node: lanes}, offered_rate=900.0 * lanes, service_rate=1000, queue_capacity_rows=100
    )
    part = replace(part, queue_rows=25.0 * lanes, output_rate=800.0 * lanes)
    return replace(cluster({node: 4}, [part], time_s=START + second), window_s=1.0)


def write(path: Path, *, moves: bool = True, decisions: int = 2) -> Path:
    with TraceWriter(path) as trace:
        for second in range(1, 7):
            trace.record(window(second, 1 if second < 4 else 3))
            trace.record(window(second, 2, node="2", name="q:0.9"))
        for n in range(decisions):
            said = Decision(
                START + 3, "1", "elasticutor", (change(1, 3, f"why {n}"),), applied=True
            )
            trace.note("decision", said.to_json())
        if moves:
            trace.note("moves", Moves.of(START + 4, "scale", [500.0, 0.0, 2000.0]).to_json())
    return path


def test_executors_of_one_time_are_one_window(tmp_path: Path) -> None:
    run = read_recording(write(tmp_path / "t"))
    assert run.partitions == ("q:0.9", "q:0.10")
    assert (run.start_s, run.seconds) == (START, 6.0)
    np.testing.assert_array_equal(run.lanes, [[2, 1]] * 3 + [[2, 3]] * 3)
    np.testing.assert_array_equal(run.cores, [8] * 6)
    np.testing.assert_allclose(run.offered[0], [1800, 900])
    np.testing.assert_allclose(run.capacity[-1], [2000, 3000])
    np.testing.assert_allclose(run.occupancy[-1], [0.5, 0.75])
    assert [d.changes for d in run.decisions] == [(change(1, 3, f"why {n}"),) for n in range(2)]
    assert [(m.count, m.paused, m.max_ms) for m in run.moves] == [(3, 2, 2.0)]


def test_a_partition_that_was_not_there_yet_counts_nothing() -> None:
    run = columns([window(1, 2), window(2, 2), window(2, 1, node="2", name="q:0.9")])
    assert np.isnan(run.lanes[0, 0])
    assert _runs(run.lanes[:, 0]) == [(1, 1, 1.0)]
    assert "1 to 3" not in summary(run)[1] and "(2 to 3)" in summary(run)[1]


def test_words() -> None:
    said = Decision(START + 1, "1", "oera", applied=True, notes=(Note("budget: 9 of 8"),))
    run = columns(
        [window(1, 1), window(2, 1)],
        [
            said,
            replace(said, time_s=START + 2),
            replace(said, time_s=START + 3, notes=()),
            replace(said, time_s=START + 4, changes=(change(1, 2), change(2, 1)), applied=False),
            Decision(START + 5, "", "oera", error=Note("ValueError: x")),
        ],
    )
    assert headline(run).startswith("oera: 2.0 s from ")
    rows = [(r.number, r.after, r.what, r.why) for r in table(run)]
    assert rows == [
        (0, "1.0", "", "budget: 9 of 8"),  # said once, until it is said no more
        (1, "4.0", "q:0.10 1 -> 2 lanes (not carried out)", "rows <wait>"),
        (1, "4.0", "q:0.10 2 -> 1 lanes (not carried out)", "rows <wait>"),
        (0, "4.0", "", "budget: 9 of 8"),
        (0, "5.0", "failed, queries keep their lanes", "ValueError: x"),
    ]
    words = " ".join(summary(run))
    for part in ("900 rows/s", "0 lane changes", "2 lane changes decided and not", "1 turn failed"):
        assert part in words


def test_a_decision_reads_back_as_it_was() -> None:
    limits = (SourceLimit("q", 0.125, 2, "why"),)
    changes = (change(1, 2),)
    said = Decision(
        START + 0.125, "1", "oera", changes, limits, 3, True, (Note("a"), Note("b")), Note("error")
    )
    assert Decision.from_json(said.to_json()) == said
    told = said.to_plugin()
    told.ClearField("shard_moves")  # as Spark's UI answers
    told.ClearField("limits")
    shown = replace(said, shard_moves=0, limits=(), notes=(str(limits[0]), "a", "b"))
    assert Decision.of_message(told) == shown


class TestDrawn:
    """Needs matplotlib."""

    @pytest.mark.parametrize("moves", [True, False])
    @pytest.mark.parametrize("kind", ["html", "png", "svg"])
    def test_every_kind(self, tmp_path: Path, kind: str, moves: bool) -> None:
        trace = write(tmp_path / "t", moves=moves)
        out = tmp_path / f"out.{kind}"
        done = CliRunner().invoke(main, ["report", str(trace), "-o", str(out)])
        assert done.exit_code == 0, done.output
        assert f"wrote {out}" in done.output
        first = out.read_bytes()
        assert first.startswith({"html": b"<!DOCTYPE", "png": b"\x89PNG", "svg": b"<?xml"}[kind])
        assert len(first) > 20_000
        CliRunner().invoke(main, ["report", str(trace), "-o", str(out)])
        assert out.read_bytes() == first, "the same trace gives the same bytes"

    @pytest.mark.parametrize("folder", [True, False])
    def test_where_it_goes(self, tmp_path: Path, folder: bool) -> None:
        trace = write(tmp_path / "t")
        out = tmp_path / "out"
        out.mkdir()
        more = ["-o", str(out)] if folder else []
        assert CliRunner().invoke(main, ["report", str(trace), *more]).exit_code == 0
        assert ((out if folder else tmp_path) / "t.html").is_file()

    def test_the_page_has_all_decisions_and_is_safe(self, tmp_path: Path) -> None:
        count = ROWS + 50
        text = page(read_recording(write(tmp_path / "t", decisions=count)))
        assert all(f"<td>why {n}</td>" in text for n in range(count))
        run = columns([window(1, 1)], [Decision(START, "1", "<b>", (change(1, 2),))])
        assert "rows &lt;wait&gt;" in page(run)
        assert "<wait>" not in page(run) and "<b>" not in page(run)

    def test_one_window_many_partitions_and_unknown_queues(self, tmp_path: Path) -> None:
        parts = [partition(f"p$_{n}$", {"a": 1}, offered_rate=0.0) for n in range(60)]
        save(columns([cluster({"a": 60}, parts, time_s=1.0)]), tmp_path / "x.png")
        assert (tmp_path / "x.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("x.gif", ["--output", "x.gif", ".html, .png, .svg", "folder", "-o x.html"]),
        ("nowhere/x.png", ["--output", "nowhere", "a folder that is there"]),
        ("t.html", ["--output", "another file than the trace"]),
    ],
)
def test_wrong_outputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    trace = write(tmp_path / "t.html")
    before = trace.read_bytes()
    done = CliRunner().invoke(main, ["report", str(trace), "-o", output])
    assert done.exit_code == 2
    for word in words:
        assert word in done.output
    assert trace.read_bytes() == before


def test_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = CliRunner().invoke(main, ["report", str(write(tmp_path / "t"))])
    assert done.exit_code == 2
    assert "pip install matplotlib" in done.output
    assert not (tmp_path / "t.html").exists()


def test_a_damaged_event_is_named(tmp_path: Path) -> None:
    trace = write(tmp_path / "t")
    trace.write_text(trace.read_text().replace('"before"', '"befor"'))
    with pytest.raises(InputError, match=r"line 14: found .ValueError .*\"befor\".*a decision"):
        read_recording(trace)
