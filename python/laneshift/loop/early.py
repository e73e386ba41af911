"""What a plan takes away too early: on the word of a batch that may have had a part of its rows."""

from __future__ import annotations

from dataclasses import replace

from laneshift.scheduler.cluster_load import ClusterLoad
from laneshift.scheduler.plan import Plan


def without_early_releases(plan: Plan, cluster: ClusterLoad) -> tuple[Plan, tuple[str, ...]]:
    """The plan without fewer lanes for partitions whose rate is known at least, and a note on each.

    What such a batch asks for beyond the lanes that there are is needed in any case.
    """
    amid = {p.partition for p in cluster.partitions if p.batch is not None and p.batch.at_least}
    early = {c.partition for c in plan.core_changes if c.after < c.before and c.partition in amid}
    if not early:
        return plan, ()
    kept = replace(
        plan,
        core_changes=tuple(c for c in plan.core_changes if c.partition not in early),
        placement_changes=tuple(c for c in plan.placement_changes if c.partition not in early),
        reasons=tuple(r for r in plan.reasons if r[0] not in early),
    )
    return kept, tuple(
        f"{name} keeps its lanes for one more batch: the rows of this one may be a part of what "
        "comes in an interval"
        for name in sorted(early)
    )
