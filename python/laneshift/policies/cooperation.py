"""The window arithmetic of CRAA, 2018: feed-forward, feedback, trend check (Algorithms 1 and 2).

``c`` is the window that the algorithm calls n. With EDGE timing it is the one just measured, with
LEAD timing the one about to begin. Lists are indexed like the cluster load's partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from laneshift.contract.cluster_load import ClusterLoad, Feeds
from laneshift.contract.ids import PartitionId
from laneshift.contract.partition_load import PartitionLoad
from laneshift.contract.plan import Throttle
from laneshift.models.buffer import (
    feedback_choice,
    input_for_target,
    raw_level,
    throttle_room,
    transfer,
    trend_verdict,
)
from laneshift.models.kalman import RateFilter
from laneshift.policies.occupancy import Band, buffer_capacity


@dataclass
class Found:
    """Result of a run.

    Attributes:
        cores: new core counts.
        cuts: rate by which an upstream is throttled for one window (rows/s).
        cancelled: adjustments that the trend check stopped.
        requests: partitions that asked for feedback and got it.
    """

    cores: list[int]
    cuts: dict[int, float] = field(default_factory=dict)
    cancelled: int = 0
    requests: int = 0


@dataclass
class Cooperation:
    """One decision.

    Attributes:
        parts: the partitions.
        order: topological order.
        feeds: what feeds whom.
        dt: window length (s).
        lead: LEAD timing.
        capacity: P(c) without throttles (rows/s).
        level_before, level: BO(c-1), BO(c) (rows).
        rate: I(c) (rows/s).
        ahead: I(c+1), filled in as the run goes.
        head_after: I(c+2) of heads.
    """

    parts: tuple[PartitionLoad, ...]
    order: list[int]
    feeds: Feeds
    dt: float
    lead: bool
    capacity: list[float]
    level_before: list[float]
    level: list[float]
    rate: list[float]
    output: list[float]
    ahead: list[float]
    head_after: dict[int, float]
    _sums: dict[tuple[int, bool], float] = field(default_factory=dict)

    @classmethod
    def begin(
        cls,
        cluster: ClusterLoad,
        level_before: Mapping[PartitionId, float],
        filters: Mapping[PartitionId, RateFilter],
        *,
        lead: bool,
    ) -> Cooperation:
        """Measure (EDGE) or predict (LEAD) window c, and predict every input of window c+1."""
        parts, dt = cluster.partitions, cluster.window_s
        index = {part.partition: i for i, part in enumerate(parts)}
        feeds = cluster.feeds
        capacity = [part.service_rate_per_core * part.cores for part in parts]
        before = [level_before.get(part.partition, 0.0) for part in parts]
        rate = [part.offered_rate for part in parts]
        level = [part.queue_rows for part in parts]
        output = [
            part.output_rate
            if part.output_rate is not None
            else transfer(part.selectivity, part.efficiency * p, part.offered_rate, b, dt)
            for part, p, b in zip(parts, capacity, before, strict=True)
        ]
        heads = {index[head]: filters[head] for head in cluster.heads}
        if lead:
            before, rate = level, _inputs(feeds, output, heads, 1)
            level = [
                min(max(raw_level(b, i, p, dt), 0.0), buffer_capacity(part))
                for part, b, i, p in zip(parts, before, rate, capacity, strict=True)
            ]
            output = [
                transfer(part.selectivity, p, i, b, dt)
                for part, p, i, b in zip(parts, capacity, rate, before, strict=True)
            ]
        step = 2 if lead else 1
        return cls(
            parts=parts,
            order=[index[p] for p in cluster.topological_order()],
            feeds=feeds,
            dt=dt,
            lead=lead,
            capacity=capacity,
            level_before=before,
            level=level,
            rate=rate,
            output=output,
            ahead=_inputs(feeds, output, heads, step),
            head_after={i: known.forecast(step + 1) for i, known in heads.items()},
        )

    def throttles(self, found: Found) -> tuple[Throttle, ...]:
        """The cuts of a run as rates (rows/s) that upstreams may not exceed for a window."""
        return tuple(
            Throttle(self.parts[u].partition, max(0.0, self.capacity[u] - cut))
            for u, cut in sorted(found.cuts.items())
            if cut > 0
        )

    def run(
        self,
        band: Band,
        *,
        feedback: bool,
        occ_ceiling: float,
        exact_amount: bool,
        trend_tolerance: float | None,
    ) -> Found:
        """Algorithm 2 (CRAA) over all partitions; without a tolerance, without trend check."""
        found = Found([max(1, part.cores) for part in self.parts])
        after = list(self.capacity)  # P(c+1), advertised downstream whatever happens
        idle = [True] * len(self.parts)  # state NONE: may be asked to slow down
        for i in self.order:
            part = self.parts[i]
            raw = self._raw(i)
            occupancy = raw / buffer_capacity(part)
            head = not self.feeds.of[i]
            if feedback and not head and band.occ_target < occupancy < band.occ_high:
                idle[i] = False
                cuts = self._ask(i, band, after, idle, found, occ_ceiling, exact_amount)
                if cuts:
                    found.requests += 1
                    for u, cut in cuts.items():
                        found.cuts[u] = max(cut, found.cuts.get(u, 0.0))
                    self._sums.clear()
                    if self.lead:
                        self.ahead[i] = self._input_now(i, found)
                continue
            units = band.change(part, raw, self.ahead[i], self.dt)
            if units == 0:
                continue
            if not head and trend_tolerance is not None:
                coming = self._input_after(i, after, found)
                full = buffer_capacity(part)
                if not trend_verdict(units, self.ahead[i], coming, raw, full, trend_tolerance):
                    found.cancelled += 1
                    continue
            idle[i] = False
            found.cores[i] += units
            after[i] = part.service_rate_per_core * found.cores[i]
            of_others = [k for k in self._sums if i not in self.feeds.groups[k[0]]]
            self._sums = {known: self._sums[known] for known in of_others}
        return found

    def _raw(self, i: int) -> float:
        return raw_level(self.level[i], self.ahead[i], self.capacity[i], self.dt)

    def _input_now(self, i: int, found: Found) -> float:
        """I_i(c+1) with the cuts so far, Eq (3)."""
        return self._sum(i, True, lambda u: self._output_now(u, found.cuts.get(u, 0.0)))

    def _input_after(self, i: int, after: list[float], found: Found) -> float:
        """I_i(c+2) from the upstreams' announced rates; cuts act in c+1 with EDGE timing."""
        return self._sum(
            i,
            False,
            lambda u: self._output_after(u, after[u], 0.0 if self.lead else found.cuts.get(u, 0.0)),
        )

    def _sum(self, i: int, now: bool, output: Callable[[int], float]) -> float:
        """What comes to a partition; of each group once, until a count or a cut changes."""
        total = 0.0
        for group, b in self.feeds.of[i]:
            if (group, now) not in self._sums:
                self._sums[group, now] = sum(map(output, self.feeds.groups[group]))
            total += b * self._sums[group, now]
        return total

    def _output_now(self, u: int, cut: float) -> float:
        if cut == 0.0:
            return self.output[u]
        rate = self.capacity[u] - cut
        return transfer(
            self.parts[u].selectivity, rate, self.rate[u], self.level_before[u], self.dt
        )

    def _output_after(self, u: int, capacity: float, cut: float) -> float:
        return transfer(
            self.parts[u].selectivity, capacity - cut, self.ahead[u], self.level[u], self.dt
        )

    def _ask(
        self,
        i: int,
        band: Band,
        after: list[float],
        idle: list[bool],
        found: Found,
        occ_ceiling: float,
        exact_amount: bool,
    ) -> dict[int, float]:
        """Algorithm 1 (FAA): cuts of upstreams that bring partition i back to the target level.

        LEAD: throttle in c against the input of c+1, as printed. EDGE: c is over, so throttle in
        c+1 against the input of c+2, with (5) shifted by a window.
        """
        full = buffer_capacity(self.parts[i])
        if self.lead:
            start, coming = self.level[i], self._input_now(i, found)
        else:
            start, coming = self._raw(i), self._input_after(i, after, found)
        limit = input_for_target(self.capacity[i], start, full, band.occ_target, self.dt)
        need = coming - limit
        cuts: dict[int, float] = {}
        offers: dict[int, float] = {}
        for u, ratio in self.feeds.pairs(i):
            if not idle[u]:
                continue
            cuts[u] = self._room(u, after, found, occ_ceiling)
            taken = found.cuts.get(u, 0.0)
            offers[u] = ratio * (
                self._emitted(u, after, taken) - self._emitted(u, after, max(taken, cuts[u]))
            )
        chosen = feedback_choice(offers, need)
        if exact_amount and chosen:
            last = chosen[-1]
            missing = need - sum(offers[u] for u in chosen[:-1])
            cuts[last] = self._smaller_cut(i, last, after, found, cuts[last], missing)
        return {u: cuts[u] for u in chosen}

    def _emitted(self, u: int, after: list[float], cut: float) -> float:
        return self._output_now(u, cut) if self.lead else self._output_after(u, after[u], cut)

    def _room(self, u: int, after: list[float], found: Found, occ_ceiling: float) -> float:
        full = buffer_capacity(self.parts[u])
        if self.lead:
            raw = raw_level(self.level_before[u], self.rate[u], self.capacity[u], self.dt)
            surplus = self.ahead[u] - after[u]
            return throttle_room(raw, full, occ_ceiling, surplus, self.capacity[u], self.dt)
        raw = raw_level(self.level[u], self.ahead[u], after[u], self.dt)
        later = self._input_after(u, after, found) if self.feeds.of[u] else self.head_after[u]
        return throttle_room(raw, full, occ_ceiling, later - after[u], after[u], self.dt)

    def _smaller_cut(
        self, i: int, u: int, after: list[float], found: Found, most: float, missing: float
    ) -> float:
        """The cut of upstream u that lowers the input of i by ``missing`` only.

        The output is CR * min(P - d, demand): the first part of a cut only takes spare capacity.
        """
        ratio = next(b for v, b in self.feeds.pairs(i) if v == u) * self.parts[u].selectivity
        taken = found.cuts.get(u, 0.0)
        rate = self.capacity[u] if self.lead else after[u]
        selectivity = self.parts[u].selectivity
        processed = self._emitted(u, after, taken) / selectivity if selectivity else 0.0
        return min(most, max(taken, rate - processed + missing / ratio))


def _inputs(
    feeds: Feeds,
    output: list[float],
    heads: Mapping[int, RateFilter],
    step: int,
) -> list[float]:
    sums = [sum(output[u] for u in group) for group in feeds.groups]
    return [
        heads[i].forecast(step) if i in heads else sum(b * sums[group] for group, b in groups)
        for i, groups in enumerate(feeds.of)
    ]
