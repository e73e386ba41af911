"""A headless Chromium that a test looks at a page with: what it shows, what it complains of.

Talks Chromium's DevTools protocol over a pair of pipes, so that nothing but the browser is needed.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless",
    "--remote-debugging-pipe",
    # Runs as root in containers, where the sandbox cannot; the only pages are our own.
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


def require_chromium() -> str:
    """Its path; skips without one, unless LANESHIFT_REQUIRE_CHROMIUM is set."""
    asked = os.environ.get("LANESHIFT_CHROMIUM")
    found = asked or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        reason = f"none of {', '.join(NAMES)} is on PATH; LANESHIFT_CHROMIUM may name one"
        if os.environ.get("LANESHIFT_REQUIRE_CHROMIUM"):
            pytest.fail(f"LANESHIFT_REQUIRE_CHROMIUM is set, but {reason}")
        pytest.skip(f"needs Chromium: {reason}")
    return found


class Browser:
    """One page of a Chromium of its own, ``width`` x ``height`` pixels.

    ``complaints`` are what its console showed as errors, scripts that threw, and files that did
    not load, since the start.
    """

    def __init__(self, chromium: str, profile: Path, width: int = 1400, height: int = 900) -> None:
        (theirs_in, self._to), (self._from, theirs_out) = (_pipe(), _pipe())
        argv = [chromium, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        log = str(profile.parent / "chromium.log")
        # The browser reads commands from its file 3 and writes answers to its file 4.
        self._pid = os.posix_spawn(
            chromium,
            argv,
            dict(os.environ),
            setpgroup=0,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
                (os.POSIX_SPAWN_DUP2, theirs_in, 3),
                (os.POSIX_SPAWN_DUP2, theirs_out, 4),
            ],
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._unread = b""
        self._asked = 0
        self._loaded = False
        self.complaints: list[str] = []
        self._session: str | None = None
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def open(self, url: str) -> None:
        """Go to ``url`` and wait until it and what it needs have loaded."""
        self._loaded = False
        failed = self._call("Page.navigate", url=url).get("errorText")
        assert not failed, f"{url}: {failed}"
        self.wait_until_loaded()

    def wait_until_loaded(self) -> None:
        """Wait until the page has loaded since the last such wait."""
        deadline = time.monotonic() + 60
        while not self._loaded:
            self._next(deadline)
        self._loaded = False

    def ask(self, script: str) -> Any:
        """What a JavaScript expression gives in the page, as JSON."""
        answer = self._call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def screenshot(self, file: Path) -> None:
        """The whole page as a PNG."""
        picture = self._call("Page.captureScreenshot", captureBeyondViewport=True)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(base64.b64decode(picture["data"]))

    def close(self) -> None:
        """End the browser, whatever it does."""
        os.close(self._to)
        os.close(self._from)
        deadline = time.monotonic() + 5
        while not os.waitpid(self._pid, os.WNOHANG)[0]:
            if time.monotonic() > deadline:
                os.killpg(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)
                return
            time.sleep(0.05)

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        self._asked += 1
        command: dict[str, Any] = {"id": self._asked, "method": method, "params": params}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._to, json.dumps(command).encode() + b"\0")
        deadline = time.monotonic() + 60
        while (answer := self._next(deadline)).get("id") != self._asked:
            pass
        assert "error" not in answer, (method, answer)
        result: dict[str, Any] = answer["result"]
        return result

    def _next(self, deadline: float) -> dict[str, Any]:
        """The next message; notes what it tells of the page."""
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._from], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "Chromium does not answer"
            more = os.read(self._from, 1 << 20)
            assert more, "Chromium has ended"
            self._unread += more
        text, _, self._unread = self._unread.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        told = message.get("params", {})
        match message.get("method"):
            case "Page.loadEventFired":
                self._loaded = True
            case "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(told["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if told["type"] in ("error", "assert"):
                self.complaints.append(json.dumps(told["args"]))
            case "Log.entryAdded" if told["entry"]["level"] == "error":
                self.complaints.append(json.dumps(told["entry"]))
        return message


def _pipe() -> tuple[int, int]:
    """A pipe whose files have numbers above those that the browser knows."""
    ends = []
    for end in os.pipe():
        ends.append(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10))
        os.close(end)
    return ends[0], ends[1]
