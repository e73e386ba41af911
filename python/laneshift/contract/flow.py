"""A measured cluster load as a policy's models read it: one flow of rows, whatever the mode.

The models know rates of rows and of cores. In micro-batch a core is of use only in the part of each
period that the target leaves: its rate is taken as so much lower. A partition then keeps up exactly
if its batches keep to the target, and every policy, which lets nobody fall behind, sizes for it.

Occupancy is that of a bounded buffer, as CRAA, 2018, and OERA, 2023, mean it. Nothing in Spark has
such a bound by itself, so it is set in time: the rows that a partition can serve in ``buffer_s``.
"""

from __future__ import annotations

import math
from dataclasses import replace

from laneshift.contract.batch_load import BatchLoad
from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.measured import changed
from laneshift.contract.partition_load import PartitionLoad

TARGET_UTILISATION = 0.7
"""Default of ``target_utilisation``, as users know it from other autoscalers."""

BUFFER_S = 1.0
"""Default of ``buffer_s`` (s, ours)."""


def as_flow(
    cluster: ClusterLoad,
    target_utilisation: float = TARGET_UTILISATION,
    target_batch_s: float | None = None,
    buffer_s: float | None = None,
) -> ClusterLoad:
    """``cluster`` with rates and buffers as the models read them.

    Args:
        cluster: what was measured.
        target_utilisation: share of a micro-batch's period that work may take, in (0, 1].
        target_batch_s: how long a paced micro-batch may take at most (s, > 0), or none.
        buffer_s: size of a partition's buffer (s, > 0); none: as measured.
    """
    if buffer_s is None and all(part.batch is None for part in cluster.partitions):
        return cluster
    parts = []
    for part in cluster.partitions:
        seen, use = part, None
        if part.batch is not None:
            seen = _usable(part, part.batch, target_utilisation, target_batch_s)
            use = seen.offered_load / max(1, seen.cores)
        if buffer_s is not None:
            seen = _buffered(seen, buffer_s, use, target_utilisation)
        parts.append(seen)
    return changed(cluster, partitions=tuple(parts))


def _usable(
    part: PartitionLoad, batch: BatchLoad, target_utilisation: float, target_batch_s: float | None
) -> PartitionLoad:
    share = batch.available_s(target_utilisation, target_batch_s) / batch.period_s
    return replace(
        part,
        service_rate_per_core=part.service_rate_per_core * share,
        hot_keys=tuple(replace(hot, load_cores=hot.load_cores / share) for hot in part.hot_keys),
    )


def _buffered(
    part: PartitionLoad, buffer_s: float, use: float | None, target_utilisation: float
) -> PartitionLoad:
    """With a buffer of ``buffer_s`` seconds of service, full if back-pressure acts.

    ``use``: of a micro-batch, its work over what its lanes can do by the target. It fills the
    buffer as far as the batch takes of the time between the target and the whole period.
    """
    capacity = buffer_s * part.service_rate_per_core * max(1, part.cores)
    waiting = part.queue_rows
    if use is not None and use > 1.0:
        spare = 1.0 / target_utilisation - 1.0
        waiting += capacity * ((use - 1.0) / spare if spare > 0 else math.inf)
    if part.saturated:
        waiting = math.inf
    if part.queue_capacity_rows is not None and part.queue_capacity_rows < capacity:
        waiting = math.inf if waiting >= part.queue_capacity_rows else waiting
        capacity = part.queue_capacity_rows
    return changed(part, queue_rows=min(waiting, capacity), queue_capacity_rows=capacity)
