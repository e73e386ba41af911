"""Traces: cluster loads in a JSON-lines file, so that any decision can be made again offline.

The first line is a header, ``{"laneshift_trace": 1}``; every other line is one cluster load, or
what a live loop did since: ``{"decision": {...}}``, ``{"moves": {...}}``. Fields that hold their
default are left out. A float is written so that it reads back as the same number.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from laneshift.contract.batch_load import BatchLoad
from laneshift.contract.cluster_load import ClusterLoad, Edge, Node, SourceLoad
from laneshift.contract.partition_load import HotKey, LaneLoad, NodeCores, PartitionLoad
from laneshift.contract.shard_table import ShardTable
from laneshift.contract.store_load import StoreLoad
from laneshift.contract.tasks_load import TasksLoad
from laneshift.errors import InputError
from laneshift.inputcheck import choice
from laneshift.models.tasks import Taken

__all__ = [
    "Entry",
    "TraceWriter",
    "from_json",
    "read_entries",
    "read_trace",
    "to_json",
]

VERSION = 1
_HEADER = "laneshift_trace"
EVENTS = ("decision", "moves")
"""What a trace may hold beside cluster loads; :mod:`laneshift.report.recording` reads it."""

_PARTS: dict[type[Any], dict[str, type[Any]]] = {
    ClusterLoad: {
        "nodes": Node,
        "partitions": PartitionLoad,
        "edges": Edge,
        "sources": SourceLoad,
        "stores": StoreLoad,
        "tasks": TasksLoad,
    },
    TasksLoad: {"known": Taken},
    PartitionLoad: {
        "placement": NodeCores,
        "lanes": LaneLoad,
        "shards": ShardTable,
        "hot_keys": HotKey,
        "batch": BatchLoad,
    },
}


class TraceWriter:
    """Appends cluster loads to a new file; use it as a context manager.

    with TraceWriter(path) as trace:
        trace.record(cluster load)

    With ``most_bytes`` (>= 1) a file that has become larger is kept as ``PATH.1``, in place of the
    one before it, and a new one begins: so much and as much again stay, of the newest.

    Raises:
        FileExistsError: there is a file already; a recording never overwrites another.
        OSError: by any method, if the file cannot be written. It ends with a whole line then, and
            what could not be written is missing.
    """

    def __init__(self, path: str | Path, most_bytes: int | None = None) -> None:
        self._path = Path(path)
        self._most_bytes = most_bytes
        self._begin()
        self._append({_HEADER: VERSION})

    def _begin(self) -> None:
        self._file = self._path.open("xb", buffering=0)
        self._bytes = 0

    def record(self, cluster: ClusterLoad) -> None:
        """Append one cluster load; it is on its way to the disk when this returns."""
        self._write(to_json(cluster))

    def note(self, event: str, value: dict[str, Any]) -> None:
        """Append what happened, one of `EVENTS`, as JSON."""
        self._write({choice("event", event, EVENTS): value})

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def discard(self) -> None:
        """Close the file and remove it: nothing came of the recording."""
        self._file.close()
        self._path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _write(self, value: dict[str, Any]) -> None:
        if self._most_bytes is not None and self._bytes > self._most_bytes:
            self._file.close()
            with suppress(FileNotFoundError):  # the next one could not begin the last time
                self._path.replace(f"{self._path}.1")
            self._begin()
        if not self._bytes:
            self._append({_HEADER: VERSION})
        self._append(value)

    def _append(self, value: dict[str, Any]) -> None:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False) + "\n"
        line = memoryview(text.encode())
        written = 0
        try:
            while written < len(line):
                written += self._file.write(line[written:])
        except OSError:
            with suppress(OSError):
                self._file.truncate(self._bytes)
                self._file.seek(self._bytes)
            raise
        self._bytes += len(line)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a trace.

    Attributes:
        line: its number, from 1.
        cluster load: what was measured, None if the line is an event.
        event: which of `EVENTS` it is, empty for a cluster load.
        value: the event's JSON object.
    """

    line: int
    cluster: ClusterLoad | None = None
    event: str = ""
    value: Mapping[str, Any] = field(default_factory=dict)


def read_entries(path: str | Path) -> Iterator[Entry]:
    """The lines of a trace, in order.

    Raises:
        InputError: no such file, not a trace, another version, a damaged line (named by number),
            time that goes backwards, or no cluster load at all. A last line that a crash cut short
            is left out.
    """
    if not Path(path).is_file():
        raise InputError(
            "trace", str(path), "a file", "An autoscaler records one: autoscale(trace=FILE)."
        )
    with Path(path).open(encoding="utf-8", errors="replace") as lines:
        _check_header(path, lines.readline())
        last = -math.inf
        for number, line in enumerate(lines, start=2):
            if not line.endswith("\n"):
                break
            try:
                entry = _entry(number, json.loads(line))
            except InputError as error:
                raise InputError(
                    f"{path}, line {number}: {error.field}",
                    error.found,
                    error.expected,
                    error.remedy,
                ) from error
            except (ValueError, TypeError, KeyError) as error:
                raise InputError(
                    f"{path}, line {number}",
                    str(error),
                    "a cluster load",
                    "Record the trace again.",
                ) from error
            if entry.cluster is not None:
                if entry.cluster.time_s < last:
                    raise InputError(
                        f"time_s in {path}, line {number}",
                        entry.cluster.time_s,
                        f"at least {last}, the time of the line before",
                        "Sort the trace by time.",
                    )
                last = entry.cluster.time_s
            yield entry
    if last == -math.inf:
        raise InputError(
            f"trace {path}",
            "no cluster load",
            "at least one",
            "Let the autoscaler run while a query works: the second turn measures first.",
        )


def read_trace(path: str | Path) -> Iterator[ClusterLoad]:
    """Cluster loads of a trace, one at a time, in order. Raises: as `read_entries`."""
    for entry in read_entries(path):
        if entry.cluster is not None:
            yield entry.cluster


def to_json(value: object) -> dict[str, Any]:
    """A cluster load, or a part of it, as a JSON object."""
    out: dict[str, Any] = {}
    for entry in fields(value):  # type: ignore[arg-type]
        if not entry.init:
            continue
        item = getattr(value, entry.name)
        if entry.default is not MISSING and _same(item, entry.default):
            continue
        out[entry.name] = _encode(item)
    return out


def from_json(value: dict[str, Any]) -> ClusterLoad:
    """The cluster load that `to_json` wrote; raises `InputError` for unknown fields."""
    found = _decode(ClusterLoad, value)
    assert isinstance(found, ClusterLoad)
    return found


def _entry(line: int, value: dict[str, Any]) -> Entry:
    if not isinstance(value, dict):
        raise InputError("line", value, "a JSON object", _ANOTHER)
    for event in EVENTS:
        if value.keys() == {event}:
            return Entry(line, event=event, value=dict(value[event]))
    return Entry(line, from_json(value))


def _check_header(path: str | Path, line: str) -> None:
    try:
        version = json.loads(line)[_HEADER]
    except (ValueError, TypeError, KeyError):
        version = None
    if version is not None and (type(version), version) != (int, VERSION):
        raise InputError(
            f"version of trace {path}",
            version,
            str(VERSION),
            "Read it with the version of laneshift that recorded it, or record it again.",
        )
    if version is None:
        raise InputError(
            f"first line of {path}",
            line[:60].rstrip(),
            f'{{"{_HEADER}": {VERSION}}}',
            "Record the trace with this version of laneshift.",
        )


_ANOTHER = "If another version of laneshift recorded it, read it with that, else record it again."


def _same(item: object, default: object) -> bool:
    return type(item) is type(default) and item == default


def _encode(item: object) -> object:
    if isinstance(item, np.ndarray):
        return item.tolist()
    if isinstance(item, tuple):
        return [_encode(each) for each in item]
    if hasattr(item, "__dataclass_fields__"):
        return to_json(item)
    return item.item() if isinstance(item, np.generic) else item


def _decode(kind: type[Any], value: dict[str, Any]) -> object:
    known = {entry.name for entry in fields(kind) if entry.init}
    unknown = sorted(set(value) - known)
    if unknown:
        raise InputError(
            f"{kind.__name__} in the trace", unknown[0], f"one of {sorted(known)}", _ANOTHER
        )
    needed = [
        entry.name
        for entry in fields(kind)
        if entry.init and entry.default is MISSING and entry.default_factory is MISSING
    ]
    if not value.keys() >= set(needed):
        raise InputError(
            f"{kind.__name__} in the trace",
            ", ".join(value),
            "at least " + ", ".join(name for name in needed if name not in value) + " too",
            _ANOTHER,
        )
    parts = _PARTS.get(kind, {})
    made: dict[str, Any] = {}
    for name, item in value.items():
        if name in parts and isinstance(item, list):
            made[name] = tuple(_decode(parts[name], each) for each in item)
        elif name in parts and item is not None:
            made[name] = _decode(parts[name], item)
        elif isinstance(item, list) and kind is not ShardTable:
            made[name] = tuple(item)
        else:
            made[name] = item
    return kind(**made)
