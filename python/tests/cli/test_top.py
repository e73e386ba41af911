"""``laneshift top``: what it shows of an answer, and what it says when there is none."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from laneshift.cli import top as module
from laneshift.cli.main import main
from laneshift.cli.top import Look, lines
from laneshift.plugin.v1 import control_pb2 as pb
from plugin.fake import RUNNING, STOPPED, executor, message, query, rescaling, snapshot_of
from plugin.fake import words as words_of

SNAPSHOT: dict[str, Any] = {
    "time_ms": 1_700_000_000_000,
    "version": "1.2.3",
    "executors": [executor("driver", cores=8, active_tasks=3)],
    "queries": [query(RUNNING, "running", active=True), query(STOPPED, "old", active=False)],
}
DECISION: dict[str, Any] = {
    "time_ms": 1_700_000_000_000,
    "executor": "driver",
    "policy": "elasticutor",
    "changes": [{"partition": "running:0.1", "before": 2, "after": 3, "reason": "rho is 0.97"}],
    "notes": ["no measurement yet of running:0.0"],
    "applied": False,
    "error": None,
}


def page(said: dict[str, Any], *decisions: dict[str, Any]) -> str:
    """The tab's JSON."""
    status = message(pb.StatusReply(), {"snapshot": said, "decisions": decisions})
    return json.dumps(words_of(status))


@contextmanager
def ui(status: int, body: str) -> Iterator[str]:
    """A Spark UI that knows one page."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/laneshift/json/" else 404)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def top(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["top", "--once", *arguments])


def test_partitions_lanes_and_decisions_are_shown() -> None:
    with ui(200, page(SNAPSHOT, DECISION)) as url:
        shown = top("--url", url)
    assert shown.exit_code == 0, shown.output
    words = " ".join(shown.output.split())
    parts = SNAPSHOT["queries"][0]["operators"][0]["partitions"]
    for part in parts:
        assert f"{part['lanes']} of {part['max_lanes']}" in words
        assert f"{part['rows_in_per_s']:,.0f}" in words
    assert "running:0.1 2 -> 3 lanes (not carried out): rho is 0.97" in words
    assert "no measurement yet of running:0.0" in words
    # Half busy and a quarter busy.
    assert words.count("▅▃") == len(parts)
    assert "4 lanes, 3 Spark tasks, 8 cores on 1 executor" in words
    assert "old" not in words


def test_lanes_on_other_executors_are_shown() -> None:
    there = {"executor": "7", "open": True} | dict.fromkeys(
        (
            "lane",
            "kept_bytes",
            "rows_sent",
            "frames",
            "state_reads",
            "bytes_sent",
            "bytes_received",
        ),
        1,
    )
    said = copy.deepcopy(SNAPSHOT)
    said["queries"][0]["operators"][0]["partitions"][0]["elsewhere"] = [there, there]
    change = DECISION["changes"][0] | {"elsewhere": "2 on executor 7"}
    decision = DECISION | {"changes": [change]}
    with ui(200, page(said, decision)) as url:
        words = " ".join(top("--url", url).output.split())
    assert words.count("▅▃, 2 on executor 7") == 1
    assert "running:0.1 2 -> 3 lanes, 2 on executor 7 (not carried out): rho is 0.97" in words
    assert "8 cores on 1 executor, 3 of them idle" in words
    said["executors"][0]["asked"] = True
    with ui(200, page(said)) as url:
        words = " ".join(top("--url", url).output.split())
    assert "8 cores on 1 executor (1 asked for), 3 of them idle" in words


def test_the_hottest_keys_are_shown_by_their_values_only_where_these_are_told() -> None:
    said = copy.deepcopy(SNAPSHOT)
    first, second = said["queries"][0]["operators"][0]["partitions"]
    first["hot_keys"] = [
        {"key": "0000002a", "value": "DE, 7", "share": 0.61},
        {"key": "0000002b", "value": None, "share": 0.055},
    ]
    second["hot_keys"] = [{"key": "0000002c", "value": "cool", "share": 0.03}]
    with ui(200, page(said)) as url:
        words = " ".join(top("--url", url).output.split())
    assert "0 hottest keys: DE, 7 61% of rows, #0000002b 6% of rows" in words
    assert words.count("hottest keys") == 1


def test_nothing_runs() -> None:
    with ui(200, page(SNAPSHOT | {"queries": []})) as url:
        shown = top("--url", f"http://{url}/")
    assert "No query with an elastic operator is running." in shown.output


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (404, "", ["has no tab Laneshift", "spark.plugins="]),
        (200, "<html>", ["No Spark UI answers", "--url"]),
        (200, '{"failure": {"message": "the plugin is not loaded"}}', ["the plugin is not loaded"]),
    ],
)
def test_what_answers_is_not_laneshift(status: int, body: str, words: list[str]) -> None:
    with ui(status, body) as url:
        shown = top("--url", url)
    assert shown.exit_code == 1
    for word in words:
        assert word in shown.output
    assert "Traceback" not in shown.output


def test_nobody_answers_and_wrong_options() -> None:
    assert "No Spark UI answers at localhost:1" in top("--url", "localhost:1").output
    assert ">= 0.2 s and <= 3600 s" in " ".join(top("--every", "0s").output.split())


def test_a_ui_that_was_seen_may_be_silent_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    def said(answers: list[bool]) -> Callable[[str], Look]:
        def status(_: str) -> Look:
            if answers.pop(0):
                return snapshot_of(SNAPSHOT), ()
            raise click.ClickException("No Spark UI answers")

        return status

    monkeypatch.setattr(module, "time", SimpleNamespace(sleep=lambda _: None))
    monkeypatch.setattr(module, "status", said([True, False, False, True] + 62 * [False]))
    shown = CliRunner().invoke(main, ["top", "--url", "x:1"])
    assert shown.output.count("laneshift 1.2.3") == 2
    assert shown.exit_code == 1 and "No Spark UI answers" in shown.output


def test_a_rescale_has_a_line() -> None:
    said = copy.deepcopy(SNAPSHOT)
    assert (
        "running: 4 -> 16 state partitions, building, 8 of 16 stores written, 3 batches behind"
        in lines(snapshot_of(said))
    )
    said["queries"][0]["rescale"] = rescaling("done", batch_id=7, pause_ms=81.5)
    assert "running: 4 -> 16 state partitions, done as batch 7, the query waited 82 ms" in lines(
        snapshot_of(said)
    )
    said["queries"][0]["rescale"] = rescaling("failed", failure="no space left")
    assert "running: 4 -> 16 state partitions, failed: no space left" in lines(snapshot_of(said))
