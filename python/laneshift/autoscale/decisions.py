"""What the loop did, and why, in words; and what of it is news."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from google.protobuf.json_format import ParseDict, ParseError

from laneshift.autoscale.cores import Island
from laneshift.autoscale.pictures import Lanes
from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.ids import PartitionId
from laneshift.contract.partition_load import PartitionLoad
from laneshift.contract.plan import PartitionsChange, Plan, TasksChange
from laneshift.errors import LaneshiftError
from laneshift.plugin.v1 import control_pb2 as pb
from laneshift.plugin.wire import filled


class Note(str):
    """What there is to say of a turn, as text.

    Attributes:
        kind: two notes of a kind differ in their quantities at most, and say the same of the same
            partition, query or executor.
    """

    kind: str

    def __new__(cls, text: str, kind: str = "") -> Self:
        """``kind``: empty if the text has no quantities."""
        made = super().__new__(cls, text)
        made.kind = kind or text
        return made

    @classmethod
    def failed(cls, problem: Exception, text: str = "", kind: str = "") -> Self:
        """``text`` with what was thrown: those of a kind come from the same place in the code."""
        if isinstance(problem, LaneshiftError):
            named = (str(v) for v in problem.parameters.values() if not isinstance(v, int | float))
            where = " ".join([problem.condition, *named])
        else:
            at = traceback.extract_tb(problem.__traceback__)[-1:]
            where = f"{type(problem).__name__} {[(f.filename, f.lineno) for f in at]}"
        return cls(f"{text}{problem}", f"{kind} {where}")


@dataclass(frozen=True, slots=True)
class LaneChange:
    """A partition's lanes go from ``before`` to ``after``; ``reason`` says why in words, and
    ``elsewhere`` which of them are on other executors.
    """

    partition: PartitionId
    before: int
    after: int
    reason: str
    elsewhere: str = ""

    @property
    def what(self) -> str:
        """The change without its reason."""
        there = f", {self.elsewhere}" if self.elsewhere else ""
        return f"{self.partition} {self.before} -> {self.after} lanes{there}"

    def __str__(self) -> str:
        return f"{self.what}: {self.reason}"


@dataclass(frozen=True, slots=True)
class SourceLimit:
    """For so many windows (>= 1) a query's source gives ``rate`` (rows/s, >= 0) at most."""

    query: str
    rate: float
    windows: int
    reason: str

    @property
    def what(self) -> str:
        """The limit without its reason."""
        windows = "a window" if self.windows == 1 else f"{self.windows} windows"
        return f"source of {self.query} at {self.rate:,.0f} rows/s at most for {windows}"

    def __str__(self) -> str:
        return f"{self.what}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Decision:
    """One turn of the loop on one executor, or on all.

    Attributes:
        time_s: when it was measured (s since 1970, UTC).
        executor: whose partitions it is about; empty if it is about several, or the turn failed
            before it had any.
        policy: name of the policy.
        changes: lanes that change.
        limits: sources that are slowed down for a while.
        shard_moves: shards that the policy moves between lanes (count).
        applied: True if the changes were sent; False in a dry run, while paused, or on an error.
        notes: what the plan does not reach, or cannot do here, as texts.
        error: why the turn failed; the query goes on with the lanes it has.
        rescales: queries that are to have another number of state partitions.
        tasks: queries whose state partitions are to be computed in another number of tasks.
    """

    time_s: float
    executor: str
    policy: str
    changes: tuple[LaneChange, ...] = ()
    limits: tuple[SourceLimit, ...] = ()
    shard_moves: int = 0
    applied: bool = False
    notes: tuple[Note, ...] = ()
    error: Note | None = None
    rescales: tuple[PartitionsChange, ...] = ()
    tasks: tuple[TasksChange, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As a trace keeps it; the time is in whole milliseconds."""
        out: dict[str, Any] = asdict(self)
        del out["time_s"]
        return out | {"time_ms": round(1000 * self.time_s)}

    def to_message(self, number: int = 0) -> pb.Decision:
        """As it is sent; ``number`` is that of the control process."""
        return pb.Decision(number=number, **self.to_json())

    def to_plugin(self) -> pb.Decision:
        """As the plugin shows it: it takes limits, rescales and numbers of tasks as notes."""
        said = (*self._asked_of_queries(), *self._limited())
        more = [Note(f"{what}: {why}") for what, why in said]
        return replace(self, notes=(*more, *self.notes)).to_message()

    @classmethod
    def of_message(cls, said: pb.Decision) -> Decision:
        """Read what was sent."""
        read = filled(cls, said, time_s=said.time_ms / 1000)
        error = None if read.error is None else Note(read.error)
        return replace(read, notes=tuple(map(Note, read.notes)), error=error)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Decision:
        """Read what :meth:`to_json` wrote. Errors: ValueError if malformed."""
        try:
            return cls.of_message(ParseDict(dict(data), pb.Decision()))
        except ParseError as cause:
            raise ValueError(str(cause)) from cause

    @property
    def is_empty(self) -> bool:
        """True if the turn left everything as it was and has nothing to say."""
        return not (
            self.changes
            or self.limits
            or self.shard_moves
            or self.notes
            or self.error
            or self.rescales
            or self.tasks
        )

    @property
    def asked(self) -> list[str]:
        """The lanes, tasks and numbers of partitions that it wants, in words."""
        of_queries = (c.what for c in self._of_queries)
        return [*(c.what for c in self.changes), *of_queries]

    @property
    def _of_queries(self) -> tuple[PartitionsChange | TasksChange, ...]:
        return (*self.rescales, *self.tasks)

    def said(self) -> Iterator[tuple[str, str]]:
        """What it says, as pairs of what and why; of a note, what is empty."""
        for change in self.changes:
            yield f"{change.what}{self._held}", change.reason
        yield from self._asked_of_queries()
        yield from self._limited()
        for note in self.notes:
            yield "", note
        if self.error:
            yield "failed, queries keep their lanes", self.error

    def _asked_of_queries(self) -> Iterator[tuple[str, str]]:
        for change in self._of_queries:
            yield f"{change.what}{self._held}", change.reason

    def _limited(self) -> Iterator[tuple[str, str]]:
        for limit in self.limits:
            yield f"{limit.what}{self._held}", limit.reason

    @property
    def _held(self) -> str:
        return "" if self.applied else " (not carried out)"

    def lines(self) -> Iterator[str]:
        """What it says, line by line."""
        for what, why in self.said():
            yield f"{what}: {why}" if what else why


def failed(time_s: float, executor: str, policy: str, problem: Exception) -> Decision:
    """The decision of a turn that has thrown something."""
    note = Note.failed(problem, f"{type(problem).__name__}: ")
    return Decision(time_s, executor, policy, error=note)


def gave_way(island: Island, name: PartitionId, fits: Lanes) -> str:
    """Why a partition has no more lanes than ``fits``, whatever the policy says."""
    ref = island.partitions[name]
    for executor, lanes in ref.lanes.elsewhere.items() if island.spans else ():
        if fits.elsewhere.get(executor, 0) < lanes:
            if executor not in island.rooms:
                return f"executor {executor} is leaving"
            return f"executor {executor} needs its cores"
    return f"Spark leaves {island.rooms[ref.home].cores} cores to lanes on this executor"


def because(part: PartitionLoad, after: int, where: str | None) -> str:
    """Why a partition that was measured gets ``after`` lanes; ``where`` are the policy's words on
    the executors that they are on.
    """
    return _load(part, after) + (f"; {where}" if where else "")


def _load(part: PartitionLoad, after: int) -> str:
    if part.batch is not None:
        batch = part.batch
        every = f"every {batch.period_s:.3g} s" if batch.paced else f"in {batch.period_s:.3g} s"
        words = (
            f"{batch.rows:,.0f} rows {every} are {batch.work_s:.3g} s of work,"
            f" and the batch took {batch.took_s:.3g} s"
        )
        return words + (f", {batch.fixed_s:.2g} s of it beside lanes" if batch.paced else "")
    least = "at least " if part.saturated else ""
    words = (
        f"{least}{part.offered_rate:,.0f} rows/s come in, a busy core takes"
        f" {part.service_rate_per_core:,.0f} rows/s: {least}{part.offered_load:.2f} cores of work"
    )
    if part.saturated and after > part.cores:
        words += ", and its input has to wait"
    elif part.queue_rows >= 1:
        words += f", {part.queue_rows:,.0f} rows wait"
    return words


def out_of_reach(
    cluster: ClusterLoad, target_utilisation: float, target_batch_s: float | None
) -> tuple[Note, ...]:
    """Notes on queries of which no number of lanes brings a batch to the targets."""
    notes = []
    for query, members in cluster.queries.items():
        batches = [b for i in members if (b := cluster.partitions[i].batch) is not None]
        late = [b for b in batches if b.is_out_of_reach(target_utilisation, target_batch_s)]
        row_s = max((1.0 / cluster.partitions[i].service_rate_per_core for i in members), default=0)
        for batch in late[:1]:
            most = batch.most_s(target_utilisation, target_batch_s)
            text = (
                f"batches of {query} are to take {most:.2g} s at most, and {batch.fixed_s:.2g} s"
                " of each is planning, reading and commit, which lanes do not shorten: lengthen"
                " the trigger's interval or raise target_batch_s or target_utilisation"
            )
            notes.append(Note(text, f"fixed part of batches of {query}"))
        if not late and batches:
            most = min(b.most_s(target_utilisation, target_batch_s) for b in batches)
            if batches[0].paced and most < row_s:
                text = (
                    f"batches of {query} are to take {most:.2g} s at most, and a single row takes"
                    f" {row_s:.2g} s: raise target_batch_s"
                )
                notes.append(Note(text, f"rows of {query}"))
    return tuple(notes)


def not_done(plan: Plan) -> tuple[Note, ...]:
    """What of a plan cannot be done in a running query, and what it does not reach."""
    notes = [
        Note(
            f"{short.reason.value}: {short.message}",
            f"{short.reason.value}: {short.kind or short.message}",
        )
        for short in plan.shortfalls
    ]
    for split in plan.key_splits:
        notes.append(Note(f"key {split.key} cannot be split: one key runs on one lane at a time"))
    return tuple(notes)


AGAIN_S = 60.0
"""A note or an error that goes on, or comes back, is told again after so long (s, ours)."""


class Told:
    """By executor, what is asked for and what was noted."""

    def __init__(self) -> None:
        self._asked: dict[str, tuple[list[str], bool]] = {}
        self._noted_s: dict[str, dict[str, float]] = {}

    def forget(self, executor: str) -> None:
        """There are no partitions on it any more."""
        self._asked.pop(executor, None)
        self._noted_s.pop(executor, None)

    def is_news(self, decision: Decision, *, measured: bool) -> bool:
        """Whether it says what was not said lately; then it is taken for told.

        A turn for which nothing new was ``measured`` wants nothing, and takes nothing back: what a
        dry run would have done after each batch is news once. Reasons may differ: they have rates
        in them.
        """
        now = (decision.asked, decision.applied)
        asks = bool(decision.asked) and self._asked.get(decision.executor) != now
        if decision.asked:
            self._asked[decision.executor] = now
        elif measured and not decision.error:
            self._asked.pop(decision.executor, None)
        noted = self._noted_s.setdefault(decision.executor, {})
        for old in [k for k, at_s in noted.items() if decision.time_s - at_s >= AGAIN_S]:
            del noted[old]
        kinds = {note.kind for note in (*decision.notes, decision.error) if note}
        news = asks or bool(kinds - noted.keys()) or bool(decision.limits or decision.shard_moves)
        if news:
            noted.update(dict.fromkeys(kinds, decision.time_s))
        return news
