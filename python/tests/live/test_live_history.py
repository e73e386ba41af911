"""Spark's History Server and an application that has ended: with our jar it shows the tab."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from laneshift.plugin.jar import jar_path
from live.browser import Browser, require_chromium
from live.conftest import run_app

pytestmark = [pytest.mark.live, pytest.mark.deep("surface")]

PICTURES = Path(__file__).parents[3] / "build" / "screenshots"


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The event logs of an application that has ended, and its id."""
    folder = tmp_path_factory.mktemp("history")
    (folder / "events").mkdir()
    seen = run_app(Path(__file__).with_name("history_app.py"), folder, limit_s=240)
    assert seen["moved"] >= 10
    return folder / "events", seen["id"]


@contextmanager
def history_server(events: Path, class_path: str) -> Iterator[str]:
    """A History Server of Spark in a process of its own; gives its address."""
    import pyspark

    home = Path(pyspark.__file__).parent
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = {
        "spark.history.fs.logDirectory": events.as_uri(),
        "spark.history.ui.port": port,
        "spark.history.fs.update.interval": "1s",
    }
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_CLASSPATH": class_path,
        "SPARK_HISTORY_OPTS": " ".join(f"-D{k}={v}" for k, v in options.items()),
    }
    log = events.parent / "history-server.log"
    with log.open("w") as out:
        server = subprocess.Popen(
            [str(home / "bin" / "spark-class"), "org.apache.spark.deploy.history.HistoryServer"],
            env=environment,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        try:
            url = f"http://127.0.0.1:{port}"
            end = time.monotonic() + 90
            while not listed(url):
                assert server.poll() is None and time.monotonic() < end, log.read_text()[-3000:]
                time.sleep(0.3)
            yield url
        finally:
            server.terminate()
            server.wait(30)


def listed(url: str) -> bool:
    try:
        with urlopen(f"{url}/api/v1/applications", timeout=30) as answer:
            return bool(json.load(answer))
    except (URLError, ConnectionError):
        return False


def test_the_tab_of_an_application_that_has_ended(
    application: tuple[Path, str], tmp_path: Path
) -> None:
    events, app = application
    with history_server(events, str(jar_path())) as url:
        with urlopen(f"{url}/history/{app}/laneshift/", timeout=60) as answer:
            html = answer.read().decode()
        text = re.sub(r"<(style|script).*?</\1>|<[^>]+>", " ", html, flags=re.DOTALL)
        text = re.sub(r"\s+", " ", unescape(text))
        for words in (
            "as the event log has it: 2 runs of elastic queries",
            "Query ends (",
            "Query goes on (",
            "Operator 0, stateStoreSave , in micro-batches: 2 partitions on ",
            "keys, ",
            "moves of shards",
            "Over time",
            "What the autoscaler decided, newest first",
            "Moves of shards",
            "ends, operator 0",
        ):
            assert words in text, (words, text[:6000])
        assert "Load again" not in text
        assert html.count("<polyline") >= 3
        assert html.count("<circle") >= 20
        browser = Browser(require_chromium(), tmp_path / "profile")
        try:
            browser.open(f"{url}/history/{app}/laneshift/")
            browser.screenshot(PICTURES / "tab-history.png")
            assert browser.ask("document.querySelectorAll('.ls-partition').length") == 4
            assert browser.complaints == []
        finally:
            browser.close()


def test_a_history_server_without_the_jar_shows_the_rest(application: tuple[Path, str]) -> None:
    events, app = application
    with history_server(events, "") as url:
        with urlopen(f"{url}/history/{app}/jobs/", timeout=60) as answer:
            assert "Laneshift" not in answer.read().decode()
        with urlopen(f"{url}/history/{app}/laneshift/", timeout=60) as answer:
            assert "ls-partition" not in answer.read().decode()
