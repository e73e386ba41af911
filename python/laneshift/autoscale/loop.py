"""The loop: look, measure, decide, act, once per interval, on its own thread.

It only ever sends lane counts, shard moves, limits of sources, rescales, numbers of tasks and whose
work is apart, which the plugin carries out exactly: if it is slow, fails or ends, queries go on
with the lanes that they have, and limits end.

A partition that becomes pressed wakes it before its time (docs/decisions/0022): it then takes a few
short turns, which only ever add lanes, and goes on as before.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from laneshift.autoscale.act import (
    Refusals,
    TakenOver,
    move_shards,
    only_more,
    planned_lanes,
    set_lanes,
    without_early_releases,
)
from laneshift.autoscale.cores import Island, Lanes, fitting, held
from laneshift.autoscale.decisions import (
    Decision,
    LaneChange,
    Told,
    because,
    gave_way,
    not_done,
    out_of_reach,
)
from laneshift.autoscale.executors import OnDemand
from laneshift.autoscale.measure import Meter
from laneshift.autoscale.memory import Memory
from laneshift.autoscale.moves import MoveLog
from laneshift.autoscale.options import AutoscaleOptions
from laneshift.autoscale.pictures import Key, Silence, Steady
from laneshift.autoscale.queries import KeyWishes, Rescaler, Tasker, shuffles
from laneshift.autoscale.sources import Brakes, source_limits
from laneshift.errors import LaneshiftError, SessionError
from laneshift.plugin.gateway import Gateway
from laneshift.plugin.press import Press
from laneshift.plugin.snapshot import Snapshot
from laneshift.scheduler.cluster_load import ClusterLoad
from laneshift.scheduler.hurry import DEAF_S, SHORT_S, ShortTurns
from laneshift.scheduler.ids import PartitionId
from laneshift.scheduler.measured import changed
from laneshift.scheduler.plan import Plan
from laneshift.scheduler.policies.base import Policy, SizingPolicy
from laneshift.scheduler.trace import TraceWriter


class Presses:
    """Of one scheduler. ``only``: run id of the only query that is looked at, empty for all."""

    def __init__(self, gateway: Gateway, scheduler: str) -> None:
        self._gateway = gateway
        self._scheduler = scheduler
        self.only = ""
        self._known = 0

    def wait(self, seconds: float) -> tuple[Press, ...]:
        """Those of partitions that become pressed; empty after ``seconds``, or once it is ended.

        Errors: what the gateway raises.
        """
        self._known, presses = self._gateway.await_pressed(
            self._scheduler, self.only, self._known, seconds
        )
        return presses

    def end(self) -> None:
        """Let another thread that waits go on at once."""
        with suppress(LaneshiftError):  # the session may have gone
            self._gateway.await_pressed(self._scheduler, self.only, self._known, 0.0)


def rest(presses: Presses, wait: Callable[[], object], seconds: float) -> tuple[Press, ...]:
    """Wait so long (s), or for a press; after an error by ``wait``, for the next turn tells it."""
    try:
        return presses.wait(seconds)
    except LaneshiftError:
        wait()
        return ()


A = TypeVar("A")

D = TypeVar("D")

_LOG = logging.getLogger("laneshift")

KEPT = 10_000
"""Decisions that are remembered (ours)."""

TRACE_BYTES = 1 << 29
"""Of a trace so much, and the same again of what was before it, is kept (bytes, ours)."""

REST = 3.0
"""So many times its CPU time the loop rests behind a turn at least (ours): it is the driver's
machine, which has queries to run."""

CLAIM_S, RENEW_S = 5.0, 1.0
"""For so long a query is a scheduler's that is not heard of, and so often it says so (ours)."""


class AutoscaleLoop:
    """Drives running queries by a policy. Made by :meth:`laneshift.Application.autoscale`.

    Every method may be called from any thread.
    """

    def __init__(
        self,
        gateway: Gateway,
        policy: Policy[Any],
        options: AutoscaleOptions = AutoscaleOptions(),  # noqa: B008 - frozen
        *,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.thread_time,
        wait: Callable[[threading.Event, float], object] = threading.Event.wait,
    ) -> None:
        """An only query is followed: when it starts anew, by its name or from its checkpoint, that
        run is driven; while there is none, nothing is.

        Args:
            options: checked (``check_for``).
            clock: seconds since whenever; the gateway's waits for presses have to agree with it.
            cpu: the same of the CPU time of the thread that asks.
            wait: until an event is set, or so many seconds have passed.
        """
        self._gateway = gateway
        self._policy = policy
        self._clock = clock
        self._cpu = cpu
        self._wait = wait
        self._options = options
        self._meter = Meter(
            None if options.query is None else "",
            options.cores,
            policy.places,
            policy.distributes,
        )
        self._id = uuid.uuid4().hex
        self._run_id = ""
        self._on_demand = OnDemand(gateway, self._id, policy, options)
        self._trace = None if options.trace is None else TraceWriter(options.trace, TRACE_BYTES)
        self._untraced: tuple[str, ...] = ()
        self._slow: tuple[str, ...] = ()
        self._moves = MoveLog(gateway)
        self._presses = Presses(gateway, self._id)
        self._states: dict[str, Any] = {}
        self._answered_s: dict[str, float] = {}  # by executor
        self._silence = Silence()
        self._steady = Steady()
        self._looked: tuple[float, float] | None = None  # when, by the driver's clock and by ours
        self._memory = Memory()
        self._taken = TakenOver(self._memory)
        self._refusals = Refusals(self._memory)
        self._told = Told()
        self._brakes = Brakes(gateway)
        self._rescaler = Rescaler(gateway, self._memory)
        self._tasker = Tasker(gateway, self._memory)
        self._keys = None
        if policy.distributes:
            self._keys = KeyWishes(gateway, options.interval_s, self._memory)
        self._decisions: deque[Decision] = deque(maxlen=KEPT)
        self._listeners: list[Callable[[Decision], None]] = []
        self._turn = threading.Lock()
        self._over = threading.Event()
        self._stopped = False
        self._paused = threading.Event()
        self._turns = 0
        self._thread = threading.Thread(target=self._run, name="laneshift scheduler", daemon=True)

    # ---- for users

    @property
    def id(self) -> str:
        """By which the plugin knows it."""
        return self._id

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
        return self._options.dry_run

    @property
    def is_running(self) -> bool:
        """True until it is stopped or its Spark session has gone."""
        return self._thread.is_alive() and not self._over.is_set()

    @property
    def is_stopped(self) -> bool:
        """True once :meth:`stop` was called."""
        return self._stopped

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
        self._stopped = True
        self._over.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._presses.end()
            self._thread.join()
        with suppress(LaneshiftError):  # the session may have gone
            self._gateway.release(self._id)
        if self._trace is not None and not self._thread.is_alive():
            self._trace.close()

    def decisions(self, limit: int = 100) -> tuple[Decision, ...]:
        """The newest ``limit`` decisions that had something to say, oldest first (10,000 kept).

        What turns ask for again, because it comes with the next batch or this is a dry run, is said
        once, until it changes; a note that goes on, once a minute, whatever its numbers are.
        """
        return tuple(self._decisions)[-limit:] if limit > 0 else ()

    def on_decision(self, listener: Callable[[Decision], None]) -> None:
        """Call ``listener`` with each such decision from now on, on the scheduler's thread.

        What it throws goes to the log ``laneshift``; the scheduler goes on.
        """
        self._listeners.append(listener)

    def __enter__(self) -> AutoscaleLoop:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "stopped" if not self.is_running else "paused" if self.is_paused else "running"
        return f"<laneshift scheduler {self._policy.name}, {state}, {self._turns} turns>"

    # ---- the loop

    def begin(self) -> AutoscaleLoop:
        """Start the thread; called once.

        A scheduler that has died is waited for until its claim lapses (5 s at most). Errors:
        :class:`~laneshift.errors.SessionError` if another one drives the queries, or there cannot
        be so many executors on demand.
        """
        try:
            if self._options.query is not None:
                self._follow(self._gateway.snapshot())
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
            self._wait(self._over, float(str(held.parameters["seconds"])) + 0.05)
            self._claim()

    def _claim(self) -> None:
        """Takes or renews the right to drive the queries; a dry run needs none."""
        if not self._options.dry_run and (self._run_id or self._options.query is None):
            self._gateway.claim(self._id, self._policy.name, self._run_id, CLAIM_S)

    def _look(self) -> Snapshot:
        """The queries as they are. That may take longer than a claim lasts: it is renewed."""
        live = self._steady.of(self._gateway.snapshot())
        self._looked = live.time_ms / 1000, self._clock()
        self._follow(live)
        self._claim()
        return self._silence.filled(live)

    def _now_s(self) -> float:
        """The time of the newest picture, and what has passed since (s)."""
        if self._looked is None:
            return time.time()
        looked_s, at = self._looked
        return looked_s + self._clock() - at

    def _follow(self, live: Snapshot) -> None:
        """Goes over to the run that the only query has now."""
        if self._options.query is not None:
            runs = (
                query.run_id
                for query in live.queries
                if query.active and self._options.query in (query.run_id, query.id, query.name)
            )
            self._run_id = next(runs, "")
            self._meter.only = self._presses.only = self._moves.only = self._run_id

    def _run(self) -> None:
        with self._trace or nullcontext():
            try:
                self._repeat()
            finally:
                self._brakes.release()
                if self._keys is not None and not self._options.dry_run:
                    self._keys.release()
                # Who has ended may be kept for what it has decided.
                self._memory.keep(())
                self._meter.forget()
                self._silence = Silence()
                self._states.clear()

    def _repeat(self) -> None:
        due = self._clock()
        while not self._over.is_set():
            began, busy_s = self._clock(), self._cpu()
            self._attempt(self.turn)
            now, busy_s = self._clock(), self._cpu() - busy_s
            # Turns that are too long are further apart: not made up for, and never without a rest.
            over_s = now - began - self._options.interval_s
            rest_s = max(REST * busy_s, min(over_s, self._options.interval_s))
            due = max(due + self._options.interval_s, now + rest_s)
            self._slow = _slow(busy_s, self._options.interval_s)
            hears = not self._policy.distributes
            while pressed := self._rest_until(due, hears=hears):
                self._hurry(pressed)
                now = self._clock()
                # Not over less than that: the next turn takes lanes away, too.
                due = max(due, now + min(self._options.interval_s / 2, DEAF_S))
                self._rest_until(min(due, now + DEAF_S), hears=False)

    def _attempt(self, turn: Callable[[], object]) -> bool:
        """Take a turn; whether it gave something. What it throws is told."""
        try:
            return bool(turn())
        except LaneshiftError as problem:
            self._tell(self._failed(problem))
            if problem.condition == "LANESHIFT_SESSION_STOPPED":
                self._over.set()
        except Exception as problem:
            # A policy may be the user's own: whatever it throws, the next turn tries again.
            self._tell(self._failed(problem))
        return False

    def _rest_until(self, due: float, hears: bool = True) -> tuple[Press, ...]:
        """Wait until ``due``, or for partitions that become pressed if it ``hears`` of them."""
        while (left := due - self._clock()) > 0 and not self._over.is_set():
            seconds = min(left, RENEW_S)
            if not hears:
                self._wait(self._over, seconds)
            elif pressed := self._rest(seconds):
                return pressed
            if not self._over.is_set():
                with suppress(LaneshiftError):  # the next turn says so
                    self._claim()
        return ()

    def _hurry(self, pressed: Sequence[Press]) -> None:
        """A few short turns for partitions that are pressed, and those that become so meanwhile."""
        keys: set[Key] = set()
        turns, goes_on = ShortTurns(), True
        while goes_on:
            presses = {press.key: press for press in pressed}
            keys |= presses.keys()
            added = self._attempt(partial(self.short_turn, presses, keys))
            goes_on = turns.goes_on(added) and not self._over.is_set()
            if goes_on:
                pressed = self._rest(SHORT_S)

    def _rest(self, seconds: float) -> tuple[Press, ...]:
        if self._options.query is not None and not self._run_id:
            self._wait(self._over, seconds)
            return ()
        return rest(self._presses, lambda: self._wait(self._over, seconds), seconds)

    def _failed(self, problem: Exception, executor: str = "") -> Decision:
        said = f"{type(problem).__name__}: {problem}"
        return Decision(self._now_s(), executor, self._policy.name, error=said)

    def _try(self, decide: Callable[[Island, A], D], island: Island, about: A) -> D | Decision:
        """What is decided for an island; what that throws is its own, and others' go on."""
        try:
            return decide(island, about)
        except Exception as problem:
            return self._failed(problem, island.executor)

    def turn(self) -> tuple[Decision, ...]:
        """One turn: measure, decide, send. Errors: whatever the gateway raises."""
        live = self._look()
        done: list[tuple[Decision, bool]] = []  # and whether something new was measured for it
        with self._turn, self._brakes:
            islands = self._meter.measure(live, grows=self._on_demand.is_on)
            for gone in self._states.keys() - {island.executor for island in islands}:
                del self._states[gone]
                self._told.forget(gone)
                self._answered_s.pop(gone, None)
            self._memory.keep({q.run_id for q in live.queries if q.active})
            for island in islands:
                decision = self._try(self._decide, island, live)
                if decision is not None:
                    done.append((decision, island.is_new))
            if not any(island.spans for island in islands):
                notes = self._on_demand.turn(live, None, sends=self._sends)
                done += [(self._said("", notes, self._sends), True)] if notes else []
            if self._trace is not None:
                with suppress(OSError):  # recording the cluster load has told of it
                    for moves in self._moves.since_last(live):
                        self._trace.note("moves", moves.to_json())
            self._turns += 1
        for decision, measured in done:
            self._tell(decision, measured)
        return tuple(decision for decision, _ in done)

    def short_turn(self, presses: Mapping[Key, Press], keys: Collection[Key]) -> bool:
        """A turn for partitions ``keys`` on the word of the last moment, since they became pressed
        by ``presses``: it only adds lanes. Whether it has. Errors: as :meth:`turn`.
        """
        live = self._look()
        done = []
        with self._turn:
            islands = self._meter.glance(live, presses, keys, grows=self._on_demand.is_on)
            for island in islands:
                if island.cluster is not None:
                    done.append(self._try(self._add, island, island.cluster))
            self._turns += 1
        for decision in done:
            self._tell(decision, measured=False)  # it takes nothing back
        return any(decision.changes and decision.applied for decision in done)

    def _tell(self, decision: Decision, measured: bool = True) -> None:
        if not self._told.is_news(decision, measured=measured):
            return
        self._decisions.append(decision)
        if self._trace is not None:
            with suppress(OSError):  # recording the cluster load has told of it
                self._trace.note("decision", decision.to_json())
        with suppress(LaneshiftError):  # only for the UI
            self._gateway.decided(decision.to_plugin())
        for listener in tuple(self._listeners):
            try:
                listener(decision)
            except Exception:
                # The user's own: what it throws is no reason to leave queries without a scheduler.
                _LOG.exception("A listener of the %s scheduler has failed", self._policy.name)

    @property
    def _sends(self) -> bool:
        return not (self._options.dry_run or self._paused.is_set())

    def _decide(self, island: Island, live: Snapshot) -> Decision | None:
        sends = self._sends
        if island.executor in island.silent:
            return self._said(island.executor, _silent(island), sends)
        if island.cluster is None:
            notes = self._take(island, ()) if sends else ()
            notes += self._on_demand.turn(live, island, sends=sends) if island.spans else ()
            return self._said(island.executor, notes, sends) if notes else None
        island, untasked = self._tasker.seen(island)
        assert island.cluster is not None
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
            and island.hears(name)
            and (self._policy.sizes or name in chosen or not island.partitions[name].auto)
        }
        changes = _changes(wanted, fits, island, cluster, plan)
        limits, notes = source_limits(plan, cluster, island)
        notes += (
            _silent(island)
            + refused
            + early
            + untasked
            + self._not_done(plan, island, sends)
            + self._untraced
        )
        notes += self._out_of_reach(cluster) + self._slow
        moves = 0
        asked = self._rescaler.wanted(plan.rescales, island, cluster.time_s)
        rescales = () if sends else self._rescaler.would(asked)
        tasks = () if sends else self._tasker.would(plan.tasks, island)
        if sends:
            notes += set_lanes(self._gateway, island, wanted)
            if island.spans:
                self._refusals.sent(island, wanted)
            notes += self._take(island, wanted)
            moves, more = move_shards(self._gateway, island, plan, planned)
            limits, untaken = self._brakes.hold(limits, cluster.window_s)
            rescales, refused = self._rescaler.send(asked, island, cluster.time_s)
            tasks, untasked = self._tasker.send(plan.tasks, island)
            notes += more + untaken + refused + untasked
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
            tasks=tasks,
        )

    def _add(self, island: Island, cluster: ClusterLoad) -> Decision:
        """Only lanes that the policy adds; all else is for the next turn."""
        sends = self._sends
        fits = fitting(island.held, island.budgets)
        shown = {name: (ref.home, fits[name]) for name, ref in island.partitions.items()}
        cluster = held(changed(cluster, whole=False), shown, island.budgets)
        plan = self._answer(island, cluster, None)
        planned = self._refusals.without(planned_lanes(plan, island, fits), island)
        wanted = only_more(planned, island)
        changes = _changes(wanted, fits, island, cluster, plan)
        notes: tuple[str, ...] = ()
        if sends:
            notes = set_lanes(self._gateway, island, wanted)
            if island.spans:
                self._refusals.sent(island, wanted)
        return Decision(
            cluster.time_s, island.executor, self._policy.name, changes, applied=sends, notes=notes
        )

    def _answer(self, island: Island, cluster: ClusterLoad, live: Snapshot | None) -> Plan:
        """The policy's plan; the empty one if nothing was measured since it answered last.

        ``live``: for executors on demand, which a short turn does not ask for.
        """
        last_s = self._answered_s.get(island.executor)
        if not island.is_new and last_s is not None:
            return Plan()
        if last_s is not None and cluster.time_s > last_s:
            cluster = changed(cluster, window_s=cluster.time_s - last_s)
        self._answered_s[island.executor] = cluster.time_s
        self._record(cluster)
        state = self._states.get(island.executor)
        if state is None:
            state = self._policy.start()
        plan, self._states[island.executor] = self._policy.answer(cluster, state)
        if island.spans and live is not None:
            kept, _ = without_early_releases(plan, cluster)
            self._on_demand.answered(live, island, cluster, state, kept)
        return plan

    def _record(self, cluster: ClusterLoad) -> None:
        """A disk that is full is no reason to leave queries with the lanes that they have."""
        if self._trace is None:
            return
        try:
            self._trace.record(cluster)
            self._untraced = ()
        except OSError as problem:
            self._untraced = (f"the trace cannot be written, and has a gap: {problem}",)

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
        return Decision(self._now_s(), executor, self._policy.name, applied=applied, notes=notes)


def _changes(
    wanted: Mapping[PartitionId, Lanes],
    fits: Mapping[PartitionId, Lanes],
    island: Island,
    cluster: ClusterLoad,
    plan: Plan,
) -> tuple[LaneChange, ...]:
    parts = {part.partition: part for part in cluster.partitions}
    reasons = dict(plan.reasons)
    return tuple(
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


def _slow(busy_s: float, interval_s: float) -> tuple[str, ...]:
    """A note on turns that take so much of the driver's machine that there are fewer of them."""
    least_s = (1.0 + REST) * busy_s
    if least_s <= interval_s:
        return ()
    return (
        f"a turn takes {busy_s:.2g} s of CPU: the next one begins {least_s:.2g} s after it instead"
        f" of {interval_s:g} s, so that the driver's machine has three quarters of a core left;"
        " fewer partitions, or a longer interval, are the way out",
    )


def _silent(island: Island) -> tuple[str, ...]:
    """Notes on executors that do not answer."""
    return tuple(
        f"executor {executor} does not answer: its partitions keep their lanes, and no others get"
        " lanes there until it does"
        for executor in sorted(island.silent & island.rooms.keys())
    )


def _is_chosen(lanes: Lanes, fits: Lanes, island: Island) -> bool:
    """Whether they are the policy's choice, and not all that ``fits``."""
    return lanes != fits if island.spans else lanes.total != fits.total
