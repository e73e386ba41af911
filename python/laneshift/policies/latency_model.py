"""The latency side of policy ``laneshift``: a Jackson network on forecast rates, held calm."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from laneshift.inputcheck import FloatArray, IntArray
from laneshift.models.allocation import Allocation, Network, Outcome, allocate_shared
from laneshift.models.queueing import network_sojourn_time
from laneshift.policies.demand import Flow
from laneshift.policies.view import View


@dataclass(frozen=True)
class LatencyModel:
    """The Jackson model of one query on the forecast rates.

    Attributes:
        rows: the query's partitions, (m,); every array is in their order.
        held: cores held, (m,).
        target_s: bound on the mean latency (s).
        entering: forecast rows/s that enter; 0 if nothing does.
        reachable_s: the same, raised where strain alone would exceed it (s).
        rates: forecast rows/s per partition, (m,).
        service: rows/s per core, (m,), less by the strain.
        found: fewest cores that meet the target.
    """

    rows: IntArray
    held: IntArray
    target_s: float
    reachable_s: float
    entering: float
    rates: FloatArray
    service: FloatArray
    found: Allocation

    @classmethod
    def of(cls, view: View, flow: Flow, target_s: float, limits: IntArray) -> list[LatencyModel]:
        """Of each query for which rows are expected; limits: most cores per partition, (m,)."""
        # A network in steady state: a burst of one window is the queues' matter.
        rates = flow.rates[:, 0].mean(axis=1)
        service = view.service / (1.0 + np.array(flow.strain))
        asked: list[tuple[IntArray, Network]] = []
        for query, members in view.cluster.queries.items():
            if any(flow.parts[i].batch is not None for i in members):
                continue  # rows wait for their batch, whatever the lanes do
            rows = np.array(members)
            mine = set(members)
            seen = sum(flow.parts[i].offered_rate for i in flow.heads if i in mine)
            heads = float(sum(rates[i] for i in flow.heads if i in mine))
            # What enters changes in the proportion in which the heads' rates do.
            measured = view.cluster.external_rate_of(query)
            entering = measured * heads / seen if seen > 0 else heads
            if entering > 0:
                # Strain slows the queues, not the rows in service: the target stays reachable.
                reachable = target_s
                if target_s > float((rates[rows] / view.service[rows]).sum()) / entering:
                    slowed = float((rates[rows] / service[rows]).sum()) / entering
                    reachable = max(target_s, 1.05 * slowed)
                network = Network(entering, rates[rows], service[rows], reachable, limits[rows])
                asked.append((rows, network))
        if not asked:
            return []
        budget = max(int(view.node_cores.sum()), len(rates))
        shared = allocate_shared([network for _, network in asked], budget)
        return [
            cls(
                rows,
                view.cores[rows],
                target_s,
                network.target_s,
                network.external_rate,
                network.arrival_rates,
                network.service_rates,
                found,
            )
            for (rows, network), found in zip(asked, shared, strict=True)
        ]

    def latency(self, cores: IntArray) -> float:
        """Mean latency of the query with these counts of its partitions (s)."""
        return network_sojourn_time(self.entering, self.rates, self.service, cores)

    def raise_counts(self, targets: IntArray) -> IntArray:
        """Counts of its partitions, raised until the target is met, if it can be.

        Held cores that meet it are not exchanged for a better mix, and shrinking needs a margin:
        the smaller counts must meet `SHRINK_MARGIN` of the target.
        """
        if self.found.outcome not in (Outcome.MET, Outcome.BUDGET, Outcome.CORE_LIMIT):
            return targets
        held = np.maximum(targets, self.held)
        smaller = np.maximum(targets, np.minimum(held, self.found.cores))
        for counts in (targets, smaller):
            if self._latency_of_others(counts) <= SHRINK_MARGIN * self.reachable_s:
                return counts
        if self._latency_of_others(held) <= self.reachable_s:
            return held
        return np.maximum(targets, self.found.cores)

    def _latency_of_others(self, cores: IntArray) -> float:
        """Mean latency, without the partitions that their own limits keep from the target (s)."""
        limited = self.found.limited
        if not limited.any():
            return self.latency(cores)
        load, rest = self.rates / self.service, ~limited
        if bool((cores[limited] < self.found.cores[limited]).any()):
            return math.inf  # they get what they can use
        entering = self.entering * float(load[rest].sum() / load.sum())
        return network_sojourn_time(entering, self.rates[rest], self.service[rest], cores[rest])


SHRINK_MARGIN = 0.8
"""Share of the target that counts must meet for cores to be given back."""
