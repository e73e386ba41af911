"""Whether a core of another node is worth its way, for partitions of running queries (ours [D]).

A row for a core elsewhere is sent there, and what follows from it comes back. That is work for both
ends that a core at home would not have: if it is not far less than the row's own, the core at home
that sends rows would better work on them. Only what always keeps a core at home is judged: in the
papers' model there is no such core, and locality is a matter of the network alone.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.measured import changed
from laneshift.contract.partition_load import NodeCores, PartitionLoad
from laneshift.contract.plan import Plan, Reason, Shortfall
from laneshift.inputcheck import IntArray
from laneshift.policies.placing import cores_of
from laneshift.policies.view import View

__all__ = ["near_only", "with_far_cores"]

ROW_S, BYTE_S = 10e-6, 10e-9
"""CPU time of a row's way there and back, and of each of its bytes, both ends together: at 115,000
rows of 200 bytes a second two cores were busy with little else (benchmarks/results/remote.md)."""

WORTH, STILL_WORTH = 3.0, 1.5
"""A row's work must be so many times its way for the first core elsewhere, and to keep those that
there are (ours)."""


def near_only(cluster: ClusterLoad) -> tuple[ClusterLoad, tuple[Shortfall, ...]]:
    """``cluster`` with partitions to which cores elsewhere are not worth it at home altogether.

    A shortfall says so of each that has more work than its node has cores.
    """
    cores = {node.node: node.cores for node in cluster.nodes}
    parts, shortfalls = [], []
    for part in cluster.partitions:
        if part.kept_at_home == 0 or part.stays_home or _is_worth_it(part):
            parts.append(part)
            continue
        here = cores[part.home]
        most = here if part.max_cores is None else min(part.max_cores, here)
        parts.append(_at_home(part, most))
        if part.offered_load > here or (part.saturated and part.cores_on(part.home) >= here):
            shortfalls.append(
                Shortfall(
                    Reason.PLACEMENT,
                    None,
                    here,
                    f"{part.partition} stays on executor {part.home}: {_words(part)}",
                    f"{part.partition} stays on executor {part.home}",
                )
            )
    return changed(cluster, partitions=tuple(parts)), tuple(shortfalls)


def with_far_cores(plan: Plan, seen: ClusterLoad, cluster: ClusterLoad) -> Plan:
    """``plan``, made for ``seen``, as one for ``cluster``, of which `near_only` made it.

    It has words on each partition that has cores elsewhere.
    """
    after = _after(plan, seen)
    counts, cells = View.of(cluster).changes(after)
    reasons = []
    for row, part in zip(after, cluster.partitions, strict=True):
        far = sum(
            int(n) for n, node in zip(row, cluster.nodes, strict=True) if node.node != part.home
        )
        if far and part.kept_at_home:
            here = next(node.cores for node in cluster.nodes if node.node == part.home)
            reasons.append(
                (part.partition, f"executor {part.home} has {cores_of(here)}, and {_words(part)}")
            )
    return replace(
        plan, core_changes=counts, placement_changes=cells, reasons=(*plan.reasons, *reasons)
    )


def _after(plan: Plan, seen: ClusterLoad) -> IntArray:
    """Cores of partitions (rows) on nodes once ``plan`` is carried out."""
    row = {part.partition: i for i, part in enumerate(seen.partitions)}
    column = {node.node: i for i, node in enumerate(seen.nodes)}
    after = View.of(seen).placement.copy()
    for change in plan.placement_changes:
        after[row[change.partition], column[change.node]] = change.after
    return np.asarray(after)


def _at_home(part: PartitionLoad, most: int) -> PartitionLoad:
    if part.cores_on(part.home) != part.cores:
        placement = (NodeCores(part.home, part.cores_on(part.home)),)
        part = changed(part, placement=placement, lanes=(), shards=None)
    return changed(part, stays_home=True, max_cores=max(1, most))


def _is_worth_it(part: PartitionLoad) -> bool:
    has_some = part.cores_on(part.home) != part.cores
    return _work_s(part) >= (STILL_WORTH if has_some else WORTH) * _way_s(part)


def _work_s(part: PartitionLoad) -> float:
    """CPU time of a row (s); a micro-batch's rate per core is that of the time it may take."""
    if part.batch is not None and part.batch.rows > 0:
        return part.batch.work_s / part.batch.rows
    return 1.0 / part.service_rate_per_core


def _way_s(part: PartitionLoad) -> float:
    traffic = part.input_bytes_per_s + part.output_bytes_per_s
    rows = max(part.offered_rate, part.output_rate or 0.0)  # the queue is served when none come
    return ROW_S + (BYTE_S * traffic / rows if rows > 0 else 0.0)


def _words(part: PartitionLoad) -> str:
    return f"a row is {_time(_work_s(part))} of work, its way to another one {_time(_way_s(part))}"


def _time(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{1e6 * seconds:,.3g} µs"
    return f"{1e3 * seconds:,.3g} ms" if seconds < 1 else f"{seconds:,.3g} s"
