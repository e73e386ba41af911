"""What the loop did, and why, in words."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from laneshift.scheduler.ids import PartitionId
from laneshift.scheduler.plan import Plan
from laneshift.scheduler.snapshot import PartitionSnapshot, Snapshot


@dataclass(frozen=True, slots=True)
class LaneChange:
    """A partition's lanes go from ``before`` to ``after``; ``reason`` says why in words."""

    partition: PartitionId
    before: int
    after: int
    reason: str

    def __str__(self) -> str:
        return f"{self.partition} {self.before} -> {self.after} lanes: {self.reason}"


@dataclass(frozen=True, slots=True)
class Decision:
    """One turn of the loop on one executor.

    Attributes:
        time_s: when it was measured (s since 1970, UTC).
        executor: whose partitions it is about; empty for a turn that failed before it had any.
        policy: name of the policy.
        changes: lanes that change.
        shard_moves: shards that the policy moves between lanes (count).
        applied: True if the changes were sent; False in a dry run, while paused, or on an error.
        notes: what the plan does not reach, or cannot do here.
        error: why the turn failed; the query goes on with the lanes it has.
    """

    time_s: float
    executor: str
    policy: str
    changes: tuple[LaneChange, ...] = ()
    shard_moves: int = 0
    applied: bool = False
    notes: tuple[str, ...] = ()
    error: str | None = None

    def to_json(self) -> dict[str, object]:
        """What the plugin takes."""
        out: dict[str, object] = asdict(self)
        del out["time_s"], out["shard_moves"]
        return out | {"time_ms": round(1000 * self.time_s)}

    @property
    def is_empty(self) -> bool:
        """True if the turn left everything as it was and has nothing to say."""
        return not (self.changes or self.shard_moves or self.notes or self.error)


def because(part: PartitionSnapshot | None, after: int, budget: int, cut: bool) -> str:
    """Why a partition gets ``after`` lanes; ``part`` is its measurement, None if there is none."""
    if cut or part is None:
        return f"Spark leaves {budget} cores to lanes on this executor"
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


def not_done(plan: Plan, snapshot: Snapshot) -> tuple[str, ...]:
    """What of a plan cannot be done in a running query, and what it does not reach."""
    known = {part.partition for part in snapshot.partitions}
    notes = [f"{short.reason.value}: {short.message}" for short in plan.shortfalls]
    for throttle in plan.throttles:
        what = "partition" if throttle.target in known else "source"
        notes.append(
            f"{what} {throttle.target} cannot be slowed down to {throttle.rate:,.0f} rows/s:"
            " back-pressure does that"
        )
    for split in plan.key_splits:
        notes.append(f"key {split.key} cannot be split: one key runs on one lane at a time")
    return tuple(notes)
