"""Before a test's limit ends it: what each JVM that was started is doing, on the real stderr.

The threads of Python are shown by pytest-timeout itself.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

BEFORE_S = 10.0
LOOK_S = 1.0


class Watch:
    """Tells once of a test that is near its limit."""

    def __init__(self) -> None:
        self.stderr = os.dup(2)  # nothing is captured yet
        self.near: tuple[str, float] | None = None  # the test that runs, and when it is to be told
        threading.Thread(target=self._run, name="watch", daemon=True).start()

    def _run(self) -> None:
        while True:
            time.sleep(LOOK_S)
            near = self.near
            if near is not None and time.monotonic() > near[1]:
                self.near = None
                os.write(self.stderr, said(near[0]).encode())

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_timeout_set_timer(self, item: pytest.Item, settings: Any) -> None:
        limit = settings.timeout
        self.near = item.nodeid, time.monotonic() + max(limit - BEFORE_S, limit / 2)

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_timeout_cancel_timer(self, item: pytest.Item) -> None:
        self.near = None


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Watch())


def said(test: str) -> str:
    dumps = [f"---- threads of JVM {pid}\n{threads(pid)}\n" for pid in jvms(os.getpid())]
    return f"\n{test} is near its limit; {len(dumps)} JVMs were started\n{''.join(dumps)}"


def jvms(ancestor: int) -> list[int]:
    """The Java processes that a process has started, and those that these have."""
    return [pid for pid, name in descendants(ancestor) if name == "java"]


def descendants(ancestor: int) -> list[tuple[int, str]]:
    """The processes that a process has started, and those that these have, with their names."""
    parents, names = dict[int, int](), dict[int, str]()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
        except OSError:  # it has ended meanwhile
            continue
        pid = int(stat.parent.name)
        parents[pid] = int(rest.split()[1])
        names[pid] = name

    def is_ours(pid: int) -> bool:
        while pid > 1 and pid != ancestor:
            pid = parents.get(pid, 0)
        return pid == ancestor

    return sorted((pid, name) for pid, name in names.items() if pid != ancestor and is_ours(pid))


def threads(pid: int) -> str:
    """As jstack says; a JVM without one beside it prints them itself."""
    try:
        jstack = Path(f"/proc/{pid}/exe").resolve().with_name("jstack")
        done = subprocess.run(
            [str(jstack), str(pid)], capture_output=True, text=True, timeout=4, check=True
        )
        return done.stdout.partition("}\n\n")[2] or done.stdout
    except (OSError, subprocess.SubprocessError) as problem:
        try:
            os.kill(pid, signal.SIGQUIT)
        except OSError:
            return "has ended"
        return f"on its own output, for there is no jstack: {problem}"
