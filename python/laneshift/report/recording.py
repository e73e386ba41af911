"""What a trace holds, in columns over time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from laneshift.autoscale.decisions import Decision
from laneshift.autoscale.moves import Moves
from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.ids import PartitionId
from laneshift.contract.partition_load import PartitionLoad
from laneshift.contract.trace import read_entries
from laneshift.errors import InputError
from laneshift.inputcheck import FloatArray


@dataclass(frozen=True, eq=False)
class Recording:
    """A run, as a trace has it. Columns have T windows and P partitions; NaN: not there then.

    Attributes:
        time_s: end of each window (T,), rising.
        window_s: length of each window (T,).
        partitions: names (P,), sorted with numbers as numbers.
        offered, output: rows per second that came in and went out (T, P).
        capacity: rows per second that its lanes could take, were they busy (T, P).
        lanes: cores held (T, P).
        occupancy: rows waiting over rows that the queue holds (T, P).
        cores: cores of all nodes in each window (T,).
        decisions, moves: what the loop did, in order of time.
    """

    time_s: FloatArray
    window_s: FloatArray
    partitions: tuple[PartitionId, ...]
    offered: FloatArray
    output: FloatArray
    capacity: FloatArray
    lanes: FloatArray
    occupancy: FloatArray
    cores: FloatArray
    decisions: tuple[Decision, ...]
    moves: tuple[Moves, ...]

    @property
    def start_s(self) -> float:
        """Start of the first window."""
        return float(self.time_s[0] - self.window_s[0])

    @property
    def seconds(self) -> float:
        """Length of the run."""
        return float(self.time_s[-1]) - self.start_s


def read_recording(path: str | Path) -> Recording:
    """A trace as columns. Errors: InputError, as `read_entries`, and for a damaged event."""
    recorded: list[ClusterLoad] = []
    decisions: list[Decision] = []
    moves: list[Moves] = []
    for entry in read_entries(path):
        try:
            if entry.cluster is not None:
                recorded.append(entry.cluster)
            elif entry.event == "decision":
                decisions.append(Decision.from_json(entry.value))
            else:
                moves.append(Moves.from_json(entry.value))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{path}, line {entry.line}",
                f"{type(error).__name__} {error}",
                f"a {entry.event} of the live loop",
                "Record the trace again.",
            ) from error
    return columns(recorded, decisions, moves)


def columns(
    recorded: Sequence[ClusterLoad], decisions: Iterable[Decision] = (), moves: Iterable[Moves] = ()
) -> Recording:
    """Cluster loads (at least one, in order of time) as columns; one time is one window."""
    times = sorted({cluster.time_s for cluster in recorded})
    names = sorted({p.partition for cluster in recorded for p in cluster.partitions}, key=in_order)
    row = {time: i for i, time in enumerate(times)}
    column = {name: j for j, name in enumerate(names)}
    shape = (len(times), len(names))
    offered, output, capacity, lanes, occupancy = (np.full(shape, np.nan) for _ in range(5))
    window, cores = np.zeros(len(times)), np.zeros(len(times))
    for cluster in recorded:
        i = row[cluster.time_s]
        window[i] = cluster.window_s
        cores[i] += cluster.total_cores
        for part in cluster.partitions:
            at = (i, column[part.partition])
            offered[at] = part.offered_rate
            output[at] = np.nan if part.output_rate is None else part.output_rate
            capacity[at] = part.service_rate_per_core * part.cores
            lanes[at] = part.cores
            occupancy[at] = _occupancy(part)
    return Recording(
        np.array(times),
        window,
        tuple(names),
        offered,
        output,
        capacity,
        lanes,
        occupancy,
        cores,
        tuple(sorted(decisions, key=lambda d: d.time_s)),
        tuple(sorted(moves, key=lambda m: m.time_s)),
    )


def in_order(name: str) -> list[tuple[int, str]]:
    """A key to sort names by, numbers in them as numbers.

    >>> sorted(["q:0.10", "q:0.9"], key=in_order)
    ['q:0.9', 'q:0.10']
    """
    return [(int(t), "") if t.isdigit() else (-1, t) for t in re.split(r"(\d+)", name)]


def _occupancy(part: PartitionLoad) -> float:
    if part.queue_capacity_rows is None:
        return float("nan")
    return part.queue_rows / part.queue_capacity_rows
