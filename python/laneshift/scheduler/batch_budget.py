"""How many lanes a micro-batch query may have on so many cores (ours [D]): what runs counts.

Spark runs as many tasks of a stage at a time as it has cores, those that are done leave theirs to
the ones that are not, and the stages of a query run one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from laneshift.scheduler.partition_load import PartitionLoad

__all__ = ["lanes_not_running"]


def lanes_not_running(stages: Sequence[Sequence[PartitionLoad | None]], cores: int) -> int:
    """Lanes of a query that may be there beyond one for each core (count).

    A stage with at least as many tasks as cores may have ``cores - 1`` lanes more than tasks; one
    with fewer tasks as many more than cores as its tasks wait for the longest of them.

    Args:
        stages: of each operator of the query the partitions on one executor; None for those of
            which nothing is known yet.
        cores: cores of the executor that lanes may use (>= 1).
    """
    largest = max(map(len, stages))
    others = sum(map(len, stages)) - largest
    return others + max(_not_running(stage, cores) for stage in stages if len(stage) == largest)


def _not_running(stage: Sequence[PartitionLoad | None], cores: int) -> int:
    if len(stage) >= cores:
        return len(stage) - 1
    known = [part for part in stage if part is not None]
    spans = [p.batch.work_s / max(1, p.cores) for p in known if p.batch is not None]
    longest = max(spans, default=0.0)
    if longest <= 0.0:
        return 0
    return min(len(stage) - 1, math.floor(sum(1.0 - span / longest for span in spans)))
