"""The loop: look, measure, decide, act, once per interval, on its own thread.

It only ever sends lane counts, shard moves, limits of sources, rescales, numbers of tasks and whose
work is apart, which the plugin carries out exactly: if it is slow, fails or ends, queries go on
with the lanes that they have, and limits end.

A partition that becomes pressed wakes it before its time (docs/decisions/0022): it then takes a few
short turns, which only ever add lanes, and goes on as before.
"""

from __future__ import annotations

import logging
import math
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from laneshift.autoscale.decisions import Decision, Note, failed
from laneshift.autoscale.moves import Trace
from laneshift.autoscale.options import AutoscaleOptions
from laneshift.autoscale.pictures import Key, Silence, Steady
from laneshift.autoscale.presses import DEAF_S, SHORT_S, Presses, ShortTurns, rest
from laneshift.autoscale.turns import Turns
from laneshift.contract.policy import Policy
from laneshift.errors import LaneshiftError, SessionError
from laneshift.plugin.gateway import Gateway
from laneshift.plugin.press import Press
from laneshift.plugin.snapshot import Snapshot

_LOG = logging.getLogger("laneshift")

KEPT = 10_000
"""Decisions that are remembered (ours)."""

REST = 3.0
"""So many times its CPU time the loop rests behind a turn at least (ours): it is the driver's
machine, which has queries to run."""

CLAIM_S, RENEW_S = 5.0, 1.0
"""For so long a query is an autoscaler's that is not heard of, and so often it says so (ours)."""


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
        self._id = uuid.uuid4().hex
        self._run_id = ""
        self._trace = Trace(gateway, options.trace)
        self._turns = Turns(gateway, policy, options, self._id, self._trace)
        self._slow: tuple[Note, ...] = ()
        self._presses = Presses(gateway, self._id)
        self._silence = Silence()
        self._steady = Steady()
        self._looked: tuple[float, float] | None = None  # when, by the driver's clock and by ours
        self._claimed: tuple[str, float] | None = None  # which run, and when by our clock
        self._decisions: deque[Decision] = deque(maxlen=KEPT)
        self._listeners: list[Callable[[Decision], None]] = []
        self._turn = threading.Lock()
        self._over = threading.Event()
        self._stopped = False
        self._paused = threading.Event()
        self._taken = 0
        self._thread = threading.Thread(target=self._run, name="laneshift autoscaler", daemon=True)

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
    def has_ended(self) -> bool:
        """True once it does not run any more; one that has not begun has not ended."""
        began = self._thread.ident is not None
        return self._over.is_set() or (began and not self._thread.is_alive())

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
        return self._taken

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
        if not self._thread.is_alive():
            self._trace.close()

    def decisions(self, limit: int = 100) -> tuple[Decision, ...]:
        """The newest ``limit`` decisions that had something to say, oldest first (10,000 kept).

        What turns ask for again, because it comes with the next batch or this is a dry run, is said
        once, until it changes; a note that goes on, once a minute, whatever its numbers are.
        """
        return tuple(self._decisions)[-limit:] if limit > 0 else ()

    def on_decision(self, listener: Callable[[Decision], None]) -> None:
        """Call ``listener`` with each such decision from now on, on the loop's thread.

        What it throws goes to the log ``laneshift``; the loop goes on.
        """
        self._listeners.append(listener)

    def __enter__(self) -> AutoscaleLoop:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "stopped" if not self.is_running else "paused" if self.is_paused else "running"
        return f"<laneshift autoscaler {self._policy.name}, {state}, {self._taken} turns>"

    # ---- the loop

    def begin(self) -> AutoscaleLoop:
        """Start the thread; called once.

        An autoscaler that has died is waited for until its claim lapses (5 s at most). Errors:
        :class:`~laneshift.errors.SessionError` if another one drives the queries, or there cannot
        be so many executors on demand.
        """
        try:
            if self._options.query is not None:
                self._follow(self._gateway.snapshot())
            self._claim_at_last()
            self._turns.on_demand.begin()
        except BaseException:
            self._trace.discard()
            with suppress(LaneshiftError):
                self._gateway.release(self._id)
            raise
        self._thread.start()
        return self

    def _claim_at_last(self) -> None:
        try:
            self._claim()
        except SessionError as held:
            if held.condition != "LANESHIFT_OTHER_AUTOSCALER":
                raise
            self._wait(self._over, float(str(held.parameters["seconds"])) + 0.05)
            self._claim()

    def _claim(self) -> None:
        """Takes or renews the right to drive the queries; a dry run needs none."""
        if not self._options.dry_run and (self._run_id or self._options.query is None):
            claimed = self._run_id, self._clock()
            self._gateway.claim(self._id, self._policy.name, self._run_id, CLAIM_S)
            self._claimed = claimed

    def _look(self) -> Snapshot:
        """The queries as they are. That may take longer than a claim lasts: then it is renewed."""
        live = self._steady.of(self._gateway.snapshot())
        self._looked = live.time_ms / 1000, self._clock()
        self._follow(live)
        run, at = self._claimed or ("", -math.inf)
        if run != self._run_id or self._clock() - at >= RENEW_S:
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
            self._turns.meter.only = self._trace.moves.only = self._presses.only = self._run_id

    def _run(self) -> None:
        try:
            self._repeat()
        finally:
            # Who has ended may be kept for what it has decided.
            self._turns.release(sends=not self._options.dry_run)
            self._silence = Silence()
            self._trace.close()

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
        except Exception as problem:
            # A policy may be the user's own: whatever it throws, the next turn tries again.
            self._tell(failed(self._now_s(), "", self._policy.name, problem))
            if (
                isinstance(problem, LaneshiftError)
                and problem.condition == "LANESHIFT_SESSION_STOPPED"
            ):
                self._over.set()
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

    def turn(self) -> tuple[Decision, ...]:
        """One turn: measure, decide, send. Errors: whatever the gateway raises."""
        live = self._look()
        with self._turn:
            done = self._turns.turn(live, sends=self._sends, notes=self._slow)
            self._taken += 1
        for decision, measured in done:
            self._tell(decision, measured)
        return tuple(decision for decision, _ in done)

    def short_turn(self, presses: Mapping[Key, Press], keys: Collection[Key]) -> bool:
        """A turn for partitions ``keys`` on the word of the last moment, since they became pressed
        by ``presses``: it only adds lanes. Whether it has. Errors: as :meth:`turn`.
        """
        live = self._look()
        with self._turn:
            done = self._turns.short_turn(live, presses, keys, sends=self._sends)
            self._taken += 1
        for decision in done:
            self._tell(decision, measured=False)  # it takes nothing back
        return any(decision.changes and decision.applied for decision in done)

    def _tell(self, decision: Decision, measured: bool = True) -> None:
        if not self._turns.told.is_news(decision, measured=measured):
            return
        self._decisions.append(decision)
        self._trace.decision(decision)
        with suppress(LaneshiftError):  # only for the UI
            self._gateway.decided(decision.to_plugin())
        for listener in tuple(self._listeners):
            try:
                listener(decision)
            except Exception:
                # The user's own: what it throws is no reason to leave queries without the loop.
                _LOG.exception("A listener of the policy %s has failed", self._policy.name)

    @property
    def _sends(self) -> bool:
        return not (self._options.dry_run or self._paused.is_set())


def _slow(busy_s: float, interval_s: float) -> tuple[Note, ...]:
    """A note on turns that take so much of the driver's machine that there are fewer of them."""
    least_s = (1.0 + REST) * busy_s
    if least_s <= interval_s:
        return ()
    text = (
        f"a turn takes {busy_s:.2g} s of CPU: the next one begins {least_s:.2g} s after it instead"
        f" of {interval_s:g} s, so that the driver's machine has three quarters of a core left;"
        " fewer partitions, or a longer interval, are the way out"
    )
    return (Note(text, "a turn takes long"),)
