"""Clients that watch a control service, in a process of their own: its CPU time is not counted."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from laneshift.control.client import OPTIONS
from laneshift.control.protocol import SCHEME, TOKEN_KEY
from laneshift.plugin.v1 import control_pb2 as pb
from laneshift_bench.query import BenchmarkError

RUN = Path(__file__).parents[1] / "run.py"


class Watchers:
    """What the process of so many watchers is asked."""

    def __init__(self, process: subprocess.Popen[str], count: int) -> None:
        self._process = process
        self._count = count

    def seen(self) -> dict[str, list[int]]:
        """Snapshots and bytes that came to each so far."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise BenchmarkError(f"The process of {self._count} watchers has ended.")
        found: dict[str, list[int]] = json.loads(line)
        if found["ended"]:
            raise BenchmarkError(f"{sum(found['ended'])} watchers' streams have ended.")
        return found


@contextmanager
def watching(address: str, token: str, count: int, interval_s: float) -> Iterator[Watchers]:
    """So many clients watch, each on a connection of its own, once all have their first."""
    command = [sys.executable, str(RUN), "control-watchers", address, str(count), str(interval_s)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdin is not None and process.stdout is not None
        print(token, file=process.stdin, flush=True)
        if not process.stdout.readline():
            raise BenchmarkError(f"{count} watchers did not begin.")
        yield Watchers(process, count)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)


def child(address: str, count: int, interval_s: float) -> None:
    """That process: a line in, a line out, until its input ends.

    Its streams take the bytes that ``ControlClient.watch`` takes, but leave them as they are: 50
    clients on one machine would else be what is measured.
    """
    token = sys.stdin.readline().strip()
    seen, size, ended = [0] * count, [0] * count, list[int]()
    begun = threading.Semaphore(0)

    def watch(number: int) -> None:
        channel = grpc.insecure_channel(address, OPTIONS)
        stream: Any = channel.unary_stream("/laneshift.control.v1.Control/WatchSnapshots")
        call = stream(
            pb.WatchSnapshotsRequest(interval_s=interval_s).SerializeToString(),
            metadata=((TOKEN_KEY, SCHEME + token),),
        )
        try:
            for reply in call:
                if not seen[number]:
                    begun.release()
                seen[number] += 1
                size[number] += len(reply)
        except grpc.RpcError:
            ended.append(1)

    for number in range(count):
        threading.Thread(target=watch, args=(number,), daemon=True).start()
    for _ in range(count):
        if not begun.acquire(timeout=30):
            return
    print("begun", flush=True)
    for _ in sys.stdin:
        print(json.dumps({"seen": seen, "bytes": size, "ended": ended}), flush=True)
