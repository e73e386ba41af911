"""What a process holds: heap, native memory, threads and files."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from laneshift_bench.query import BenchmarkError

TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Held:
    """What a process holds.

    Attributes:
        heap_mb: in use after a full collection (MB); None of one that is no JVM.
        native_mb: resident memory without the heap, all of whose pages are touched (MB).
        threads, files: threads, and open files and sockets (counts).
    """

    heap_mb: float | None
    native_mb: float
    threads: int
    files: int


def held(pid: int, java: bool) -> Held | None:
    """Now, after a full collection if it is a JVM; None if the process has ended meanwhile."""
    total_kb = used_kb = 0
    if java:
        found = _heap(pid)
        if found is None:
            return None
        total_kb, used_kb = found
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        files = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return None
    numbers = {key: int(n) for key, n in re.findall(r"^(\w+):\s+(\d+)", status, re.MULTILINE)}
    if "VmRSS" not in numbers:  # it is a zombie
        return None
    return Held(
        round(used_kb * 1024 / 1e6, 2) if java else None,
        round((numbers["VmRSS"] - total_kb) * 1024 / 1e6, 2),
        numbers["Threads"],
        files,
    )


def _heap(pid: int) -> tuple[int, int] | None:
    """Committed and used (kB) after two full collections."""
    said = ""
    for command in ("GC.run", "GC.run", "GC.heap_info"):
        try:
            done = subprocess.run(
                ["jcmd", str(pid), command], capture_output=True, text=True, timeout=TIMEOUT_S,
                check=False,
            )  # fmt: skip
        except FileNotFoundError as cause:
            raise BenchmarkError("jcmd is not there; it comes with a JDK, on PATH.") from cause
        except subprocess.TimeoutExpired:
            return None
        if done.returncode:
            return None
        said = done.stdout
    return heap_of(said)


def heap_of(said: str) -> tuple[int, int] | None:
    """Committed and used (kB), added up over what ``jcmd GC.heap_info`` says of the heap's parts.

    >>> heap_of(" garbage-first heap   total 716800K, used 35840K [0x1, 0x2)\\n Metaspace used 9K")
    (716800, 35840)
    """
    parts = re.findall(r"total (\d+)K, used (\d+)K", said)
    if not parts:
        return None
    return sum(int(total) for total, _ in parts), sum(int(used) for _, used in parts)
