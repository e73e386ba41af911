"""Policy ``static``: change nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.plan import Plan
from laneshift.contract.policy import Policy


@dataclass(frozen=True, kw_only=True)
class Static(Policy[tuple[()]]):
    """Deployed counts for the whole run (Elasticutor's and OERA's baseline) [S, P]."""

    name: ClassVar[str] = "static"
    summary: ClassVar[str] = "deployed core counts for the whole run"
    source: ClassVar[str] = "Elasticutor, 2019, and OERA, 2023: a baseline"

    def start(self) -> tuple[()]:
        """No state."""
        return ()

    def decide(self, cluster: ClusterLoad, state: tuple[()]) -> tuple[Plan, tuple[()]]:
        """The empty plan."""
        del cluster, state
        return Plan(), ()
