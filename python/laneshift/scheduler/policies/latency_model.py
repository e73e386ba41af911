"""The latency side of policy ``laneshift``: a Jackson network on forecast rates, held calm."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from laneshift.inputcheck import FloatArray, IntArray
from laneshift.models.allocation import Allocation, Outcome, allocate_cores
from laneshift.models.queueing import network_sojourn_time
from laneshift.scheduler.policies.demand import Flow
from laneshift.scheduler.view import View


@dataclass(frozen=True)
class LatencyModel:
    """The Jackson model on the forecast rates.

    Attributes:
        view, flow: what is decided on.
        target_s: bound on the mean latency (s).
        entering: forecast rows/s that enter; 0 if nothing does.
        reachable_s: the same, raised where strain alone would exceed it (s).
        rates: forecast rows/s per partition, (m,).
        service: rows/s per core, (m,), less by the strain.
        found: fewest cores that meet the target.
    """

    view: View
    flow: Flow
    target_s: float
    reachable_s: float
    entering: float
    rates: FloatArray
    service: FloatArray
    found: Allocation

    @classmethod
    def of(cls, view: View, flow: Flow, target_s: float, limits: IntArray) -> LatencyModel | None:
        """None if nothing is expected to arrive; limits: most cores per partition, (m,)."""
        # A network in steady state: a burst of one window is the queues' matter.
        rates = flow.rates[:, 0].mean(axis=1)
        service = view.service / (1.0 + np.array(flow.strain))
        seen = sum(flow.parts[i].offered_rate for i in flow.heads)
        heads = float(sum(rates[i] for i in flow.heads))
        # What enters changes in the proportion in which the heads' rates do.
        entering = view.cluster.external_rate * heads / seen if seen > 0 else heads
        if entering <= 0:
            return None
        budget = max(int(view.node_cores.sum()), len(rates))
        # Strain slows the queues, not the rows in service: the target stays reachable.
        reachable = target_s
        if target_s > float((rates / view.service).sum()) / entering:
            reachable = max(target_s, 1.05 * float((rates / service).sum()) / entering)
        found = allocate_cores(entering, rates, service, reachable, budget, limits)
        return cls(view, flow, target_s, reachable, entering, rates, service, found)

    def latency(self, cores: IntArray) -> float:
        """Mean latency with these counts (s)."""
        return network_sojourn_time(self.entering, self.rates, self.service, cores)

    def raise_counts(self, targets: IntArray) -> IntArray:
        """Counts raised until the target is met, if it can be.

        Held cores that meet it are not exchanged for a better mix, and shrinking needs a margin:
        the smaller counts must meet `SHRINK_MARGIN` of the target.
        """
        if self.found.outcome not in (Outcome.MET, Outcome.BUDGET):
            return targets
        held = np.maximum(targets, self.view.cores)
        smaller = np.maximum(targets, np.minimum(held, self.found.cores))
        for counts in (targets, smaller):
            if self.latency(counts) <= SHRINK_MARGIN * self.reachable_s:
                return counts
        if self.latency(held) <= self.reachable_s:
            return held
        return np.maximum(targets, self.found.cores)


SHRINK_MARGIN = 0.8
"""Share of the target that counts must meet for cores to be given back."""
