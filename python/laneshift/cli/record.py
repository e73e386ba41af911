"""Records what a running application does, for ``laneshift report --live``."""

from __future__ import annotations

import time
from pathlib import Path

from laneshift.autoscale.measure import Meter
from laneshift.autoscale.moves import MoveLog
from laneshift.contract.trace import TraceWriter
from laneshift.control.client import ControlClient
from laneshift.errors import InputError


def record(client: ControlClient, trace: Path, seconds: float, interval_s: float = 1.0) -> None:
    """Write a trace of the next ``seconds`` to a new file; nothing is changed.

    Errors: FileExistsError, InputError if no elastic query was measured, those of the client.
    """
    meter, moves, windows = Meter(), MoveLog(client), 0
    with TraceWriter(trace) as out:
        began = time.monotonic()
        since_ms = 0
        for live in client.watch(interval_s):
            since_ms = since_ms or live.time_ms
            for island in meter.measure(live):
                if island.cluster is not None:
                    out.record(island.cluster)
                    windows += 1
            for moved in moves.since_last(live):
                out.note("moves", moved.to_json())
            if time.monotonic() - began >= seconds:
                break
        for decision in client.decisions(10_000):
            if decision.time_s >= since_ms / 1000:
                out.note("decision", decision.to_json())
    if windows == 0:
        raise InputError(
            "--live", f"no elastic query with rows within {seconds:g} s", "one that runs",
            "Start a query, or record for longer with --duration.",
        )  # fmt: skip
