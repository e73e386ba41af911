"""One turn of the loop: measure, decide, act, and remember, for whoever looks at the queries.

It knows no thread and no clock: time comes with the snapshots. The loop takes turns for running
queries, the simulator for those that it simulates.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from laneshift.autoscale.act import (
    Refusals,
    TakenOver,
    grown,
    move_shards,
    planned_lanes,
    set_lanes,
    without_early_releases,
)
from laneshift.autoscale.cores import Island, fitting, held
from laneshift.autoscale.decisions import (
    Decision,
    LaneChange,
    Note,
    Told,
    because,
    failed,
    gave_way,
    not_done,
    out_of_reach,
)
from laneshift.autoscale.executors import OnDemand
from laneshift.autoscale.measure import Meter
from laneshift.autoscale.memory import Memory
from laneshift.autoscale.moves import Trace
from laneshift.autoscale.options import AutoscaleOptions
from laneshift.autoscale.pictures import Key, Lanes
from laneshift.autoscale.presses import only_more
from laneshift.autoscale.queries import KeyWishes, Rescaler, Tasker, shuffles
from laneshift.autoscale.sources import Brakes
from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.ids import PartitionId
from laneshift.contract.measured import changed
from laneshift.contract.plan import Plan
from laneshift.contract.policy import Policy, SizingPolicy
from laneshift.plugin.gateway import Gateway
from laneshift.plugin.press import Press
from laneshift.plugin.snapshot import Snapshot


class Turns:
    """What a policy does with queries, turn by turn. Not safe for several threads.

    Args:
        gateway: what commands go to.
        autoscaler: by which the gateway knows who sends them.
        trace: where what the policy is shown is recorded.

    Attributes:
        meter: what measures.
        on_demand: what asks for executors; it has to begin before the first turn.
        told: which decisions are news.
    """

    def __init__(
        self,
        gateway: Gateway,
        policy: Policy[Any],
        options: AutoscaleOptions,
        autoscaler: str,
        trace: Trace,
    ) -> None:
        self._gateway = gateway
        self._policy = policy
        self._trace = trace
        self.meter = Meter(
            None if options.query is None else "",
            options.cores,
            policy.places,
            policy.distributes,
        )
        self.on_demand = OnDemand(gateway, autoscaler, policy, options)
        self.told = Told()
        self._answers: dict[str, tuple[float, Any]] = {}  # by executor: when, and the state then
        self._memory = Memory()
        self._taken = TakenOver(self._memory)
        self._refusals = Refusals(self._memory)
        self._brakes = Brakes(gateway)
        self._rescaler = Rescaler(gateway, self._memory)
        self._tasker = Tasker(gateway, self._memory)
        self._keys = None
        if policy.distributes:
            self._keys = KeyWishes(gateway, options.interval_s, self._memory)

    def turn(
        self, live: Snapshot, *, sends: bool, notes: tuple[Note, ...] = ()
    ) -> list[tuple[Decision, bool]]:
        """Decisions on ``live``, carried out if it ``sends``, and whether something new was
        measured for them. ``notes``: what else there is to say with each.

        What is thrown for one island is its decision's error. Errors: what the gateway raises.
        """
        done: list[tuple[Decision, bool]] = []
        with self._brakes:
            islands = self.meter.measure(live, grows=self.on_demand.is_on)
            for gone in self._answers.keys() - {island.executor for island in islands}:
                del self._answers[gone]
                self.told.forget(gone)
            self._memory.keep({q.run_id for q in live.queries if q.active})
            for island in islands:
                decision = self._try(partial(self._decide, more=notes), island, live, sends)
                if decision is not None:
                    done.append((decision, island.is_new))
            if not any(island.spans for island in islands):
                said = self.on_demand.turn(live, None, sends=sends)
                done += [(self._said("", live, said, sends), True)] if said else []
            self._trace.moved(live)
        return done

    def short_turn(
        self, live: Snapshot, presses: Mapping[Key, Press], keys: Collection[Key], *, sends: bool
    ) -> list[Decision]:
        """Decisions on partitions ``keys`` since they became pressed by ``presses``: they only add
        lanes. Errors: as :meth:`turn`.
        """
        islands = self.meter.glance(live, presses, keys, grows=self.on_demand.is_on)
        found = (self._try(self._add, island, live, sends) for island in islands)
        return [decision for decision in found if decision is not None]

    def release(self, *, sends: bool) -> None:
        """End what is held for a while, and forget all: there will be no turns any more."""
        self._brakes.release()
        if self._keys is not None and sends:
            self._keys.release()
        self._memory.keep(())
        self.meter.forget()
        self._answers.clear()

    def _try(
        self,
        decide: Callable[[Island, Snapshot, bool], Decision | None],
        island: Island,
        live: Snapshot,
        sends: bool,
    ) -> Decision | None:
        """What is decided for an island; what that throws is its own, and others' go on."""
        try:
            return decide(island, live, sends)
        except Exception as problem:
            return failed(live.time_ms / 1000, island.executor, self._policy.name, problem)

    def _said(
        self, executor: str, live: Snapshot, notes: tuple[Note, ...], sends: bool
    ) -> Decision:
        now_s = live.time_ms / 1000
        return Decision(now_s, executor, self._policy.name, applied=sends, notes=notes)

    def _decide(
        self, island: Island, live: Snapshot, sends: bool, more: tuple[Note, ...]
    ) -> Decision | None:
        if island.executor in island.silent:
            return self._said(island.executor, live, _silent(island), sends)
        if island.cluster is None:
            notes = self._take(island, ()) if sends else ()
            notes += self.on_demand.turn(live, island, sends=sends) if island.spans else ()
            return self._said(island.executor, live, notes, sends) if notes else None
        island, untasked = self._tasker.seen(island)
        assert island.cluster is not None
        refused = self._refusals.look(island, island.cluster.time_s)
        cluster, fits = _fitted(island, island.cluster)
        plan, early = self._answer(island, cluster, live)
        planned = self._refusals.without(planned_lanes(plan, island, fits), island)
        chosen = {change.partition for change in plan.core_changes}
        wanted = {
            name: lanes
            for name, lanes in planned.items()
            if lanes != island.partitions[name].lanes
            and island.hears(name)
            and (self._policy.sizes or name in chosen or not island.partitions[name].part.auto)
        }
        notes = _silent(island) + refused + early + untasked
        notes += self._not_done(plan, island, sends) + self._trace.gap
        notes += self._out_of_reach(cluster) + more
        moves = 0
        if sends:
            notes += self._set(wanted, island) + self._take(island, wanted)
            moves, unmoved = move_shards(self._gateway, island, plan, planned)
            notes += unmoved
        limits, unheld = self._brakes.turn(plan, cluster, island, sends=sends)
        now_s = cluster.time_s
        rescales, unscaled = self._rescaler.turn(plan.rescales, island, now_s, sends=sends)
        tasks, untasked = self._tasker.turn(plan.tasks, island, now_s, sends=sends)
        notes += unheld + unscaled + untasked
        if island.spans:
            notes += self.on_demand.turn(live, island, sends=sends)
        changes = _changes(wanted, fits, island, cluster, plan)
        return Decision(
            now_s, island.executor, self._policy.name, changes, limits, moves, sends, notes,
            rescales=rescales, tasks=tasks,
        )  # fmt: skip

    def _add(self, island: Island, live: Snapshot, sends: bool) -> Decision | None:
        """Only lanes that the policy adds; all else is for the next turn."""
        if island.cluster is None:
            return None
        cluster, fits = _fitted(island, changed(island.cluster, whole=False))
        plan, _ = self._answer(island, cluster, None)
        planned = planned_lanes(only_more(plan, cluster), island, fits)
        wanted = grown(self._refusals.without(planned, island), island)
        notes = self._set(wanted, island) if sends else ()
        changes = _changes(wanted, fits, island, cluster, plan)
        said = self._said(island.executor, live, notes, sends)
        return replace(said, changes=changes)

    def _answer(
        self, island: Island, cluster: ClusterLoad, live: Snapshot | None
    ) -> tuple[Plan, tuple[Note, ...]]:
        """The policy's plan but for what is too early, with notes on that; the empty one if nothing
        was measured since it answered last.

        ``live``: for executors on demand, which a short turn does not ask for.
        """
        last_s, state = self._answers.get(island.executor, (None, None))
        if not island.is_new and last_s is not None:
            return Plan(), ()
        if last_s is not None and cluster.time_s > last_s:
            cluster = changed(cluster, window_s=cluster.time_s - last_s)
        self._trace.load(cluster)
        if state is None:
            state = self._policy.start()
        self._answers[island.executor] = (cluster.time_s, state)
        plan, after = self._policy.answer(cluster, state)
        self._answers[island.executor] = (cluster.time_s, after)
        plan, early = without_early_releases(plan, cluster)
        if island.spans and live is not None:
            self.on_demand.answered(live, island, cluster, state, plan)
        return plan, early

    def _set(self, wanted: Mapping[PartitionId, Lanes], island: Island) -> tuple[Note, ...]:
        """Sends lanes, and remembers that they were; notes on what was refused."""
        notes = set_lanes(self._gateway, island, wanted)
        self._refusals.sent(island, wanted)
        return notes

    def _take(self, island: Island, changed: Collection[PartitionId]) -> tuple[Note, ...]:
        """Takes over what the policy decides from now on; notes on what it cannot have."""
        notes: tuple[Note, ...] = ()
        if self._policy.sizes:
            notes += self._taken.take(self._gateway, island, changed)
        if self._keys is not None:
            notes += self._keys.claim(island)
        return notes

    def _not_done(self, plan: Plan, island: Island, sends: bool) -> tuple[Note, ...]:
        """What a plan does with keys, what cannot be done, and what it does not reach."""
        if self._keys is None:
            return not_done(plan)
        keys = self._keys.decide(plan, island, sends=sends)
        return (*shuffles(plan, sends=sends), *keys, *not_done(replace(plan, key_splits=())))

    def _out_of_reach(self, cluster: ClusterLoad) -> tuple[Note, ...]:
        """Notes on micro-batch queries whose batches cannot keep to the policy's targets."""
        if not isinstance(self._policy, SizingPolicy):
            return ()
        return out_of_reach(cluster, self._policy.target_utilisation, self._policy.target_batch_s)


def _fitted(island: Island, cluster: ClusterLoad) -> tuple[ClusterLoad, dict[PartitionId, Lanes]]:
    """``cluster`` with the lanes that fit into the budgets, and these."""
    fits = fitting(island.held, island.budgets)
    lanes = {name: (seen.home, fits[name]) for name, seen in island.partitions.items()}
    return held(cluster, lanes, island.budgets), fits


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


def _is_chosen(lanes: Lanes, fits: Lanes, island: Island) -> bool:
    """Whether they are the policy's choice, and not all that ``fits``."""
    return lanes != fits if island.spans else lanes.total != fits.total


def _silent(island: Island) -> tuple[Note, ...]:
    """Notes on executors that do not answer."""
    return tuple(
        Note(
            f"executor {executor} does not answer: its partitions keep their lanes, and no others"
            " get lanes there until it does"
        )
        for executor in sorted(island.silent & island.rooms.keys())
    )
