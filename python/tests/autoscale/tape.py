"""What the plugin answered to an autoscaler of a live test, on tape, and its turns taken again.

A trace has what a policy saw; a tape has what the whole loop saw: snapshots, presses, how executors
on demand stand, what was refused. ``LANESHIFT_TAPES=FOLDER`` while a live test runs records one of
each autoscaler; ``python tape.py FILE NAME SECONDS`` keeps so much of one with the others.

The first line says policy and options; a snapshot is what has changed since the one before.
"""

from __future__ import annotations

import copy
import gzip
import json
import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache, partialmethod
from pathlib import Path
from typing import Any

from autoscale.driven import Time
from autoscale.scripted import until
from laneshift.autoscale.decisions import Decision
from laneshift.autoscale.loop import AutoscaleLoop
from laneshift.autoscale.options import AutoscaleOptions
from laneshift.contract.policy import Policy
from laneshift.errors import LaneshiftError, error
from laneshift.plugin.gateway import Gateway
from laneshift.plugin.v1 import control_pb2 as pb
from laneshift.policies import registry
from plugin.fake import WISHES, FakeGateway, M, call_of, message, words

TAPES = Path(__file__).with_name("tapes")
COMMANDS = ("set_lanes", "set_tasks", "rescale", "move_shard", "limit_source", "claim_keys")
OPTIONS = ("interval_s", "query", "cores", "dry_run", "max_executors")
UNREAD = {
    *("host", "idle_cores", "latency_ms", "pause_us", "handoffs_per_s"),
    *("rows_in_per_s", "rows_out_per_s", "bytes_in_per_s", "bytes_out_per_s"),
    *("remote_rows", "remote_frames", "remote_state_reads", "remote_kept_bytes"),
    *("remote_bytes_sent", "remote_bytes_received", "kept_bytes", "frames", "state_reads"),
    *("bytes_sent", "bytes_received", "state_memory_bytes", "state_file_bytes"),
}
"""What no decision here hangs on: it stays as it was at first."""


def shorter(value: Any, digits: int = 6) -> Any:
    """With numbers of no more digits than decisions need."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, list):
        return [shorter(each, digits) for each in value]
    if isinstance(value, dict):
        return {k: shorter(each, 3 if k == "shard_load" else digits) for k, each in value.items()}
    return value


def change(old: Any, new: Any) -> Any:
    """What makes ``new`` of ``old``: what differs of an object, or of a list as long as before."""
    if isinstance(old, dict) and isinstance(new, dict):
        gone = {"-": sorted(old.keys() - new.keys())} if old.keys() - new.keys() else {}
        return gone | {
            k: change(old[k], v) if k in old else v
            for k, v in new.items()
            if k not in old or (old[k] != v and k not in UNREAD)
        }
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        differs = {str(i): change(a, b) for i, (a, b) in enumerate(zip(old, new, strict=True))
                   if a != b}  # fmt: skip
        return differs if any(isinstance(a, dict) for a in old) or len(differs) < 3 else new
    return new


def changed(old: Any, by: Any) -> Any:
    """``old`` with a change."""
    if isinstance(old, dict) and isinstance(by, dict):
        kept = {k: v for k, v in old.items() if k not in by.get("-", ())}
        return kept | {k: changed(old.get(k), v) for k, v in by.items() if k != "-"}
    if isinstance(old, list) and isinstance(by, dict):
        return [changed(a, by[str(i)]) if str(i) in by else a for i, a in enumerate(old)]
    return copy.deepcopy(by)


class Recorder(Gateway):
    """A gateway that keeps what another one answers, and answers what it keeps."""

    def __init__(self, gateway: Gateway, path: Path, head: Mapping[str, Any]) -> None:
        self._gateway = gateway
        self._path = path
        self._last: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._write(head)

    def _write(self, line: Mapping[str, Any]) -> None:
        with self._lock, self._path.open("a", encoding="utf-8") as out:
            out.write(json.dumps(line, separators=(",", ":"), default=repr) + "\n")

    def version(self) -> str:
        return self._gateway.version()

    def ask(self, method: str, request: Any, reply: type[M]) -> M:
        if method in WISHES:
            return reply(outcomes=[self._outcome(method, wish) for wish in request.wishes])
        name, arguments = call_of(method, request)
        call = [name, *arguments] if name in COMMANDS else None
        try:
            made = self._gateway.ask(method, request, reply)
        except LaneshiftError as problem:
            if call:
                refused = {"condition": problem.condition, "parameters": problem.parameters}
                self._write({"call": call, "refused": refused})
            raise
        said = shorter(words(made))
        if method == "Snapshot":
            by = change(self._last, said)
            self._write({"snapshot": by})
            self._last = said = changed(self._last, by)
        elif method == "DemandExecutors":
            self._write({"standing": said})
        elif method == "AwaitPressed" and said["presses"]:
            self._write({"pressed": said})
        elif call:
            self._write({"call": call, "said": said})
        return message(reply(), said)

    def _outcome(self, method: str, wish: Any) -> pb.Outcome:
        request = getattr(pb, f"{method}Request")(wishes=[wish])
        (outcome,) = self._gateway.ask(method, request, pb.OutcomesReply).outcomes
        name, arguments = call_of(method, wish)
        said: dict[str, Any] = {"said": {"applied": pb.Applied.Name(outcome.applied)}}
        if outcome.HasField("failure"):
            failure = outcome.failure
            parameters = dict(failure.parameters)
            said = {"refused": {"condition": failure.condition, "parameters": parameters}}
        self._write({"call": [name, *arguments]} | said)
        return outcome


def record_all(folder: Path) -> None:
    """From now on each autoscaler of this process is recorded there."""
    if AutoscaleLoop.__init__.__name__ == "recorded":
        return
    folder.mkdir(parents=True, exist_ok=True)
    plain, known = AutoscaleLoop.__init__, []

    def recorded(
        self: AutoscaleLoop,
        gateway: Any,
        policy: Policy[Any],
        options: AutoscaleOptions = AutoscaleOptions(),  # noqa: B008 - frozen
        **more: Any,
    ) -> None:
        known.append(policy)
        path = folder / f"{policy.name}-{os.getpid()}-{len(known)}.jsonl"
        given = {f.name: getattr(policy, f.name) for f in fields(policy) if f.init}
        usual = {f.name: f.default for f in fields(policy)}
        head: dict[str, Any] = {
            "policy": policy.name,
            "parameters": {k: v for k, v in given.items() if v != usual[k]},
            "options": {k: getattr(options, k) for k in OPTIONS if getattr(options, k)},
        }
        path.unlink(missing_ok=True)
        plain(self, Recorder(gateway, path, head), policy, options, **more)

    AutoscaleLoop.__init__ = recorded  # type: ignore[method-assign]


@cache
def on_tape(path: Path) -> tuple[dict[str, Any], ...]:
    """The lines, snapshots whole; they are not to be changed."""
    lines: list[dict[str, Any]] = []
    seen: dict[str, Any] = {}
    with gzip.open(path, "rt", encoding="utf-8") as text:
        for line in map(json.loads, text):
            if "snapshot" in line:
                seen = changed(seen, line["snapshot"])
                line = {"snapshot": seen}
            lines.append(line)
    return tuple(lines)


class Tape(FakeGateway):
    """Answers what is on tape, in its order, and ends the loop then; ``sent`` has what it did.

    Attributes:
        head: policy, its parameters and the autoscaler's options.
        time: of the snapshot that was given last (s since the first), and what was waited since.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.head, *self._lines = on_tape(path)
        self._at = 0
        self._began_ms = 0
        # Before its first turn an autoscaler looks which run its only query has.
        self._looked = "query" not in self.head["options"]
        self.time = Time()

    def _until(self, kind: str) -> Any:
        """What is on tape of that kind before the next snapshot; it is given once."""
        for i in range(self._at, len(self._lines)):
            if kind in self._lines[i]:
                return self._lines.pop(i)[kind]
            if "snapshot" in self._lines[i]:
                return None
        return None

    def on_snapshot(self) -> dict[str, Any]:
        if not self._looked:
            self._looked = True
            first: dict[str, Any] = next(s["snapshot"] for s in self._lines if "snapshot" in s)
            return first
        while self._at < len(self._lines):
            line = self._lines[self._at]
            self._at += 1
            if "snapshot" in line:
                seen: dict[str, Any] = line["snapshot"]
                self._began_ms = self._began_ms or seen["time_ms"]
                self.time.now = max(self.time.now, (seen["time_ms"] - self._began_ms) / 1000)
                return seen
        raise error("LANESHIFT_SESSION_STOPPED", method="snapshot")

    def not_again(self) -> list[Any]:
        """Commands of then that have not come again."""
        return [line["call"] for line in self._lines[: self._at] if "call" in line]

    def on_await_pressed(
        self, autoscaler: str, run: str, after: int, seconds: float
    ) -> dict[str, Any]:
        said: dict[str, Any] | None = self._until("pressed") if seconds else None
        if said is None:
            self.time.now += seconds
        return said or {"seq": after, "presses": []}

    def on_demand_executors(
        self, autoscaler: str, most: int, total: int, give_back: Sequence[str]
    ) -> dict[str, Any]:
        self.standing = self._until("standing") or self.standing
        return super().on_demand_executors(autoscaler, 0, total, give_back)

    def command(self, *arguments: Any, name: str) -> dict[str, Any]:
        usual: dict[str, Any] = getattr(FakeGateway, f"on_{name}")(self, *arguments)
        wanted = json.loads(json.dumps([name, *arguments]))
        for i, line in enumerate(self._lines[self._at :], start=self._at):
            if line.get("call") == wanted:
                del self._lines[i]
                if "refused" in line:
                    raise error(line["refused"]["condition"], **line["refused"]["parameters"])
                said: dict[str, Any] = line["said"]
                return said
            if "snapshot" in line:
                break
        return usual


for _name in COMMANDS:
    setattr(Tape, f"on_{_name}", partialmethod(Tape.command, name=_name))


class Played:
    """A tape that was played to its end.

    Attributes:
        decisions: with their times (s since the first snapshot).
        sent: commands, as :class:`FakeGateway` keeps them.
        tape: what is left of it.
    """

    def __init__(self, path: Path, policy: Policy[Any] | None = None) -> None:
        self.tape = tape = Tape(path)
        head = tape.head
        self.decisions: list[tuple[float, Decision]] = []
        driving = AutoscaleLoop(
            tape,
            policy or registry.policy(head["policy"], **head["parameters"]),
            AutoscaleOptions(**head["options"]),
            clock=tape.time,
            cpu=lambda: 0.0,
            wait=tape.time.wait,
        )
        driving.on_decision(lambda decision: self.decisions.append((tape.time.now, decision)))
        driving.begin()
        until(lambda: not driving.is_running)
        driving.stop()
        assert "SESSION_STOPPED" in str(self.decisions.pop()[1].error), "the tape is over"
        self.turns = driving.turns
        self.sent = tape.sent

    def lines(self) -> Iterator[str]:
        """What was decided, with the time."""
        for at, decision in self.decisions:
            yield from (f"{at:7.1f}  {line}" for line in decision.lines())


def cut(source: Path, target: Path, last_s: float) -> None:
    """What is on a recording up to a time, as a tape."""
    began, standing = None, None
    # The same bytes each time.
    with target.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as out:
        for text in source.read_text("utf-8").splitlines(keepends=True):
            line = json.loads(text)
            now_ms = line.get("snapshot", {}).get("time_ms")
            began = began or now_ms
            if now_ms and now_ms - began > 1000 * last_s:
                break
            if "standing" not in line or line["standing"] != standing:
                out.write(re.sub(r"file:/[^]\"]*", "file:/in", text).encode())
            standing = line.get("standing", standing)


if __name__ == "__main__":
    made = TAPES / f"{sys.argv[2]}.jsonl.gz"
    cut(Path(sys.argv[1]), made, float(sys.argv[3]))
    played = Played(made)
    print(*played.lines(), sep="\n")
    print(f"{made.stat().st_size} bytes, {played.turns} turns; sent then, and not now:")
    print(*played.tape.not_again()[:9], sep="\n")
