"""The live scheduler: collect, evaluate, decide, realise, once per interval, on its own thread.

It only ever sends lane counts, shard moves, limits of sources, rescales and whose work is apart,
which the plugin carries out exactly: if it is slow, fails or ends, queries go on with the lanes
that they have, and limits end.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Collection
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from laneshift.errors import LaneshiftError, SessionError
from laneshift.loop.budget import fitting, held
from laneshift.loop.decision import (
    Decision,
    LaneChange,
    because,
    gave_way,
    not_done,
    out_of_reach,
)
from laneshift.loop.early import without_early_releases
from laneshift.loop.island import Island
from laneshift.loop.keys import KeyWishes, shuffles
from laneshift.loop.lanes import Lanes
from laneshift.loop.meter import Meter
from laneshift.loop.moves import MoveLog
from laneshift.loop.on_demand import OnDemand
from laneshift.loop.realise import TakenOver, move_shards, planned_lanes, set_lanes
from laneshift.loop.refusals import Refusals
from laneshift.loop.rescales import Rescaler
from laneshift.loop.throttles import Brakes, source_limits
from laneshift.plugin.gateway import Gateway
from laneshift.plugin.snapshot import Snapshot
from laneshift.scheduler.cluster_load import ClusterLoad
from laneshift.scheduler.ids import PartitionId
from laneshift.scheduler.plan import Plan
from laneshift.scheduler.policies.base import Policy, SizingPolicy
from laneshift.scheduler.trace import TraceWriter

KEPT = 10_000
"""Decisions that are remembered (ours)."""

CLAIM_S, RENEW_S = 5.0, 1.0
"""For so long a query is a scheduler's that is not heard of, and so often it says so (ours)."""


class LiveScheduler:
    """Drives running queries by a policy. Made by :meth:`laneshift.Laneshift.start`.

    Every method may be called from any thread.
    """

    def __init__(
        self,
        gateway: Gateway,
        policy: Policy[Any],
        *,
        interval_s: float = 1.0,
        query: str | None = None,
        cores: int | None = None,
        dry_run: bool = False,
        trace: str | Path | None = None,
        max_executors: int | None = None,
    ) -> None:
        self._gateway = gateway
        self._policy = policy
        self._interval_s = interval_s
        self._meter = Meter(query, cores, policy.places, policy.distributes)
        self._dry_run = dry_run
        self._id = uuid.uuid4().hex
        self._query = query or ""
        self._on_demand = OnDemand(gateway, self._id, policy, max_executors, cores)
        self._trace = TraceWriter(trace) if trace is not None else None
        self._moves = MoveLog(gateway, query)
        self._states: dict[str, Any] = {}
        self._answered_s: dict[str, float] = {}  # by executor
        self._taken = TakenOver()
        self._refusals = Refusals()
        self._told: dict[str, Decision] = {}  # by executor, of the turn before
        self._brakes = Brakes(gateway)
        self._rescaler = Rescaler(gateway)
        self._keys = KeyWishes(gateway, interval_s) if policy.distributes else None
        self._decisions: deque[Decision] = deque(maxlen=KEPT)
        self._listeners: list[Callable[[Decision], None]] = []
        self._turn = threading.Lock()
        self._over = threading.Event()
        self._paused = threading.Event()
        self._turns = 0
        self._thread = threading.Thread(target=self._run, name="laneshift scheduler", daemon=True)

    # ---- for users

    @property
    def policy(self) -> Policy[Any]:
        """The policy that decides."""
        return self._policy

    @property
    def name(self) -> str:
        """Name of the policy."""
        return self._policy.name

    @property
    def is_dry_run(self) -> bool:
        """True if it never sends anything."""
        return self._dry_run

    @property
    def is_running(self) -> bool:
        """True until it is stopped or its Spark session has gone."""
        return self._thread.is_alive() and not self._over.is_set()

    @property
    def is_paused(self) -> bool:
        """True while it decides but sends nothing."""
        return self._paused.is_set()

    @property
    def turns(self) -> int:
        """Turns done, those with nothing to change included."""
        return self._turns

    def pause(self) -> None:
        """Go on measuring and deciding, but send nothing until :meth:`resume`.

        Limits of sources end when their windows do.
        """
        with self._turn:
            self._paused.set()

    def resume(self) -> None:
        """Send decisions again."""
        self._paused.clear()

    def stop(self) -> None:
        """End the loop; returns once the last turn is over.

        Queries keep their lanes; their sources are held back no longer.
        """
        self._over.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()
        with suppress(LaneshiftError):  # the session may have gone
            self._gateway.release(self._id)
        if self._trace is not None and not self._thread.is_alive():
            self._trace.close()

    def decisions(self, limit: int = 100) -> tuple[Decision, ...]:
        """The newest ``limit`` decisions that had something to say, oldest first (10,000 kept).

        What a turn asks for again, because it comes with the next batch, is said once.
        """
        return tuple(self._decisions)[-limit:] if limit > 0 else ()

    def on_decision(self, listener: Callable[[Decision], None]) -> None:
        """Call ``listener`` with each such decision from now on, on the scheduler's thread."""
        self._listeners.append(listener)

    def __enter__(self) -> LiveScheduler:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "stopped" if not self.is_running else "paused" if self.is_paused else "running"
        return f"<laneshift scheduler {self._policy.name}, {state}, {self._turns} turns>"

    # ---- the loop

    def begin(self) -> LiveScheduler:
        """Start the thread; called once.

        A scheduler that has died is waited for until its claim lapses (5 s at most). Errors:
        :class:`~laneshift.errors.SessionError` if another one drives the queries, or there cannot
        be so many executors on demand.
        """
        try:
            self._claim_at_last()
            self._begin_demand()
        except BaseException:
            if self._trace is not None:
                self._trace.discard()
            raise
        self._thread.start()
        return self

    def _begin_demand(self) -> None:
        try:
            self._on_demand.begin()
        except BaseException:
            with suppress(LaneshiftError):
                self._gateway.release(self._id)
            raise

    def _claim_at_last(self) -> None:
        try:
            self._claim()
        except SessionError as held:
            if held.condition != "LANESHIFT_OTHER_SCHEDULER":
                raise
            time.sleep(float(str(held.parameters["seconds"])) + 0.05)
            self._claim()

    def _claim(self) -> None:
        """Takes or renews the right to drive the queries; a dry run needs none."""
        if not self._dry_run:
            self._gateway.claim(self._id, self._policy.name, self._query, CLAIM_S)

    def _run(self) -> None:
        with self._trace or nullcontext():
            self._repeat()
            self._brakes.release()
            if self._keys is not None and not self._dry_run:
                self._keys.release()

    def _repeat(self) -> None:
        due = time.monotonic()
        while not self._over.is_set():
            try:
                self._claim()
                self.turn()
            except LaneshiftError as problem:
                self._tell(self._failed(problem))
                if problem.condition == "LANESHIFT_SESSION_STOPPED":
                    self._over.set()
            except Exception as problem:
                # A policy may be the user's own: whatever it throws, the next turn tries again.
                self._tell(self._failed(problem))
            due = max(due + self._interval_s, time.monotonic())
            while (left := due - time.monotonic()) > 0 and not self._over.wait(min(left, RENEW_S)):
                with suppress(LaneshiftError):  # the next turn says so
                    self._claim()

    def _failed(self, problem: Exception) -> Decision:
        return Decision(
            time.time(), "", self._policy.name, error=f"{type(problem).__name__}: {problem}"
        )

    def turn(self) -> tuple[Decision, ...]:
        """One turn: measure, decide, send. Errors: whatever gateway or policy raise."""
        live = Snapshot.from_json(self._gateway.snapshot())
        done = []
        with self._turn:
            islands = self._meter.measure(live, grows=self._on_demand.is_on)
            for gone in self._states.keys() - {island.executor for island in islands}:
                del self._states[gone]
                self._told.pop(gone, None)
                self._answered_s.pop(gone, None)
            if self._keys is not None:
                self._keys.forget_all_but({q.run_id for q in live.queries if q.active})
            for island in islands:
                decision = self._decide(island, live)
                if decision is not None:
                    done.append(decision)
            if not any(island.spans for island in islands):
                notes = self._on_demand.turn(live, None, sends=self._sends)
                done += [self._said("", notes, self._sends)] if notes else []
            if self._trace is not None:
                for moves in self._moves.since_last(live):
                    self._trace.note("moves", moves.to_json())
            self._brakes.end_turn()
            self._turns += 1
        for decision in done:
            self._tell(decision)
        return tuple(done)

    def _tell(self, decision: Decision) -> None:
        before = self._told.get(decision.executor)
        self._told[decision.executor] = decision
        if decision.is_empty or decision.repeats(before):
            return
        self._decisions.append(decision)
        if self._trace is not None:
            with suppress(OSError):  # a full disk was told when the turn recorded its cluster load
                self._trace.note("decision", decision.to_json())
        with suppress(LaneshiftError):  # only for the UI
            self._gateway.decided(decision.to_plugin())
        for listener in self._listeners:
            listener(decision)

    @property
    def _sends(self) -> bool:
        return not (self._dry_run or self._paused.is_set())

    def _decide(self, island: Island, live: Snapshot) -> Decision | None:
        sends = self._sends
        if island.cluster is None:
            notes = self._take(island, ()) if sends else ()
            notes += self._on_demand.turn(live, island, sends=sends) if island.spans else ()
            return self._said(island.executor, notes, sends) if notes else None
        fits = fitting(island.held, island.budgets)
        refused = self._refusals.look(island, island.cluster.time_s) if island.spans else ()
        cluster = held(
            island.cluster,
            {name: (ref.home, fits[name]) for name, ref in island.partitions.items()},
            island.budgets,
        )
        plan, early = without_early_releases(self._answer(island, cluster, live), cluster)
        planned = self._refusals.without(planned_lanes(plan, island, fits), island)
        chosen = {change.partition for change in plan.core_changes}
        wanted = {
            name: lanes
            for name, lanes in planned.items()
            if lanes != island.partitions[name].lanes
            and (self._policy.sizes or name in chosen or not island.partitions[name].auto)
        }
        parts = {part.partition: part for part in cluster.partitions}
        reasons = dict(plan.reasons)
        changes = tuple(
            LaneChange(
                name,
                island.partitions[name].lanes.total,
                lanes.total,
                because(parts[name], lanes.total, reasons.get(name))
                if name in parts and _is_chosen(lanes, fits[name], island)
                else gave_way(island, name, fits[name]),
                lanes.words,
            )
            for name, lanes in wanted.items()
        )
        limits, notes = source_limits(plan, cluster, island)
        notes += refused + early + self._not_done(plan, island, sends)
        notes += self._out_of_reach(cluster)
        moves = 0
        asked = self._rescaler.wanted(plan.rescales, island, cluster.time_s)
        rescales = () if sends else self._rescaler.would(asked)
        if sends:
            notes += set_lanes(self._gateway, island, wanted)
            if island.spans:
                self._refusals.sent(island, wanted)
            notes += self._take(island, wanted)
            moves, more = move_shards(self._gateway, island, plan, planned)
            limits, untaken = self._brakes.hold(limits, cluster.window_s)
            rescales, refused = self._rescaler.send(asked, island, cluster.time_s)
            notes += more + untaken + refused
        if island.spans:
            notes += self._on_demand.turn(live, island, sends=sends)
        return Decision(
            cluster.time_s,
            island.executor,
            self._policy.name,
            changes,
            tuple(limits.values()),
            moves,
            sends,
            notes,
            rescales=rescales,
        )

    def _answer(self, island: Island, cluster: ClusterLoad, live: Snapshot) -> Plan:
        """The policy's plan; the empty one if nothing was measured since it answered last."""
        last_s = self._answered_s.get(island.executor)
        if not island.is_new and last_s is not None:
            return Plan()
        if last_s is not None and cluster.time_s > last_s:
            cluster = replace(cluster, window_s=cluster.time_s - last_s)
        self._answered_s[island.executor] = cluster.time_s
        if self._trace is not None:
            self._trace.record(cluster)
        state = self._states.get(island.executor)
        if state is None:
            state = self._policy.start()
        plan, self._states[island.executor] = self._policy.answer(cluster, state)
        if island.spans:
            kept, _ = without_early_releases(plan, cluster)
            self._on_demand.answered(live, island, cluster, state, kept)
        return plan

    def _take(self, island: Island, changed: Collection[PartitionId]) -> tuple[str, ...]:
        """Takes over what the policy decides from now on; notes on what it cannot have."""
        notes: tuple[str, ...] = ()
        if self._policy.sizes:
            notes += self._taken.take(self._gateway, island, changed)
        if self._keys is not None:
            notes += self._keys.claim(island)
        return notes

    def _not_done(self, plan: Plan, island: Island, sends: bool) -> tuple[str, ...]:
        """What a plan does with keys, what cannot be done, and what it does not reach."""
        if self._keys is None:
            return not_done(plan)
        keys = self._keys.decide(plan, island, sends=sends)
        return (*shuffles(plan, sends=sends), *keys, *not_done(replace(plan, key_splits=())))

    def _out_of_reach(self, cluster: ClusterLoad) -> tuple[str, ...]:
        """Notes on micro-batch queries whose batches cannot keep to the policy's targets."""
        if not isinstance(self._policy, SizingPolicy):
            return ()
        return out_of_reach(cluster, self._policy.target_utilisation, self._policy.target_batch_s)

    def _said(self, executor: str, notes: tuple[str, ...], applied: bool) -> Decision:
        return Decision(time.time(), executor, self._policy.name, applied=applied, notes=notes)


def _is_chosen(lanes: Lanes, fits: Lanes, island: Island) -> bool:
    """Whether they are the policy's choice, and not all that ``fits``."""
    return lanes != fits if island.spans else lanes.total != fits.total
