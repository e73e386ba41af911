"""What the kernel tells of executors' processes: threads, CPU time, memory, ports."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
LISTENS = "0A"
"""The state of a listening socket in the kernel's table."""


def executors(application: str) -> dict[str, int]:
    """Process ids of the application's executors on this machine, by their ids."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        # The worker that starts an executor has it on its own command line in no case.
        if application in words and "--executor-id" in words:
            found[words[words.index("--executor-id") + 1]] = int(folder.name)
    return found


def threads(pid: int) -> dict[str, float]:
    """CPU time (s) by the first 15 letters of threads' names, those of one name together."""
    found: dict[str, float] = {}
    for name, seconds in _threads(pid):
        found[name] = found.get(name, 0.0) + seconds
    return found


def cpu_s(pid: int, *names: str) -> float:
    """CPU time (s) of the threads whose names begin so; of all without names."""
    return sum(seconds for name, seconds in threads(pid).items() if name.startswith(names or ("",)))


def _threads(pid: int) -> Iterator[tuple[str, float]]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            text = (task / "stat").read_text()
        except OSError:
            continue  # it has ended
        yield parse_stat(text)


def parse_stat(text: str) -> tuple[str, float]:
    """Name, and CPU time (s), of a thread's line in the kernel's words.

    >>> name, seconds = parse_stat("7 (lane (0)) S 1 1 1 0 -1 4 0 0 0 0 30 12 0 0 20 0 9")
    >>> name, seconds == 42 / TICKS
    ('lane (0)', True)
    """
    begin, end = text.index("("), text.rindex(")")
    fields = text[end + 2 :].split()
    return text[begin + 1 : end], (int(fields[11]) + int(fields[12])) / TICKS


def resident_mb(pid: int) -> float:
    """Memory in use (MB)."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / 1e6


def ports(pid: int) -> int:
    """TCP ports at which it listens."""
    own = set()
    for handle in Path(f"/proc/{pid}/fd").iterdir():
        try:
            own.add(os.readlink(handle))
        except OSError:
            continue  # closed since
    listening = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENS:
                listening.add(f"socket:[{fields[9]}]")
    return len(own & listening)
