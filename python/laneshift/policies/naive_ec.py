"""Policy ``naive-ec``: Elasticutor without migration cost and locality."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from laneshift.policies.elasticutor import Elasticutor


@dataclass(frozen=True, kw_only=True)
class NaiveEc(Elasticutor):
    """Identical to `Elasticutor`, with the scheduler's optimisations off [S].

    The authors' prototype feeds it s_j = 0 and d_j = 0 [XP]: all migration costs tie at 0 and no
    partition is data-intensive, so cores come from the lowest donor and the lowest node.
    """

    name: ClassVar[str] = "naive-ec"
    summary: ClassVar[str] = "elasticutor blind to state size and data intensity"
    source: ClassVar[str] = "Elasticutor, 2019: a baseline"

    _costs: ClassVar[bool] = False
